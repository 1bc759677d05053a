//! The host passes all bodies, and the bodies find what is planted, in both slot modes.
//!
//! Each case is its own process. `COMMENSAL_TEST_EFFORT` multiplies the time for bodies without an end.

#[path = "../../src/bin/commensal-conformance/cases.rs"]
mod cases;

use cases::all;
use conformance::case::{Case, Cases};
use machine::slot::Mode;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Output};

conformance::tests! { all, pass, find }

/// What turns restartable sequences off in the C library.
const TUNABLES: &str = "GLIBC_TUNABLES";

/// Seconds in which a planted bug must be found. The first tries are short, because some bugs make bodies hang. The
/// last ones are for busy machines, on which both sides seldom run at the same time.
const PATIENCE: [&str; 5] = ["0.2", "2", "10", "40", "120"];

fn run(mode: Mode, arguments: &[&str]) -> (Output, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_commensal-conformance"));
    match mode {
        Mode::ConcurrencyId => command.env_remove(TUNABLES),
        Mode::PerThread => command.env(TUNABLES, "glibc.pthread.rseq=0"),
    };
    let output = command.args(arguments).output().expect("the suite can be started");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let text = format!("{out}{err}{}", output.status);
    println!("{text}");
    (output, text)
}

fn pass(mode: Mode, cases: Cases) {
    let fails = |case: &Case| {
        let (output, text) = run(mode, &[case.name]);
        (!output.status.success()).then(|| format!("{} in mode {mode:?}:\n{text}\n", case.name))
    };
    let failures: Vec<_> = cases.into_iter().filter_map(fails).collect();
    assert!(failures.is_empty(), "{}", failures.concat());
}

fn find(mode: Mode, planted: Cases) {
    let missed: Vec<_> = planted.into_iter().filter_map(|case| miss(mode, case)).collect();
    assert!(missed.is_empty(), "{}", missed.concat());
}

/// Whether the planted bug ended the process before the body reported: the process crashed, exited, or hung.
fn died(status: ExitStatus) -> bool {
    const OF_ITSELF: [i32; 5] = [libc::SIGILL, libc::SIGABRT, libc::SIGBUS, libc::SIGSEGV, libc::SIGALRM];
    status.signal().is_some_and(|signal| OF_ITSELF.contains(&signal))
}

fn miss(mode: Mode, case: &Case) -> Option<String> {
    let planted = case.planted.unwrap_or_default();
    let mut last = String::new();
    for seconds in PATIENCE {
        let (output, text) = run(mode, &[case.name, "--planted", planted, "--seconds", seconds]);
        if text.starts_with("found: ") || died(output.status) {
            return None;
        }
        last = text;
        if !output.status.success() {
            break;
        }
    }
    Some(format!("{} in mode {mode:?} misses what is planted: {planted}:\n{last}\n", case.name))
}
