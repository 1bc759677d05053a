//! The tour, in a PATH with few programs so that it is short.

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

use common::{assert_says, commensal, path_of, text, write_program};
use rustix::process::{Pid, Signal, kill_process};

/// What the tour itself and its job for `sh` need.
const PROGRAMS: [&str; 9] = ["sh", "cat", "true", "sort", "cut", "uniq", "cksum", "rm", "mkdir"];

/// The tour with a temporary directory of its own and nothing but PROGRAMS in PATH.
fn tour(folder: &Path) -> Command {
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
fn tour_compares_what_is_installed_and_names_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = tour(folder.path());
    let sum = folder.path().join("bin/cksum");
    fs::remove_file(&sum).unwrap();
    write_program(&sum, "#!/bin/sh\necho \"sum ${LD_PRELOAD:+seen}\"\n");
    let done = command.output().unwrap();
    assert_says(&done, &["all print the same: NO", "FINDING: sh, under commensal", "+sum seen"]);
    assert_says(&done, &["not installed", "glibc again", "Start-up", "malloc + free", "What to type next"]);
    assert_eq!(done.status.code(), Some(1));
    assert_eq!(text(&done.stdout).matches("not installed").count(), 3);
    assert_eq!(left_behind(folder.path()), 0);
}

/// Without it, up to what it says of that.
#[test]
fn interrupted_tour_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = tour(folder.path()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains("all print the same: yes")));
    assert!(left_behind(folder.path()) > 0);
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(2));
    assert_eq!(left_behind(folder.path()), 0);
}
