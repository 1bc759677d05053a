//! Runs one case of the conformance suite on the host, in this process.
//!
//! ```text
//! commensal-conformance --list
//! commensal-conformance CASE [--planted WHAT] [--seconds S] [--seed N]
//! ```
//!
//! A case that names no slot mode runs in the mode that the system offers; `GLIBC_TUNABLES=glibc.pthread.rseq=0`
//! selects the fallback. The exit status is 0 if no bug was found, 1 if one was found, 2 for bad usage. An alarm ends a
//! case that hangs.
//!
//! The process starts with one thread, the case's first one: some operations treat the main thread differently.

mod arguments;
mod cases;
mod disturbance;
mod entries;
mod filter;
mod fork;
mod host;
mod registration;

use arguments::{Arguments, Cli};
use clap::Parser;
use conformance::Case;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = Cli::parse();
    if cli.list {
        cases::all().filter(|case| case.fits(arguments::mode())).for_each(list);
        return ExitCode::SUCCESS;
    }
    match cli.arguments() {
        Ok(arguments) => run(&arguments),
        Err(problem) => {
            eprintln!("commensal-conformance: {problem}");
            ExitCode::from(2)
        }
    }
}

fn list(case: &Case) {
    println!("{}\t{}", case.name, case.planted.unwrap_or(""));
}

/// Seconds beyond those that a case goes on by itself.
const GRACE: u32 = 600;
/// The same where hanging is what the planted bug does.
const GRACE_IF_PLANTED: u32 = 1;

fn run(arguments: &Arguments) -> ExitCode {
    let host = host::Host::new(arguments);
    let grace = if arguments.case.planted.is_some() { GRACE_IF_PLANTED } else { GRACE };
    // A signal, not a thread: cases start with one.
    // SAFETY: no effects on memory.
    unsafe { libc::alarm(arguments.seconds.ceil() as u32 + grace) };
    let outcome = (arguments.case.run)(&host);
    match outcome {
        Ok(summary) => {
            println!("ok: {}: {summary}", arguments.case.name);
            ExitCode::SUCCESS
        }
        Err(finding) => {
            println!("found: {}: {finding}\nreplay: {}", arguments.case.name, arguments.replay());
            ExitCode::FAILURE
        }
    }
}
