//! `commensal top`: processes under the library, live; or once, for a file or a program.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use watch::process;

use crate::failure::Failure;
use crate::stat;

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
        return stat::show(request.pid, request.json);
    }
    // One that is not there, or says nothing, is no reason to change the screen.
    request.pid.map(process::find).transpose().map_err(Failure::of)?;
    watch::view::show(request.pid, Duration::from_secs_f64(request.delay), !request.no_color)
        .map_err(|error| Failure::usage(format!("{error:#}")))?;
    Ok(ExitCode::SUCCESS)
}
