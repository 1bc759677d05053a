//! `commensal stat`, `commensal slabinfo` and `commensal top`: statistics of processes, once, at intervals, or live.

use std::io::{self, ErrorKind, Write};
use std::os::fd::OwnedFd;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anstream::{AutoStream, ColorChoice};
use clap::Args;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use watch::process::{Process, State};
use watch::series::Series;
use watch::{json, left, process, reference, text};

use crate::failure::Failure;
use crate::places;

/// Show the statistics of a process under the library, or a list of all such processes
///
/// With SECONDS, prints a line for each interval, as vmstat. The first line has what was counted since the process started,
/// each other line what was added since the line before. Counts are those of the process's page, which it writes twice a
/// second while it does something.
///
/// Exit status: 0; 1 if the process ends before COUNT lines; 125 if it has no page.
#[derive(Args)]
pub struct Stat {
    /// The number of the process; without it, a list of all
    #[arg(value_parser = number)]
    pid: Option<u32>,

    /// Seconds between two lines, 0.1 to 60
    #[arg(value_parser = seconds)]
    seconds: Option<f64>,

    /// How many lines to print; without it, until the process ends
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    count: Option<u64>,

    /// Print everything as JSON; with SECONDS, an object on each line
    #[arg(long)]
    json: bool,

    /// Remove the statistics pages of processes that are gone, and say which
    #[arg(long, exclusive = true)]
    clear: bool,

    /// The reference of the book
    #[arg(long, hide = true, exclusive = true)]
    reference: bool,
}

/// Show the caches of a process under the library, in the columns of the kernel's /proc/slabinfo
#[derive(Args)]
pub struct Slabinfo {
    /// The number of the process
    #[arg(value_parser = number)]
    pid: u32,
}

/// The number of a process. People try names, so the error says which processes there are, and those of the name first.
pub fn number(text: &str) -> Result<u32, String> {
    text.parse()
        .map_err(|_| format!("expected the number of a process with a statistics page; {}", process::hint_now(text)))
}

/// Shows or clears.
pub fn stat(request: &Stat) -> Result<ExitCode, Failure> {
    if request.reference {
        places::show(&reference::page(), None)?;
        return Ok(ExitCode::SUCCESS);
    }
    if request.clear {
        places::show(&left::clear(), None)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let (Some(pid), Some(seconds)) = (request.pid, request.seconds) {
        return series(pid, seconds, request.count, request.json);
    }
    show(request.pid, request.json)
}

/// Shows one process, or all, once.
pub fn show(pid: Option<u32>, as_json: bool) -> Result<ExitCode, Failure> {
    let shown = match pid {
        Some(pid) => {
            let process = process::find(pid).map_err(Failure::of)?;
            if as_json { pretty(&json::of(&process)) } else { text::of(&process) }
        }
        None => {
            let (processes, unreadable) = process::all();
            if as_json {
                pretty(&json::all(&processes, &unreadable))
            } else {
                left::reasons(&unreadable).iter().for_each(places::tell);
                text::list(&processes)
            }
        }
    };
    places::show(&shown, None)?;
    Ok(ExitCode::SUCCESS)
}

/// Shows a process's slab table.
pub fn slabinfo(request: &Slabinfo) -> Result<ExitCode, Failure> {
    let process = process::find(request.pid).map_err(Failure::of)?;
    places::show(&text::slabinfo(&process), None)?;
    Ok(ExitCode::SUCCESS)
}

/// The header comes again after so many lines.
const HEADER_EVERY: u64 = 20;

/// Prints a line for each interval, until there are enough or the process ends.
fn series(pid: u32, seconds: f64, count: Option<u64>, as_json: bool) -> Result<ExitCode, Failure> {
    // Before the first look, or its end could come in between.
    let handle = Pid::from_raw(pid as i32).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    let mut process = process::find(pid).map_err(Failure::of)?;
    // The number of a process in another namespace may be that of another process here.
    let handle = handle.filter(|_| process.state != State::Elsewhere);
    let (mut series, mut due) = (Series::default(), Instant::now());
    let ended = |lines: u64| {
        let s = if lines == 1 { "" } else { "s" };
        places::tell(format_args!("process {pid} has ended after {lines} line{s}"));
        ExitCode::from(u8::from(count.is_some()))
    };
    for lines in 1.. {
        let header = if as_json || (lines - 1) % HEADER_EVERY != 0 { String::new() } else { Series::header() };
        let line = if as_json { series.json(&process) } else { series.text(&process) };
        match io::stdout().write_all((header + &line).as_bytes()) {
            // A reader who has seen enough is no error.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => break,
            written => written.map_err(|error| Failure::ours(format!("cannot print the figures ({error})")))?,
        }
        if count == Some(lines) {
            break;
        }
        due += Duration::from_secs_f64(seconds);
        wait(handle.as_ref(), due);
        match process::find(pid) {
            Ok(later) if !later.state.has_ended() && is_same(&process, &later) => process = later,
            // Whatever has its number now is another process.
            _ => return Ok(ended(lines)),
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn is_same(one: &Process, other: &Process) -> bool {
    one.said.page().made_at_ns() == other.said.page().made_at_ns()
}

/// Waits until it is time, or the process has ended.
fn wait(process: Option<&OwnedFd>, due: Instant) {
    let mut events: Vec<PollFd<'_>> = process.iter().map(|it| PollFd::new(*it, PollFlags::IN)).collect();
    loop {
        let left = due.saturating_duration_since(Instant::now());
        let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        if poll(&mut events, Some(&left)) != Err(rustix::io::Errno::INTR) {
            return;
        }
    }
}

/// JSON for people and programs.
fn pretty(value: &serde_json::Value) -> String {
    format!("{value:#}\n")
}

/// Watch processes under the library: memory, caches, slots, groups, locks, kicks, upkeep, grace periods
///
/// `?` explains the keys. Watching a process neither stops nor slows it.
#[derive(Args)]
pub struct Top {
    /// The number of the process; without it, a list of all
    #[arg(value_parser = number)]
    pid: Option<u32>,

    /// Seconds between two refreshes
    #[arg(long, short, value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds)]
    delay: f64,

    /// Print once, as text
    #[arg(long, conflicts_with = "delay")]
    once: bool,

    /// Print once, as JSON
    #[arg(long, conflicts_with = "delay")]
    json: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.1..=60.0).contains(&seconds) => Ok(seconds),
        _ => Err("expected a number of seconds from 0.1 to 60".to_owned()),
    }
}

/// Shows until the user quits.
pub fn top(request: &Top) -> Result<ExitCode, Failure> {
    if request.once || request.json {
        return show(request.pid, request.json);
    }
    // If there is no such process or page, the screen stays as it is.
    request.pid.map(process::find).transpose().map_err(Failure::of)?;
    let colours = AutoStream::choice(&io::stdout()) != ColorChoice::Never;
    watch::view::show(request.pid, Duration::from_secs_f64(request.delay), colours)
        .map_err(|error| Failure::usage(format!("{error:#}")))?;
    Ok(ExitCode::SUCCESS)
}
