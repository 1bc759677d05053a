//! The programs as processes of their own: what `main` prints, how it exits, and that a kernel finds its way back when
//! it starts the program again.
//!
//! This executable is both sides: with `workload` as its first argument it is the program, otherwise it is the test.

use std::env::{args, current_exe};
use std::process::{Command, ExitCode, Output};

/// The words before the name, as a command with subcommands has them.
const PREFIX: &str = "workload";

fn main() -> ExitCode {
    if args().nth(1).as_deref() == Some(PREFIX) {
        return programs::main(&[PREFIX], args().skip(2));
    }
    checksums_are_those_of_the_table();
    probes_print_their_figures();
    bad_usage_is_explained_in_one_line();
    ExitCode::SUCCESS
}

fn run(words: &[&str]) -> Output {
    let program = current_exe().expect("this test is a file");
    Command::new(program).args(words).output().expect("it can be started")
}

fn stdout(output: &Output) -> &str {
    str::from_utf8(&output.stdout).expect("the output is text")
}

/// One that starts children, and one that does not; the unit tests have the others.
fn checksums_are_those_of_the_table() {
    for name in ["lifo", "short-lived"] {
        let line = include_str!("checksums.txt").lines().find_map(|line| line.strip_prefix(name));
        let expected = line.expect("each kernel has a line").trim();
        let output = run(&[PREFIX, name, "2"]);
        assert!(output.status.success(), "{name}: {output:?}");
        assert_eq!(stdout(&output), format!("{expected}\n"), "{name}");
    }
}

fn probes_print_their_figures() {
    let output = run(&[PREFIX, "pair", "solo", "1"]);
    assert!(output.status.success(), "{output:?}");
    let depths: Vec<&str> = stdout(&output).lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(depths, ["1", "64", "1000"]);
    let output = run(&[PREFIX, "swing", "1", "1"]);
    let words: Vec<&str> = stdout(&output).lines().filter_map(|line| line.split(' ').next()).skip(1).collect();
    assert_eq!(words, ["malloc", "touch", "free", "memory"]);
    let output = run(&[PREFIX, "bursts", "1", "2"]);
    let words: Vec<&str> = stdout(&output).lines().filter_map(|line| line.split(' ').next()).skip(1).collect();
    assert_eq!(words, ["faults", "memory"]);
    let output = run(&[PREFIX, "threads-placed", "one"]);
    let words: Vec<&str> = stdout(&output).split_whitespace().collect();
    assert!(matches!(words[..], [_, _, _, beside] if beside == "10000"), "{words:?}");
}

fn bad_usage_is_explained_in_one_line() {
    for (words, named) in [
        (&["nothing"][..], "`nothing`"),
        (&["nothing"], "larson, producer-consumer"),
        (&[], "larson"),
        (&["lifo", "0"], "`0`; expected a number from 1 to 1000"),
        (&["lifo", "5%"], "`5%`"),
        (&["lifo", "1", "2"], "`2`"),
        (&["short-lived-child", "x"], "number"),
        (&["pair", "alone"], "`alone`"),
        (&["pair", "solo", "9", "1001"], "1001"),
        (&["threads-placed", "nowhere"], "`nowhere`"),
        (&["swing", "soon"], "soon"),
        (&["swing", "1000", "0"], "0"),
        (&["bursts", "0"], "0"),
    ] {
        let output = run(&[&[PREFIX], words].concat());
        let line = str::from_utf8(&output.stderr).expect("the message is text");
        assert_eq!(output.status.code(), Some(2), "{words:?}: {output:?}");
        assert!(line.contains(named) && line.lines().count() == 1, "{words:?}: {line}");
        assert!(!line.contains("short-lived-child"), "it is hidden: {line}");
        assert_eq!(stdout(&output), "", "{words:?}");
    }
}
