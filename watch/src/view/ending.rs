//! The terminal is given back as it was found: echo, line editing, the cursor, and what was on the screen before.
//!
//! Also when a signal ends the view: a thread waits for those that do, gives the terminal back, and then lets the signal do what it does. Whoever draws at that
//! moment is waited for, and draws no more. The keyboard's Ctrl-C is no signal while the view is there.

use std::io::{self, Stdout, stdout};
use std::panic;
use std::sync::{Mutex, PoisonError};
use std::thread;

use ratatui_core::terminal::Terminal;
use ratatui_crossterm::CrosstermBackend;
use ratatui_crossterm::crossterm::cursor::Show;
use ratatui_crossterm::crossterm::execute;
use ratatui_crossterm::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

/// Who has it may draw.
static PEN: Mutex<()> = Mutex::new(());

/// The terminal while it is taken.
pub type Taken = Terminal<CrosstermBackend<Stdout>>;

/// Takes the terminal, which a panic gives back.
pub fn take() -> io::Result<Taken> {
    let report = panic::take_hook();
    panic::set_hook(Box::new(move |why| {
        let _ = restore();
        report(why);
    }));
    enable_raw_mode()?;
    execute!(stdout(), EnterAlternateScreen)?;
    Terminal::new(CrosstermBackend::new(stdout()))
}

/// Gives the terminal back before one of these signals ends the process.
///
/// A hang-up, too, and also where whoever started the process ignores it: there is no use in a view that nobody sees.
pub fn restore_on_signals() -> io::Result<()> {
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGQUIT, SIGTERM])?;
    let wait = move || {
        for signal in &mut signals {
            // Never given back: the process ends here.
            let _pen = PEN.lock();
            // There may be no terminal any more.
            let _ = restore();
            let _ = emulate_default_handler(signal);
        }
    };
    thread::Builder::new().name("commensal-top".to_owned()).spawn(wait).map(drop)
}

/// Draws, unless the terminal was given back because of a signal: then this waits for the end.
pub fn unless_ended(draw: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    let _pen = PEN.lock().unwrap_or_else(PoisonError::into_inner);
    draw()
}

/// Gives the terminal back.
pub fn restore() -> io::Result<()> {
    disable_raw_mode()?;
    execute!(stdout(), LeaveAlternateScreen, Show)
}
