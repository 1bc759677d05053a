//! Readers that registered: what is found stays until the section ends, and grace periods end as the policy says.

mod common;

use commensal::rcu::qsbr::{self, Policy, Reader};
use commensal::rcu::{self, Cell, Knob};
use common::child;
use common::forks::{self, Way};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);
/// After which readers are told to report.
const THRESHOLD: Duration = Duration::from_millis(40);

/// Runs `test` again as a process of its own, in which `act` is done.
fn act_out(test: &str, act: impl FnOnce()) {
    if child::case().is_some() {
        rcu::set_knob(Knob::TillQs, THRESHOLD.as_millis() as u32).unwrap();
        return act();
    }
    child::run(&mut child::command(test, "act"), LIMIT).expect_success(test);
}

/// What a grace period takes while another thread is a reader that does `step` again and again, after `begin`.
fn time_beside<const KICKABLE: bool>(mut step: impl FnMut(&mut Reader<KICKABLE>) + Send) -> Duration {
    let (ready, end) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut reader = Reader::register().unwrap();
            while !end.load(Ordering::Relaxed) {
                step(&mut reader);
                ready.store(true, Ordering::Relaxed);
            }
        });
        while !ready.load(Ordering::Relaxed) {
            thread::yield_now();
        }
        let start = Instant::now();
        // Of several the shortest: this machine has others to serve.
        let shortest = (0..3).map(|_| {
            let start = Instant::now();
            rcu::synchronize();
            start.elapsed()
        });
        let shortest = shortest.min().unwrap();
        end.store(true, Ordering::Relaxed);
        assert!(start.elapsed() < LIMIT);
        shortest
    })
}

fn checkpoint<const KICKABLE: bool>(reader: &mut Reader<KICKABLE>) {
    drop(reader.read());
    reader.checkpoint();
}

#[test]
fn grace_periods_are_as_short_as_the_policy_wants_them() {
    act_out("grace_periods_are_as_short_as_the_policy_wants_them", || {
        let set = |policy| qsbr::set_policy(policy).unwrap();
        let short = THRESHOLD / 2;
        set(Policy::Flagged);
        let flagged = time_beside::<false>(checkpoint);
        assert!(flagged >= THRESHOLD && flagged < 3 * THRESHOLD, "flagged: {flagged:?}");
        let always = time_beside::<false>(|reader| reader.checkpoint_always());
        assert!(always < short, "reported in any case: {always:?}");
        set(Policy::Counted(1));
        let counted = time_beside::<false>(checkpoint);
        assert!(counted < short, "counted: {counted:?}");
        set(Policy::Counted(u32::MAX));
        let urgent = time_beside::<false>(checkpoint);
        assert!(urgent >= 2 * THRESHOLD && urgent < 4 * THRESHOLD, "counted, and urgent: {urgent:?}");
        set(Policy::None);
        let always = time_beside::<false>(|reader| reader.checkpoint_always());
        assert!(always < short, "reported in any case, without a policy: {always:?}");
        let offline = time_beside::<false>(|reader| reader.offline(|| thread::sleep(Duration::from_millis(1))));
        assert!(offline < short, "offline: {offline:?}");
        set(Policy::Kicked);
        let at_its_end = time_beside::<true>(|reader| drop(reader.read()));
        assert!(at_its_end >= THRESHOLD && at_its_end < 3 * THRESHOLD, "at a section's end: {at_its_end:?}");
        // In no section, and at no checkpoint.
        let kicked = time_beside::<true>(|_| ());
        assert!(kicked >= 3 * THRESHOLD && kicked < 6 * THRESHOLD, "kicked: {kicked:?}");
        let flagged = time_beside::<false>(checkpoint);
        assert!(flagged >= THRESHOLD && flagged < 3 * THRESHOLD, "not kickable: {flagged:?}");
    });
}

#[test]
fn a_kick_in_a_section_waits_for_its_end() {
    act_out("a_kick_in_a_section_waits_for_its_end", || {
        qsbr::set_policy(Policy::Kicked).unwrap();
        for inner in [false, true] {
            let (step, section) = (AtomicU32::new(0), 8 * THRESHOLD);
            thread::scope(|scope| {
                scope.spawn(|| {
                    let reader = Reader::<true>::register().unwrap();
                    let outer = reader.read();
                    step.store(1, Ordering::SeqCst);
                    let start = Instant::now();
                    while start.elapsed() < section {
                        // One that ends within it is not its end.
                        if inner {
                            drop(reader.read());
                        }
                    }
                    step.store(2, Ordering::SeqCst);
                    drop(outer);
                    // No checkpoint: the end of the section has to be enough.
                    while step.load(Ordering::SeqCst) != 3 {
                        thread::yield_now();
                    }
                });
                while step.load(Ordering::SeqCst) == 0 {
                    thread::yield_now();
                }
                rcu::synchronize();
                assert_eq!(step.load(Ordering::SeqCst), 2, "a grace period ended in a section that was kicked");
                step.store(3, Ordering::SeqCst);
            });
        }
    });
}

