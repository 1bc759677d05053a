//! The tour, in a PATH with few programs so that it is short; and what `commensal` alone does.

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

use common::{assert_says, commensal, path_of, succeeds, text, write_program};
use rustix::process::{Pid, Signal, kill_process};

/// What the tour itself and its job for `sh` need.
const PROGRAMS: [&str; 9] = ["sh", "cat", "true", "sort", "cut", "uniq", "cksum", "rm", "mkdir"];

/// The command with a temporary directory of its own and nothing but PROGRAMS in PATH.
fn guest(folder: &Path) -> Command {
    fs::create_dir(folder.join("tmp")).unwrap();
    let mut command = commensal();
    command.env("PATH", path_of(folder, &PROGRAMS)).env("TMPDIR", folder.join("tmp"));
    command
}

fn left_behind(folder: &Path) -> usize {
    fs::read_dir(folder.join("tmp")).unwrap().count()
}

/// With the planted fault: a program that notices the library and prints it.
#[test]
fn tour_measures_what_is_installed_and_names_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = guest(folder.path());
    let sum = folder.path().join("bin/cksum");
    fs::remove_file(&sum).unwrap();
    write_program(&sum, "#!/bin/sh\necho \"sum ${LD_PRELOAD:+seen}\"\n");
    let done = command.arg("tour").output().unwrap();
    let lines = [
        "64 threads: peak memory, MiB",
        "5 s later: resident memory, MiB",
        "hand-over: time, ms",
        "growing realloc: peak memory, MiB",
        "two threads: malloc + free, ns",
        "/bin/true: time, ms",
    ];
    assert_says(&done, &lines);
    assert_says(
        &done,
        &["FINDING: sh, under commensal", "+sum seen", "print the same under Commensal as under glibc: NO"],
    );
    assert_says(&done, &["glibc again", "slower or larger here:\n", "no difference is shown:\n", "What to type next"]);
    assert_eq!(done.status.code(), Some(1));
    assert_eq!(text(&done.stdout).matches("not measured").count(), 2, "git and python3");
    // Each line is compared with glibc, with one of three verdicts; that of sh failed.
    let listed = text(&done.stdout).split("faster or smaller here").nth(1).unwrap().to_owned();
    for (line, _unit) in lines.map(|line| line.rsplit_once(',').unwrap()) {
        assert!(listed.contains(line), "{line} is missing in\n{listed}");
    }
    assert_eq!(left_behind(folder.path()), 0);
}

/// It is started as `cargo run` starts it in a clone: without words, with what the workspace's configuration sets, which
/// Cargo sets for tests, too.
#[test]
fn interrupted_tour_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = guest(folder.path()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line == "After a peak"));
    assert!(left_behind(folder.path()) > 0);
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(2));
    assert_eq!(left_behind(folder.path()), 0);
}

#[test]
fn command_without_words_prints_help() {
    let alone = succeeds(commensal().env_remove("COMMENSAL_ALONE"));
    assert_eq!(text(&alone.stdout), text(&succeeds(commensal().arg("--help")).stdout));
    assert_says(&alone, &["tour", "workload"]);
}

#[test]
fn bundled_programs_are_explained() {
    let help = succeeds(commensal().args(["workload", "--help"]));
    assert_says(&help, &["producer-consumer", "peak [MIB [SECONDS]]", "a checksum of what the program read back"]);
    assert_eq!(text(&succeeds(commensal().args(["help", "workload"])).stdout), text(&help.stdout));
}
