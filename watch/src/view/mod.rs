//! The live view: a loop that looks at pages, draws, and waits for a key or the time to look again.
//!
//! `model` is the state and knows no terminal, `grid` a table, `draw` makes pictures of the state. Only cells that changed are sent, so it works over a slow line; what is
//! not asked for is not read. However it ends, `ending` gives the terminal back as it was.

mod draw;
mod ending;
pub(crate) mod grid;
mod model;
#[cfg(test)]
mod tests;

use std::env;
use std::io::{IsTerminal, stdout};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use ratatui_crossterm::crossterm::event::{self, Event, KeyEventKind};

use crate::{left, process};
use draw::Means;
use model::{Model, Screen, Wish};

/// Shows all processes, or one, until the user leaves. An error: standard output is no terminal, or none on which anything can be drawn.
pub fn show(pid: Option<u32>, pause: Duration, colours: bool) -> Result<()> {
    if !stdout().is_terminal() {
        bail!("standard output is no terminal; use --once, with --json for programs");
    }
    if env::var("TERM").is_ok_and(|term| term == "dumb") {
        bail!("nothing can be drawn on this terminal (TERM is dumb); use --once, or tell by TERM what it is");
    }
    let means = Means { colours, unicode: speaks_unicode() };
    let mut model = Model::new(pid, pause.as_millis() as u64);
    ending::restore_on_signals().context("signals cannot be waited for")?;
    let mut terminal = ending::take().context("the terminal cannot be used")?;
    let ended = run(&mut terminal, &mut model, means);
    ended.and(ending::restore().context("the terminal cannot be given back"))
}

fn run(terminal: &mut ending::Taken, model: &mut Model, means: Means) -> Result<()> {
    let mut looked: Option<Instant> = None;
    loop {
        let pause = Duration::from_millis(model.pause_ms);
        if looked.is_none_or(|looked| looked.elapsed() >= pause) {
            look(model);
            looked = Some(Instant::now());
        }
        ending::unless_ended(|| terminal.draw(|frame| draw::draw(frame, model, means)).map(drop))?;
        let left = looked.map_or(pause, |looked| pause.saturating_sub(looked.elapsed()));
        if !event::poll(left)? {
            continue;
        }
        if let Event::Key(key) = event::read()?
            && key.kind != KeyEventKind::Release
        {
            match model.press(key) {
                Wish::Stay => {}
                Wish::Look => looked = None,
                Wish::Quit => return Ok(()),
            }
        }
    }
}

/// Reads what the screen shows.
fn look(model: &mut Model) {
    if model.is_paused {
        return;
    }
    match model.screen {
        Screen::List => {
            let (processes, errors) = process::all();
            model.take(processes, left::reasons(&errors));
        }
        Screen::One(pid, _) => match process::find(pid) {
            Ok(process) => model.take(vec![process], Vec::new()),
            Err(error) => {
                model.take(Vec::new(), vec![format!("{error:#}")]);
                if !process::exists(pid) {
                    model.end(pid);
                }
            }
        },
    }
}

/// By the first of the variables that decide.
fn speaks_unicode() -> bool {
    let said = ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .find_map(|variable| env::var(variable).ok().filter(|value| !value.is_empty()));
    said.is_some_and(|value| value.to_lowercase().replace('-', "").contains("utf8"))
}
