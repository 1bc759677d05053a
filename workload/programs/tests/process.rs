//! The programs as processes of their own: what `main` prints, how it exits, and that a workload finds its way back
//! when it starts the program again.
//!
//! This executable is both sides: with `workload` as its first argument it is the program, otherwise the test.

use std::env::{args, current_exe};
use std::process::{Command, ExitCode, Output};

/// The words before the name, as a command with subcommands has them.
const PREFIX: &str = "workload";

fn main() -> ExitCode {
    if args().nth(1).is_some_and(|word| word == PREFIX) {
        return commensal_programs::main(&[PREFIX], args().skip(2));
    }
    checksums_are_those_of_the_table();
    probes_print_their_figures();
    bad_usage_is_explained_in_one_line();
    ExitCode::SUCCESS
}

/// Runs the program with some words after the prefix.
fn run(words: &[&str]) -> Output {
    let program = current_exe().expect("this test is a file");
    Command::new(program).arg(PREFIX).args(words).output().expect("it can be started")
}

fn stdout(output: &Output) -> &str {
    str::from_utf8(&output.stdout).expect("the output is text")
}

/// One that starts children, and one that does not; the unit tests have the others.
fn checksums_are_those_of_the_table() {
    for name in ["lifo", "short-lived"] {
        let line = include_str!("checksums.txt").lines().find_map(|line| line.strip_prefix(name));
        let expected = line.expect("each workload has a line").trim();
        let output = run(&[name, "2"]);
        assert!(output.status.success(), "{name}: {output:?}");
        assert_eq!(stdout(&output), format!("{expected}\n"), "{name}");
    }
}

fn probes_print_their_figures() {
    let output = run(&["pair", "solo", "1"]);
    assert!(output.status.success(), "{output:?}");
    let depths: Vec<&str> = stdout(&output).lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(depths, ["1", "64", "1000"]);
    let times = stdout(&output).lines().flat_map(|line| line.split(' ').skip(1));
    assert!(times.map(|time| time.parse::<f64>()).all(|time| time.is_ok_and(|time| time > 0.0)), "{output:?}");
}

fn bad_usage_is_explained_in_one_line() {
    for (words, named) in [
        (&["nothing"][..], "`nothing`"),
        (&[], "larson"),
        (&["lifo", "0"], "`0`"),
        (&["lifo", "1", "2"], "`2`"),
        (&["pair", "alone"], "`alone`"),
        (&["threads-placed", "nowhere"], "`nowhere`"),
    ] {
        let output = run(words);
        let line = str::from_utf8(&output.stderr).expect("the message is text");
        assert_eq!(output.status.code(), Some(2), "{words:?}: {output:?}");
        assert!(line.contains(named) && line.lines().count() == 1, "{words:?}: {line}");
        assert_eq!(stdout(&output), "", "{words:?}");
    }
}
