//! Runs one case of the conformance suite on the host, in this process.
//!
//! ```text
//! commensal-conformance --list
//! commensal-conformance CASE [--planted WHAT] [--seconds S] [--seed N]
//! ```
//!
//! Without a slot mode of its own, a case runs in the mode that the system offers; `GLIBC_TUNABLES=glibc.pthread.rseq=0` turns it
//! to the fallback. The exit status is 0 if nothing was found, 1 if something was, 2 for bad usage, 3 if the case does not
//! come to its end.
//!
//! The process starts with one thread, and the case's first thread is the main one: some operations tell the difference.

mod alarm;
mod arguments;
mod cases;
mod disturbance;
mod entries;
mod filter;
mod fork;
mod host;
mod registration;
mod sections;

use arguments::{Arguments, Request};
use conformance::Case;
use std::process::ExitCode;

fn main() -> ExitCode {
    match arguments::read() {
        Ok(Request::List) => {
            cases::all().for_each(list);
            ExitCode::SUCCESS
        }
        Ok(Request::Run(arguments)) => run(&arguments),
        Err(problem) => {
            eprintln!("commensal-conformance: {problem}");
            ExitCode::from(2)
        }
    }
}

/// One line: name, what is planted, and the only mode, parted by tabs.
fn list(case: &Case) {
    let mode = case.only.map_or("both", arguments::name_of);
    println!("{}\t{}\t{mode}", case.name, case.planted.unwrap_or(""));
}

fn run(arguments: &Arguments) -> ExitCode {
    let host = host::Host::new(arguments);
    alarm::set(arguments);
    let outcome = (arguments.case.run)(&host);
    alarm::cancel();
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
