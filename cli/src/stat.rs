//! `commensal stat`, `commensal slabinfo` and `commensal top`: statistics of processes, once, served to Prometheus, or
//! live.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use watch::{json, left, process, reference, server, text};

use crate::control::Control;
use crate::failure::Failure;
use crate::places;

/// Show the statistics of a process under the library, or a list of all such processes
#[derive(Args)]
pub struct Stat {
    /// The number of the process; without it, a list of all
    #[arg(value_parser = number)]
    pid: Option<u32>,

    /// Print everything as JSON
    #[arg(long, conflicts_with = "prometheus")]
    json: bool,

    /// Serve metrics in the OpenMetrics format at http://ADDR/metrics until interrupted
    ///
    /// ADDR is an address and a port, or a port of 127.0.0.1.
    #[arg(long, value_name = "ADDR")]
    prometheus: Option<String>,

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
fn number(text: &str) -> Result<u32, String> {
    text.parse()
        .map_err(|_| format!("expected the number of a process with a statistics page; {}", process::hint_now(text)))
}

/// Shows, serves or clears.
pub fn stat(request: &Stat) -> Result<ExitCode, Failure> {
    if request.reference {
        places::show(&reference::page(), None)?;
        return Ok(ExitCode::SUCCESS);
    }
    if request.clear {
        places::show(&left::clear(), None)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(address) = &request.prometheus {
        return serve(request.pid, address);
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
                left::reasons(&unreadable).iter().for_each(|why| eprintln!("commensal: {why}"));
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

/// Patience for a process that is asked for its profile: less than pprof's.
const SECONDS: u32 = 4;

fn serve(pid: Option<u32>, address: &str) -> Result<ExitCode, Failure> {
    let at = server::address(address).map_err(|error| Failure::usage(format!("--prometheus: {error:#}")))?;
    // The process must exist at first. It may end later, and then is no longer served.
    pid.map(process::find).transpose().map_err(Failure::of)?;
    let ready = |at: SocketAddr| {
        if !at.ip().is_loopback() {
            eprintln!("commensal: every computer that reaches {at} can read these statistics; there is no password");
        }
        eprintln!("commensal: serving http://{at}{} and {} until interrupted", server::PATH, server::PROFILES);
    };
    let profile = |pid| Control::of(pid, SECONDS)?.profile();
    let Err(why) = server::serve(at, move || process::look(pid), profile, ready);
    Err(Failure::of(why))
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

    /// Use no colours, as with NO_COLOR in the environment
    #[arg(long)]
    no_color: bool,

    /// Print once, as text
    #[arg(long, conflicts_with = "delay")]
    once: bool,

    /// Print once, as JSON
    #[arg(long, conflicts_with_all = ["delay", "no_color"])]
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
    watch::view::show(request.pid, Duration::from_secs_f64(request.delay), !request.no_color)
        .map_err(|error| Failure::usage(format!("{error:#}")))?;
    Ok(ExitCode::SUCCESS)
}
