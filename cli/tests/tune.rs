//! `commensal tune` as an operator meets it.

mod common;

use std::fs;
use std::process::Command;

use common::watched::{Place, Watched, eventually};
use common::{commensal, commensal_does, text};

/// Says that it runs, and then rests.
const RESTING: &str = "echo ready; read line";

/// A program that has come to rest: it sleeps in the kernel.
fn resting(script: &str) -> Watched {
    let started = Watched::when_ready(commensal().args(["run", "sh", "-c", script]));
    let state = || fs::read_to_string(format!("/proc/{}/stat", started.pid())).expect("it runs");
    eventually("it rests", || state().contains(") S ").then_some(()));
    started
}

fn tune(words: &[&str]) -> (Option<i32>, String) {
    let done = commensal_does(&[&["tune"], words].concat());
    (done.status.code(), text(&done.stdout) + &text(&done.stderr))
}

/// Children inherit the setting, and not the page: whatever they have behind its descriptor stays as it is.
#[test]
fn file_behind_the_descriptor_in_a_child_stays_as_it_is() {
    let place = Place::new();
    let file = place.path().join("empty");
    // In the child the descriptor is one of an empty file: to map that is to die. It still is there when the child executes another program.
    let script =
        "page=${COMMENSAL_CONF##*control:}; page=${page%%,*}; eval \"exec $page<>$0\"; sh -c \"echo child >&$page\"";
    let done = commensal_does(&["run", "--", "sh", "-c", script, file.to_str().expect("a path of letters")]);
    assert_eq!((done.status.code(), text(&done.stderr)), (Some(0), String::new()));
    assert_eq!(fs::read_to_string(&file).expect("it is there"), "child\n");
}

#[test]
fn running_program_is_tuned() {
    let place = Place::new();
    let watched = place.start(1, 1000, 20);
    let pid = watched.pid().to_string();
    let tuned = tune(&[&pid, "malloc-64", "16", "4", "--wait", "600"]);
    assert_eq!(tuned, (Some(0), format!("1 cache malloc-64 of process {pid}: limit 16, batch 4\n")));
    let (status, said) = tune(&[&pid, "malloc-31", "16", "4", "--wait", "600"]);
    assert!(status == Some(125) && said.contains("has no cache malloc-31"), "{said}");
    let (status, said) = tune(&[&pid, "malloc-64", "1", "4", "--wait", "600"]);
    assert!(status == Some(125) && said.contains("a LIMIT from BATCH"), "{said}");
    eventually("its slab table says so", || {
        let table = text(&place.command(&["slabinfo", &pid]).output().unwrap().stdout);
        let row = table.lines().find(|line| line.starts_with("malloc-64 "))?;
        let words: Vec<&str> = row.split_whitespace().collect();
        (words[7..11] == ["tunables", "16", "4", "0"]).then_some(())
    });
}

#[test]
fn limits_of_a_running_program_are_set() {
    let place = Place::new();
    let watched = place.start(1, 1000, 20);
    let pid = watched.pid().to_string();
    let figure = |name: &str| {
        let all = text(&place.command(&["stat", &pid, "--json"]).output().unwrap().stdout);
        let rest = all.split_once(&format!("\"{name}\":"))?.1.trim_start();
        rest.split(|letter: char| !letter.is_ascii_digit()).next()?.parse::<u64>().ok()
    };
    let tuned = tune(&[&pid, "limit.soft", "3000", "--wait", "600"]);
    assert_eq!(tuned, (Some(0), format!("limit.soft of process {pid}: 3000 MiB\n")));
    assert_eq!(tune(&[&pid, "limit", "4000", "--wait", "600"]).0, Some(0));
    eventually("its figures say so", || {
        let limits = ["soft_limit_bytes", "limit_bytes"].map(figure);
        (limits == [Some(3000 << 20), Some(4000 << 20)]).then_some(())
    });
    let tuned = tune(&[&pid, "limit", "0", "--wait", "600"]);
    assert_eq!(tuned, (Some(0), format!("limit of process {pid}: none\n")));
    eventually("its figures say so", || (figure("limit_bytes") == Some(0)).then_some(()));
    let (status, said) = tune(&[&pid, "malloc-64", "16"]);
    assert!(status == Some(2) && said.contains("no BATCH for malloc-64"), "{said}");
}

#[test]
fn resting_program_does_not_pick_up_the_tuning() {
    let started = resting(RESTING);
    let (status, said) = tune(&[&started.pid().to_string(), "malloc-32", "16", "4", "--wait", "0"]);
    assert!(status == Some(125) && said.contains("has not taken the request"), "{said}");
}

#[test]
fn process_that_cannot_be_tuned_is_told() {
    let mut sleeper = Watched::start(Command::new("sleep").arg("10000"));
    let pid = sleeper.pid().to_string();
    let (status, said) = tune(&[&pid, "malloc-32", "16", "4"]);
    assert!(status == Some(125) && said.contains("does not run under commensal run"), "{said}");
    sleeper.kill();
    let (status, said) = tune(&[&pid, "malloc-32", "16", "4"]);
    assert!(status == Some(125) && said.contains("no process"), "{said}");
}

#[test]
fn child_of_a_resting_program_is_not_tuned_in_its_place() {
    let script = format!("awk 'BEGIN {{ for (i = 0; i < 100000; i++) a[i] = i }}'; {RESTING}");
    let started = resting(&script);
    let (status, said) = tune(&[&started.pid().to_string(), "malloc-32", "16", "4", "--wait", "0"]);
    assert!(status == Some(125) && said.contains("has not taken the request"), "{said}");
}
