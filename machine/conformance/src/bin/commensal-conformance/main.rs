//! Runs one case of the conformance suite on the host, in this process.
//!
//! ```text
//! commensal-conformance CASE [--planted WHAT] [--seconds S] [--seed N]
//! ```
//!
//! A case that names no slot mode runs in the mode that the system offers; `GLIBC_TUNABLES=glibc.pthread.rseq=0`
//! selects the fallback. The exit status is 0 if no bug was found, 1 if one was found, 2 for bad usage. An alarm ends a
//! case that hangs.
//!
//! The process starts with one thread, the case's first one: some operations treat the main thread differently.

mod cases;
mod host;

use clap::Parser;
use host::Host;
use machine::slot::Mode;
use std::env;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

/// How long a body that could go on for ever does, in seconds.
const SECONDS: f64 = 0.15;
const EFFORT_VARIABLE: &str = "COMMENSAL_TEST_EFFORT";
/// What turns restartable sequences off in the C library.
const TUNABLES: &str = "GLIBC_TUNABLES";
const FALLBACK: &str = "glibc.pthread.rseq=0";
/// Seconds beyond those that a case goes on by itself, and for a fork child.
const GRACE: u32 = 600;
/// The same where hanging is what the planted bug does.
const GRACE_IF_PLANTED: u32 = 1;

/// Runs one case of the conformance suite in this process.
#[derive(Parser)]
#[command(name = "commensal-conformance")]
struct Cli {
    /// The case; one that does not exist shows all
    name: String,
    /// What is wrong with the operation
    #[arg(long, value_name = "WHAT")]
    planted: Option<String>,
    /// For how long a body goes on that could go on for ever
    #[arg(long)]
    seconds: Option<f64>,
    /// What random choices start from; otherwise the time tells
    #[arg(long)]
    seed: Option<u64>,
}

fn main() -> ExitCode {
    run(Cli::parse()).unwrap_or_else(|problem| {
        eprintln!("commensal-conformance: {problem}");
        ExitCode::from(2)
    })
}

fn run(Cli { name, planted, seconds, seed }: Cli) -> Result<ExitCode, String> {
    let is_fallback = env::var(TUNABLES).is_ok_and(|value| value.contains(FALLBACK));
    let mode = if is_fallback { Mode::PerThread } else { Mode::ConcurrencyId };
    let planting = planted.as_deref().map(|what| format!(" --planted '{what}'")).unwrap_or_default();
    let mut all = cases::all().filter(|case| case.fits(mode));
    let case = all.find(|case| case.name == name && case.planted == planted.as_deref()).ok_or_else(|| {
        let all = cases::all().filter(|case| case.fits(mode));
        let all: Vec<_> = all.map(|case| format!("\n{}\t{}", case.name, case.planted.unwrap_or(""))).collect();
        format!("found '{name}'{planting}; expected a case of mode {mode:?}:{}", all.concat())
    })?;
    let effort = env::var(EFFORT_VARIABLE).map_or(Ok(1.0), |text| text.parse());
    let effort: f64 = effort.map_err(|error| format!("{EFFORT_VARIABLE}: {error}"))?;
    let seconds = seconds.unwrap_or(SECONDS * effort);
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let seed = seed.unwrap_or_else(|| now.map_or(0, |since| since.as_nanos() as u64 & 0xffff_ffff));
    let grace = if planted.is_some() { GRACE_IF_PLANTED } else { GRACE };
    let host = Host::new(mode, seed, seconds, grace);
    // A signal, not a thread: cases start with one.
    // SAFETY: no effects on memory.
    unsafe { libc::alarm(seconds.ceil() as u32 + grace) };
    match (case.run)(&host) {
        Ok(()) => {
            println!("ok: {name}");
            Ok(ExitCode::SUCCESS)
        }
        Err(finding) => {
            let tunables = if is_fallback { format!("{TUNABLES}={FALLBACK} ") } else { String::new() };
            let release = if cfg!(debug_assertions) { "" } else { "--release " };
            println!(
                "found: {name}: {finding}\nreplay: {tunables}cargo run -q {release}-p conformance -- \
                 '{name}'{planting} --seconds {seconds} --seed {seed}"
            );
            Ok(ExitCode::FAILURE)
        }
    }
}
