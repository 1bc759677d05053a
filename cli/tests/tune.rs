//! `commensal tune` as an operator meets it.

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use common::watched::eventually;
use common::{commensal, commensal_does, text};

/// Allocates, and asks now and then whether it is to go on: until its standard input ends.
const BUSY: &str = r#"BEGIN { print "ready"; fflush(); for (n = 0;; n++) { for (i = 0; i < 3000; i++) a[i] = i "x" n; delete a; if (n % 50 == 0) { print "more?"; fflush(); if ((getline line < "-") == 0) exit } } }"#;
/// Says that it runs, and then rests.
const RESTING: &str = "echo ready; read line";

/// A program that says that it runs, and ends when it is no longer needed.
struct Started {
    child: Child,
    said: Option<BufReader<ChildStdout>>,
}

impl Started {
    fn new(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it can be started");
        let (mut said, mut line) = (BufReader::new(child.stdout.take().expect("a pipe")), String::new());
        said.read_line(&mut line).expect("it says something");
        assert_eq!(line, "ready\n");
        Started { child, said: Some(said) }
    }

    /// Comes to rest: it sleeps in the kernel.
    fn rest(self) -> Self {
        let state = || fs::read_to_string(format!("/proc/{}/stat", self.child.id())).expect("it runs");
        eventually("it rests", || state().contains(") S ").then_some(()));
        self
    }

    fn pid(&self) -> String {
        self.child.id().to_string()
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn tune(words: &[&str]) -> (Option<i32>, String) {
    let done = commensal_does(&[&["tune"], words].concat());
    (done.status.code(), text(&done.stdout) + &text(&done.stderr))
}

#[test]
fn a_running_program_is_tuned() {
    let mut command = commensal();
    command.args(["run", "--slabinfo", "--", "awk", BUSY]).stderr(Stdio::piped());
    let mut started = Started::new(&mut command);
    let (is_over, mut input) = (Arc::new(AtomicBool::new(false)), started.child.stdin.take().expect("a pipe"));
    let questions = started.said.take().expect("it was not taken").lines();
    let answers = thread::spawn({
        let is_over = Arc::clone(&is_over);
        move || {
            let is_asked = |_: &_| !is_over.load(Ordering::Relaxed);
            questions.take_while(is_asked).for_each(|_| input.write_all(b"go on\n").expect("it listens"));
        }
    });
    let pid = started.pid();
    let tuned = tune(&[&pid, "malloc-32", "16", "4", "--wait", "600"]);
    assert_eq!(tuned, (Some(0), format!("1 cache malloc-32 of process {pid}: limit 16, batch 4\n")));
    let (status, said) = tune(&[&pid, "malloc-31", "16", "4", "--wait", "600"]);
    assert!(status == Some(125) && said.contains("has no cache malloc-31"), "{said}");
    let (status, said) = tune(&[&pid, "malloc-64", "1", "4", "--wait", "600"]);
    assert!(status == Some(125) && said.contains("a limit is at least one batch"), "{said}");
    is_over.store(true, Ordering::Relaxed);
    answers.join().expect("no panic");
    let mut stderr = String::new();
    started.child.stderr.take().expect("a pipe").read_to_string(&mut stderr).expect("text");
    let row = stderr.lines().find(|line| line.starts_with("malloc-32 ")).unwrap_or_else(|| panic!("{stderr}"));
    let words: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(words[7..11], ["tunables", "16", "4", "0"], "{row}");
}

#[test]
fn a_program_that_rests_does_not_come_along() {
    let started = Started::new(commensal().args(["run", "sh", "-c", RESTING])).rest();
    let (status, said) = tune(&[&started.pid(), "malloc-32", "16", "4", "--wait", "0"]);
    assert!(status == Some(125) && said.contains("did not come along"), "{said}");
}

#[test]
fn what_cannot_be_tuned_is_told() {
    let mut child = Command::new("sleep").arg("10000").spawn().expect("sleep");
    let (status, said) = tune(&[&child.id().to_string(), "malloc-32", "16", "4"]);
    assert!(status == Some(125) && said.contains("does not run under `commensal run`"), "{said}");
    child.kill().and_then(|()| child.wait()).expect("it can be ended");
    let (status, said) = tune(&[&child.id().to_string(), "malloc-32", "16", "4"]);
    assert!(status == Some(125) && said.contains("there is no process"), "{said}");
}

#[test]
fn what_a_program_starts_is_not_tuned_in_its_place() {
    let script = format!("awk 'BEGIN {{ for (i = 0; i < 100000; i++) a[i] = i }}'; {RESTING}");
    let started = Started::new(commensal().args(["run", "sh", "-c", &script])).rest();
    let (status, said) = tune(&[&started.pid(), "malloc-32", "16", "4", "--wait", "0"]);
    assert!(status == Some(125) && said.contains("did not come along"), "{said}");
}