#[test]
fn what_was_found_stays_under_every_policy() {
    act_out("what_was_found_stays_under_every_policy", || {
        const READERS: usize = 3;
        const ROUNDS: u64 = 300;
        rcu::set_knob(Knob::TillQs, 1).unwrap();
        rcu::set_knob(Knob::LazyLimit, 8).unwrap();
        let (cell, end) = (Cell::new([0u64; 6]).unwrap(), AtomicBool::new(false));
        let boxed = Cell::new(vec![0u64; 6]).unwrap();
        thread::scope(|scope| {
            for which in 0..READERS {
                let (cell, boxed, end) = (&cell, &boxed, &end);
                scope.spawn(move || {
                    let mut reader = Reader::<true>::register().unwrap();
                    let mut looks = which;
                    while !end.load(Ordering::Relaxed) {
                        let section = reader.read();
                        let (found, other) = (cell.load_in(&section), boxed.load_in(&section));
                        for _ in 0..20 {
                            assert!(found.iter().all(|word| *word == found[0]), "found {found:?}");
                            assert!(other.iter().all(|word| *word == other[0]), "found {other:?}");
                        }
                        drop(section);
                        looks += 1;
                        match looks % 64 {
                            0 => reader.offline(thread::yield_now),
                            1 => reader.synchronize(),
                            2 => reader.checkpoint_always(),
                            3..32 => reader.checkpoint(),
                            _ => {}
                        }
                        if looks.is_multiple_of(5000) {
                            reader = Reader::register().unwrap();
                        }
                    }
                });
            }
            let policies = [Policy::Flagged, Policy::Counted(3), Policy::Kicked, Policy::None, Policy::Counted(100)];
            for round in 1..=ROUNDS {
                qsbr::set_policy(policies[round as usize % policies.len()]).unwrap();
                for _ in 0..10 {
                    cell.store([round; 6]).unwrap();
                    boxed.store(vec![round; 6]).unwrap();
                }
                rcu::synchronize();
            }
            end.store(true, Ordering::Relaxed);
        });
        rcu::barrier();
        assert_eq!((rcu::waiting().objects, rcu::waiting().lost), (0, 0));
    });
}

#[test]
fn children_wait_for_the_readers_of_the_thread_that_forked() {
    act_out("children_wait_for_the_readers_of_the_thread_that_forked", || {
        rcu::set_knob(Knob::TillQs, 0).unwrap();
        let (ready, end) = (AtomicBool::new(false), AtomicBool::new(false));
        thread::scope(|scope| {
            // Never reports.
            scope.spawn(|| {
                let _reader = Reader::<false>::register().unwrap();
                ready.store(true, Ordering::Relaxed);
                while !end.load(Ordering::Relaxed) {
                    thread::yield_now();
                }
            });
            while !ready.load(Ordering::Relaxed) {
                thread::yield_now();
            }
            for way in Way::ALL {
                let mut own = Reader::<false>::register().unwrap();
                let child = way.fork_and(|| {
                    let cookie = rcu::start();
                    if (0..1000).any(|_| rcu::is_over(cookie)) {
                        return Err(2);
                    }
                    own.checkpoint_always();
                    let is_over = (0..1000).any(|_| rcu::is_over(cookie));
                    drop(own);
                    rcu::synchronize();
                    if is_over { Ok(()) } else { Err(3) }
                });
                let status = forks::wait_for(child, Duration::from_secs(20));
                assert_eq!(
                    status,
                    Some(0),
                    "a child of {way:?}: 2: over before its thread reported, 3: not over after it had"
                );
            }
            end.store(true, Ordering::Relaxed);
        });
    });
}

#[test]
fn what_cannot_be_is_refused() {
    const TEST: &str = "what_cannot_be_is_refused";
    extern "C" fn mine(_: libc::c_int) {}
    match child::case().as_deref() {
        Some("signal") => {
            // SAFETY: a handler that does nothing.
            unsafe { libc::signal(libc::SIGURG, mine as extern "C" fn(libc::c_int) as libc::sighandler_t) };
            assert_eq!(qsbr::set_policy(Policy::Kicked), Err(qsbr::SignalInUse));
            assert_eq!(qsbr::policy(), Policy::Flagged);
            return;
        }
        Some(_) => {
            let _reader = Reader::<false>::register().unwrap();
            return rcu::synchronize();
        }
        None => {}
    }
    child::run(&mut child::command(TEST, "signal"), LIMIT).expect_success(TEST);
    let outcome = child::run(&mut child::command(TEST, "itself"), LIMIT);
    let died = !outcome.status.is_some_and(|status| status.success());
    let told = outcome.stderr.contains("waits for readers in a thread that registered as one, and so for itself");
    assert!(died && told, "{}", outcome.report());
}
