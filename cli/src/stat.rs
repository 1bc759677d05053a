//! `commensal stat`, `commensal slabinfo` and `commensal top`: what processes say of themselves, once, to whoever
//! scrapes, or live.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use watch::{json, left, process, reference, server, text};

use crate::failure::Failure;
use crate::places;

/// Show what a process under the library says of itself, or all of them in a list
#[derive(Args)]
pub struct Stat {
    /// The process; all if none is given
    pid: Option<u32>,

    /// Everything as JSON
    #[arg(long, conflicts_with = "prometheus")]
    json: bool,

    /// Serve it in the OpenMetrics format at this address, or port of this machine alone, under /metrics, until interrupted
    #[arg(long, value_name = "ADDR")]
    prometheus: Option<String>,

    /// The reference of the book
    #[arg(long, hide = true, exclusive = true)]
    reference: bool,
}

/// Show the slab table of a process under the library, in the columns of the kernel's /proc/slabinfo
#[derive(Args)]
pub struct Slabinfo {
    /// The process
    pid: u32,
}

/// Shows, or serves.
pub fn stat(request: &Stat) -> Result<ExitCode, Failure> {
    if request.reference {
        places::show(&reference::page(), None)?;
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

fn serve(pid: Option<u32>, address: &str) -> Result<ExitCode, Failure> {
    let at = server::address(address).map_err(|error| Failure::usage(format!("--prometheus: {error:#}")))?;
    // One that is named has to be there at first; later it may go, and then is shown no more.
    pid.map(process::find).transpose().map_err(Failure::of)?;
    let ready = |at: SocketAddr| {
        if !at.ip().is_loopback() {
            eprintln!(
                "commensal: whoever reaches {at} can read what programs run here and what they do; nobody is asked for a password"
            );
        }
        eprintln!("commensal: serving http://{at}{} until interrupted", server::PATH);
    };
    let Err(why) = server::serve(at, move || process::look(pid), ready);
    Err(Failure::of(why))
}

/// JSON for people and programs.
fn pretty(value: &serde_json::Value) -> String {
    format!("{value:#}\n")
}

/// Watch processes under the library: memory, caches, slots, groups, locks, kicks, upkeep, grace periods
///
/// The keys are explained by `?`. Looking at a process neither stops nor slows it.
#[derive(Args)]
pub struct Top {
    /// The process; a list of all if none is given
    pid: Option<u32>,

    /// Seconds between two looks
    #[arg(long, short, value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds)]
    delay: f64,

    /// Without colours, as with NO_COLOR in the environment
    #[arg(long)]
    no_color: bool,

    /// Show it once, as text, and leave
    #[arg(long, conflicts_with = "delay")]
    once: bool,

    /// Once, as JSON
    #[arg(long, conflicts_with_all = ["delay", "no_color"])]
    json: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.1..=60.0).contains(&seconds) => Ok(seconds),
        _ => Err("expected a number of seconds from 0.1 to 60".to_owned()),
    }
}

/// Shows until the user leaves.
pub fn top(request: &Top) -> Result<ExitCode, Failure> {
    if request.once || request.json {
        return show(request.pid, request.json);
    }
    // One that is not there, or says nothing, is no reason to change the screen.
    request.pid.map(process::find).transpose().map_err(Failure::of)?;
    watch::view::show(request.pid, Duration::from_secs_f64(request.delay), !request.no_color)
        .map_err(|error| Failure::usage(format!("{error:#}")))?;
    Ok(ExitCode::SUCCESS)
}
