//! The programs as processes of their own: what `main` prints, how it exits, that a kernel finds its way back when it
//! starts the program again, and that kernels free what they allocate.
//!
//! This executable is both sides: with `workload` as its first argument it is the program, with `frees` it says how much
//! a kernel left, otherwise it is the test.

use std::env::{args, current_exe};
use std::process::{Command, ExitCode, Output};
use std::thread;
use std::time::{Duration, Instant};

use programs::{KERNELS, Scale};

/// The words before the name, as a command with subcommands has them.
const PREFIX: &str = "workload";
const FREES: &str = "frees";
/// What may differ: the C library's own, of threads and of standard output.
const SLACK: usize = 64 << 10;
/// How long what threads leave may take to go.
const PATIENCE: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    match args().nth(1).as_deref() {
        Some(PREFIX) => return programs::main(&[PREFIX], args().skip(2)),
        Some(FREES) => println!("{}", left_by(&args().nth(2).expect("a name follows"))),
        _ => {
            checksums_are_those_of_the_table();
            kernels_free_what_they_allocate();
            probes_print_their_figures();
            bad_usage_is_explained_in_one_line();
        }
    }
    ExitCode::SUCCESS
}

fn run(words: &[&str]) -> Output {
    let program = current_exe().expect("this test is a file");
    // Blocks in the C library's caches of threads would count as used.
    let mut command = Command::new(program);
    command.args(words).env("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0").output().expect("it can be started")
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

fn kernels_free_what_they_allocate() {
    for kernel in KERNELS {
        let output = run(&[FREES, kernel.name]);
        let left: usize = stdout(&output).trim().parse().unwrap_or_else(|_| panic!("{}: {output:?}", kernel.name));
        assert!(left <= SLACK, "{} leaves {left} bytes", kernel.name);
    }
}

/// Bytes in use after a kernel that were not before it. A scope ends before its threads have given back what the C library
/// has for each: that is waited for.
fn left_by(name: &str) -> usize {
    // SAFETY: it only looks.
    let used = || unsafe { libc::mallinfo2() };
    let kernel = programs::find(name).expect("it is in the table");
    let before = used();
    kernel.run(Scale::from_percent(2).expect("it is in range"), &mut |number| number);
    let start = Instant::now();
    loop {
        let after = used();
        let left = (after.uordblks + after.hblkhd).saturating_sub(before.uordblks + before.hblkhd);
        if left <= SLACK || start.elapsed() > PATIENCE {
            return left;
        }
        thread::sleep(Duration::from_millis(10));
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
    let output = run(&[PREFIX, "peak", "1", "1"]);
    let kb: Vec<u64> = stdout(&output).split_whitespace().map(|word| word.parse().expect("it is a number")).collect();
    assert!(matches!(kb[..], [live, resident] if live <= resident), "{kb:?}");
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
        (&["peak", "1", "1", "1"], "[MIB [SECONDS]]"),
    ] {
        let output = run(&[&[PREFIX], words].concat());
        let line = str::from_utf8(&output.stderr).expect("the message is text");
        assert_eq!(output.status.code(), Some(2), "{words:?}: {output:?}");
        assert!(line.contains(named) && line.lines().count() == 1, "{words:?}: {line}");
        assert!(!line.contains("short-lived-child"), "it is hidden: {line}");
        assert_eq!(stdout(&output), "", "{words:?}");
    }
}
