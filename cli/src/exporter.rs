//! `commensal exporter`: serves the statistics of processes to Prometheus, and their heap profiles to pprof.

use std::net::SocketAddr;
use std::process::ExitCode;

use clap::Args;
use watch::{process, server};

use crate::control::Control;
use crate::failure::Failure;
use crate::places;
use crate::stat::number;

/// Serve the statistics of processes under the library to Prometheus, in the OpenMetrics format
///
/// Metrics are at http://ADDR/metrics, and the heap profile of a process at http://ADDR/debug/pprof/heap?pid=NUMBER. Serves
/// until it is interrupted.
#[derive(Args)]
pub struct Exporter {
    /// The number of the process; without it, all are served
    #[arg(value_parser = number)]
    pid: Option<u32>,

    /// Where to listen: an address and a port, or a port of 127.0.0.1
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9464")]
    listen: String,
}

/// Patience for a process that is asked for its profile: less than pprof's.
const SECONDS: u32 = 4;

/// Serves until interrupted.
pub fn exporter(request: &Exporter) -> Result<ExitCode, Failure> {
    let pid = request.pid;
    let at = server::address(&request.listen).map_err(|error| Failure::usage(format!("--listen: {error:#}")))?;
    // The process must exist at first. It may end later, and then is no longer served.
    pid.map(process::find).transpose().map_err(Failure::of)?;
    let ready = |at: SocketAddr| {
        if !at.ip().is_loopback() {
            places::tell(format_args!(
                "every computer that reaches {at} can read these statistics; there is no password"
            ));
        }
        places::tell(format_args!("serving http://{at}{} and {} until interrupted", server::PATH, server::PROFILES));
    };
    let profile = |pid| Control::of(pid, SECONDS)?.profile();
    let Err(why) = server::serve(at, move || process::look(pid), profile, ready);
    Err(Failure::of(why))
}
