//! `commensal tune` as an operator meets it.

mod common;

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::{commensal, commensal_does, text};

/// Allocates for some seconds, or until its standard input is closed.
const BUSY: &str = r#"BEGIN { for (n = 0; n < 40000; n++) { for (i = 0; i < 3000; i++) a[i] = i "x" n; delete a; if (n % 50 == 0 && (getline line < "-") == 0) exit } }"#;

/// The program under the library, which goes on as long as its input gives lines.
fn start() -> Child {
    let mut command = commensal();
    command.args(["run", "--slabinfo", "--", "awk", BUSY]).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut child = command.stderr(Stdio::piped()).spawn().expect("awk, which every system has");
    let mut input = child.stdin.take().expect("a pipe");
    // Lines until somebody ends this one, or the program ends.
    std::thread::spawn(move || {
        use std::io::Write;
        for _ in 0..300 {
            if input.write_all(b"go\n").is_err() {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    child
}

fn tune(words: &[&str]) -> (Option<i32>, String) {
    let done = commensal_does(&[&["tune"], words].concat());
    (done.status.code(), text(&done.stdout) + &text(&done.stderr))
}

#[test]
fn a_running_program_is_tuned() {
    let child = start();
    let pid = child.id().to_string();
    std::thread::sleep(Duration::from_millis(200));
    let tuned = tune(&[&pid, "malloc-32", "16", "4"]);
    assert_eq!(tuned, (Some(0), format!("1 cache malloc-32 of process {pid}: limit 16, batch 4\n")));
    let (status, said) = tune(&[&pid, "malloc-31", "16", "4"]);
    assert!(status == Some(125) && said.contains("has no cache malloc-31"), "{said}");
    let (status, said) = tune(&[&pid, "malloc-64", "1", "4"]);
    assert!(status == Some(125) && said.contains("a limit is at least one batch"), "{said}");
    let stderr = text(&child.wait_with_output().expect("it ends").stderr);
    let row = stderr.lines().find(|line| line.starts_with("malloc-32 ")).unwrap_or_else(|| panic!("{stderr}"));
    let words: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(words[7..11], ["tunables", "16", "4", "0"], "{row}");
}

#[test]
fn a_program_that_rests_does_not_come_along() {
    let mut child = commensal().args(["run", "sleep", "20"]).spawn().expect("sleep");
    std::thread::sleep(Duration::from_millis(200));
    let (status, said) = tune(&[&child.id().to_string(), "malloc-32", "16", "4", "--wait", "0"]);
    assert!(status == Some(125) && said.contains("did not come along"), "{said}");
    child.kill().and_then(|()| child.wait()).expect("it can be ended");
}

#[test]
fn what_cannot_be_tuned_is_told() {
    let mut child = Command::new("sleep").arg("20").spawn().expect("sleep");
    let (status, said) = tune(&[&child.id().to_string(), "malloc-32", "16", "4"]);
    assert!(status == Some(125) && said.contains("does not run under `commensal run`"), "{said}");
    child.kill().and_then(|()| child.wait()).expect("it can be ended");
    let (status, said) = tune(&[&child.id().to_string(), "malloc-32", "16", "4"]);
    assert!(status == Some(125) && said.contains("there is no process"), "{said}");
}

#[test]
fn what_a_program_starts_is_not_tuned_in_its_place() {
    let script = "awk 'BEGIN { for (i = 0; i < 100000; i++) a[i] = i }'; sleep 20";
    let mut child = commensal().args(["run", "sh", "-c", script]).spawn().expect("sh");
    std::thread::sleep(Duration::from_millis(500));
    let (status, said) = tune(&[&child.id().to_string(), "malloc-32", "16", "4", "--wait", "0"]);
    assert!(status == Some(125) && said.contains("did not come along"), "{said}");
    child.kill().and_then(|()| child.wait()).expect("it can be ended");
}
