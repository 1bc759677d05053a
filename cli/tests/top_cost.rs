//! What looking takes of a CPU. Alone in its file, so that no other test runs at the same time.
//!
//! The two percent are those of the command as it is released; without optimisation it takes several times as much, and the limit is that many times as high.

mod common;

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use common::terminal::Terminal;
use common::watched::{Place, Watched};
use rustix::process::{Pid, Signal, kill_process};

/// The most that it may take.
const LIMIT: f64 = if cfg!(debug_assertions) { 0.06 } else { 0.02 };
/// In which the kernel tells times to programs.
const TICKS_A_SECOND: f64 = 100.0;

/// Time on CPUs that a process has had, in seconds.
fn used_s(pid: u32) -> f64 {
    let status = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = status.rsplit_once(") ").unwrap().1.split(' ').collect();
    let ticks = |field: usize| fields[field].parse::<u64>().unwrap();
    (ticks(11) + ticks(12)) as f64 / TICKS_A_SECOND
}

/// The part of a CPU that the view takes, in ten seconds, as it is if nobody says otherwise.
fn part(terminal: &Terminal, args: &str) -> f64 {
    let view = terminal.start("", &format!("top {args}"));
    terminal.wait_for("the view", |screen| screen.contains(" q quit"));
    let (start, before) = (Instant::now(), used_s(view));
    sleep(Duration::from_secs(10));
    let part = (used_s(view) - before) / start.elapsed().as_secs_f64();
    eprintln!("top {args}: {:.2} % of a CPU", part * 100.0);
    terminal.key("q");
    terminal.wait_for("the shell", |screen| !screen.contains(" q quit"));
    part
}

#[test]
fn looking_takes_less_than_two_percent_of_a_cpu() {
    let place = Place::new();
    let watched: Vec<Watched> = (0..50).map(|_| place.start(1, 1000, 200)).collect();
    // Half of them say nothing new from now on: then it is looked at whether they are there still.
    for idle in watched.iter().skip(1).step_by(2) {
        kill_process(Pid::from_raw(idle.pid() as i32).unwrap(), Signal::STOP).unwrap();
    }
    let name = "looking_takes_less_than_two_percent_of_a_cpu";
    let Some(terminal) = Terminal::open(name, "xterm-256color", &place) else { return };
    for args in [watched[0].pid().to_string(), String::new()] {
        let part = part(&terminal, &args);
        assert!(part < LIMIT, "top {args}: {part}");
    }
}
