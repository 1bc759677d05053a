//! What looking takes, as a count that others who want the CPU do not change: how often the view reads files.

mod common;

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use common::terminal::Terminal;
use common::watched::{Place, Watched};
use rustix::process::{Pid, Signal, kill_process};

const PROCESSES: usize = 20;
/// Between two looks.
const DELAY_S: f64 = 0.5;
/// Of one look at one process: its page, and what the kernel says of it.
const MOST_READS: f64 = 15.0;

/// How often a process has read.
fn reads(pid: u32) -> u64 {
    let told = fs::read_to_string(format!("/proc/{pid}/io")).unwrap();
    told.lines().find_map(|line| line.strip_prefix("syscr: ")).unwrap().parse().unwrap()
}

/// How often the view reads for one look.
fn reads_of_a_look(terminal: &Terminal, args: &str) -> f64 {
    let view = terminal.start("", &format!("top --delay {DELAY_S} {args}"));
    terminal.wait_for("the view", |screen| screen.contains(" q quit"));
    let (start, before) = (Instant::now(), reads(view));
    sleep(Duration::from_secs(3));
    let all = reads(view) - before;
    let looks = start.elapsed().as_secs_f64() / DELAY_S + 1.0;
    terminal.key("q");
    terminal.wait_for("the shell", |screen| !screen.contains(" q quit"));
    assert!(all > 0, "top {args}: it does not look");
    eprintln!("top {args}: {:.1} reads a look", all as f64 / looks);
    all as f64 / looks
}

#[test]
fn looking_reads_a_few_times_for_each_process() {
    let place = Place::new();
    let watched: Vec<Watched> = (0..PROCESSES).map(|_| place.start(1, 1000, 200)).collect();
    // Half of them say nothing new from now on: then it is looked at whether they are there still.
    for idle in watched.iter().skip(1).step_by(2) {
        kill_process(Pid::from_raw(idle.pid() as i32).unwrap(), Signal::STOP).unwrap();
    }
    let name = "looking_reads_a_few_times_for_each_process";
    let Some(terminal) = Terminal::open(name, "xterm-256color", &place) else { return };
    for (args, processes) in [(watched[0].pid().to_string(), 1.0), (String::new(), PROCESSES as f64)] {
        let reads = reads_of_a_look(&terminal, &args);
        assert!(reads <= MOST_READS * processes, "top {args}: {reads} reads a look");
    }
}
