//! The host passes all bodies, and the bodies find what is planted, in both slot modes.
//!
//! Each case is its own process. `COMMENSAL_TEST_EFFORT` multiplies the time for bodies without an end.

mod interrupted;

use machine::slot::Mode;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Output};

conformance::tests! { pass, find }

#[test]
fn cases_all_belong_to_a_tested_module() {
    for mode in [Mode::ConcurrencyId, Mode::PerThread] {
        let left_out: Vec<_> = cases(mode).into_iter().filter(|case| !MODULES.contains(&case.module())).collect();
        assert!(left_out.is_empty(), "these cases belong to no module that is tested: {left_out:?}");
    }
}

/// A body that nothing planted makes fail would be no test.
#[test]
fn something_is_planted_in_each_operation() {
    for mode in [Mode::ConcurrencyId, Mode::PerThread] {
        let cases = cases(mode);
        let is_planted = |name: &str| cases.iter().any(|case| case.operation() == name && case.is_planted());
        let bare: Vec<_> = cases.iter().filter(|case| !is_planted(case.operation())).collect();
        assert!(bare.is_empty(), "nothing is planted in {bare:?}");
    }
}

/// What turns restartable sequences off in the C library.
const TUNABLES: &str = "GLIBC_TUNABLES";

/// Seconds in which a planted bug must be found. The first tries are short, because some bugs make bodies hang. The
/// last ones are for busy machines, on which both sides seldom run at the same time.
const PATIENCE: [&str; 5] = ["0.2", "2", "10", "40", "120"];

#[derive(Debug)]
struct Case {
    name: String,
    planted: String,
}

impl Case {
    fn module(&self) -> &str {
        self.name.split("::").next().unwrap_or_default()
    }

    fn operation(&self) -> &str {
        self.name.split(' ').next().unwrap_or_default()
    }

    fn is_planted(&self) -> bool {
        !self.planted.is_empty()
    }
}

fn cases(mode: Mode) -> Vec<Case> {
    let output = suite(mode).arg("--list").output().expect("the suite can be started");
    let list = String::from_utf8(output.stdout).expect("names are UTF-8");
    let parse = |line: &str| {
        let (name, planted) = line.split_once('\t').expect("two fields");
        Case { name: name.into(), planted: planted.into() }
    };
    list.lines().map(parse).collect()
}

fn of_module(mode: Mode, module: &str, is_asked: fn(&Case) -> bool) -> Vec<Case> {
    let found: Vec<Case> = cases(mode).into_iter().filter(|case| case.module() == module && is_asked(case)).collect();
    assert!(!found.is_empty(), "there is no such case of {module}");
    found
}

fn suite(mode: Mode) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_commensal-conformance"));
    match mode {
        Mode::ConcurrencyId => command.env_remove(TUNABLES),
        Mode::PerThread => command.env(TUNABLES, "glibc.pthread.rseq=0"),
    };
    command
}

fn text(output: &Output) -> String {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    format!("{out}{err}{}", output.status)
}

fn pass(mode: Mode, module: &str) {
    let run = |case: Case| {
        let output = suite(mode).arg(&case.name).output().expect("the suite can be started");
        println!("{}", text(&output));
        (!output.status.success()).then(|| format!("{} in mode {mode:?}:\n{}\n", case.name, text(&output)))
    };
    let failures: Vec<_> = of_module(mode, module, |case| !case.is_planted()).into_iter().filter_map(run).collect();
    assert!(failures.is_empty(), "{}", failures.concat());
}

fn find(mode: Mode, module: &str) {
    let planted = of_module(mode, module, Case::is_planted);
    let missed: Vec<_> = planted.into_iter().filter_map(|case| miss(mode, &case)).collect();
    assert!(missed.is_empty(), "{}", missed.concat());
}

/// Whether the planted bug ended the process before the body reported: the process crashed, exited, or hung.
fn died(status: ExitStatus) -> bool {
    const OF_ITSELF: [i32; 5] = [libc::SIGILL, libc::SIGABRT, libc::SIGBUS, libc::SIGSEGV, libc::SIGALRM];
    status.signal().is_some_and(|signal| OF_ITSELF.contains(&signal))
}

fn miss(mode: Mode, case: &Case) -> Option<String> {
    let mut last = String::new();
    for seconds in PATIENCE {
        let command = &mut suite(mode);
        command.args([&case.name, "--planted", &case.planted, "--seconds", seconds]);
        let output = command.output().expect("the suite can be started");
        last = text(&output);
        println!("{last}");
        if last.starts_with("found: ") || died(output.status) {
            return None;
        }
        if !output.status.success() {
            break;
        }
    }
    Some(format!("{} in mode {mode:?} misses what is planted: {}:\n{last}\n", case.name, case.planted))
}
