//! What RCU promises besides that it waits for readers, which tests/torture and the explorations look at: settings, reports, misuse.

mod common;

use commensal_runtime::machine::kick;
use commensal_runtime::rcu;
use common::child::{self, alone};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

#[test]
fn grace_periods_keep_their_distance_unless_they_are_expedited() {
    alone(|| {
        const INTERVAL: Duration = Duration::from_secs(1);
        /// If these kept the distance, too, it would be longer than anybody waits.
        const EXPEDITED: u64 = 2000;
        rcu::set_knob("minimum_interval_us", INTERVAL.as_micros() as u32).unwrap();
        let (begun, start) = (rcu::grace_periods(), Instant::now());
        (0..EXPEDITED).for_each(|_| rcu::synchronize_expedited());
        // From the beginning of the last of those on.
        rcu::synchronize();
        let took = start.elapsed();
        assert_eq!(rcu::grace_periods() - begun, EXPEDITED + 1);
        assert!(
            took >= INTERVAL,
            "the usual one began too early, {took:?} after the first expedited one was asked for"
        );
    });
}

#[test]
fn callers_share_grace_periods() {
    const CALLERS: usize = 8;
    const TRIES: usize = 100;
    alone(|| {
        // They all wait for a section, and then need one grace period, or two. On a busy machine some of them may come too late for that.
        let share = || {
            let (all, begun) = (Barrier::new(CALLERS + 1), rcu::grace_periods());
            let section = rcu::read();
            thread::scope(|scope| {
                for _ in 0..CALLERS {
                    scope.spawn(|| {
                        all.wait();
                        rcu::synchronize();
                    });
                }
                all.wait();
                thread::sleep(Duration::from_millis(100));
                drop(section);
            });
            rcu::grace_periods() - begun
        };
        let taken: Vec<u64> = (0..TRIES).map(|_| share()).take_while(|over| !(1..=3).contains(over)).collect();
        assert!(taken.len() < TRIES, "{CALLERS} callers took {taken:?} grace periods");
    });
}

/// Waits for readers while another thread has been one for a moment, and is one for so long.
fn synchronize_beside_a_section_of(hold_ms: u64) {
    let both = Barrier::new(2);
    thread::scope(|scope| {
        scope.spawn(|| {
            let _section = rcu::read();
            both.wait();
            thread::sleep(Duration::from_millis(hold_ms));
        });
        both.wait();
        rcu::synchronize();
    });
}

#[test]
fn grace_period_kicks_at_most_once_however_long_it_takes() {
    alone(|| {
        rcu::synchronize();
        let (made, refused) = kick::counts();
        for hold in [0, 300] {
            let ((made, _), begun) = (kick::counts(), rcu::grace_periods());
            synchronize_beside_a_section_of(hold);
            let (kicks, over) = (kick::counts().0 - made, rcu::grace_periods() - begun);
            assert!(kicks <= over && over == 1, "{kicks} kicks for {over} grace periods of {hold} ms");
        }
        // Where the kernel grants them: else lanes are used, and nobody is kicked.
        assert!(kick::counts().0 > made || refused > 0, "nobody was kicked at all");
    });
}

#[test]
fn stalled_grace_period_reports_the_open_section() {
    if child::case().is_some() {
        let start = Instant::now();
        // The second one waits for longer than it may without a word.
        for (stall_ms, hold_ms) in [(1_000_000, 100), (50, 500)] {
            rcu::set_knob("stall_ms", stall_ms).unwrap();
            synchronize_beside_a_section_of(hold_ms);
        }
        return eprintln!("all took ms: {}", start.elapsed().as_millis());
    }
    let outcome = child::run(&mut child::command("act"));
    outcome.expect_success();
    let told = outcome.stderr;
    let lines: Vec<&str> = told.lines().filter(|line| line.starts_with("commensal: a grace period")).collect();
    let place = concat!("; asked for at ", file!(), ":");
    let is_well = |line: &&str| line.contains("a read section is open that was begun in ") && line.contains(place);
    assert!(lines.first().is_some_and(is_well), "{told}");
    let took = told.lines().find_map(|line| line.strip_prefix("all took ms: ")?.parse::<usize>().ok()).unwrap();
    assert!(lines.len() <= took / 50 + 1, "in {took} ms: {told}");
}

#[test]
fn synchronize_in_a_read_section_ends_the_program() {
    if child::case().is_some() {
        let _section = rcu::read();
        return rcu::synchronize();
    }
    let outcome = child::run(&mut child::command("act"));
    let told = outcome.stderr.lines().any(|line| {
        line.starts_with(concat!("commensal: ", file!(), ":")) && line.contains("waits for readers in a read section")
    });
    assert!(told && !outcome.has_succeeded(), "{}", outcome.report());
}
