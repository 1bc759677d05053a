//! Readers that registered: what is found stays until the section ends, and grace periods end as the policy says.

mod common;

use commensal::heap;
use commensal::rcu::qsbr::{self, CooperativeReader, KickableReader, Policy, Reader};
use commensal::rcu::{self, Cell};
use common::{PATIENCE, child};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// After which readers are told to report.
const THRESHOLD: Duration = Duration::from_millis(40);

/// Acts a test out in a process of its own.
fn act_out(act: impl FnOnce()) {
    child::alone(|| {
        rcu::set_knob("till_qs_ms", THRESHOLD.as_millis() as u32).unwrap();
        act();
    });
}

/// Whether a grace period is over while another thread is a reader that does `step` many times: before anybody is flagged or kicked, and with that.
fn is_over_beside<const KICKABLE: bool>(mut step: impl FnMut(&mut Reader<KICKABLE>) + Send) -> (bool, bool) {
    const ROUNDS: u32 = 200;
    let (steps, end) = (AtomicU64::new(0), AtomicBool::new(false));
    let set = |threshold_ms| rcu::set_knob("till_qs_ms", threshold_ms).unwrap();
    set(1_000_000);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut reader = Reader::register().unwrap();
            while !end.load(Ordering::Relaxed) {
                step(&mut reader);
                steps.fetch_add(1, Ordering::Relaxed);
            }
        });
        let next_step = || {
            let before = steps.load(Ordering::Relaxed);
            while steps.load(Ordering::Relaxed) < before + 2 {
                thread::yield_now();
            }
        };
        next_step();
        let cookie = rcu::start();
        let by_itself = (0..ROUNDS).any(|_| {
            next_step();
            rcu::is_over(cookie)
        });
        set(0);
        let start = Instant::now();
        while !rcu::is_over(cookie) && start.elapsed() < PATIENCE {
            thread::yield_now();
        }
        let is_over = rcu::is_over(cookie);
        end.store(true, Ordering::Relaxed);
        (by_itself, is_over)
    })
}

fn checkpoint<const KICKABLE: bool>(reader: &mut Reader<KICKABLE>) {
    drop(reader.read());
    reader.checkpoint();
}

#[test]
fn grace_periods_are_as_short_as_the_policy_wants_them() {
    act_out(|| {
        const AT_ONCE: (bool, bool) = (true, true);
        const WHEN_TOLD: (bool, bool) = (false, true);
        let set = |policy| qsbr::set_policy(policy).unwrap();
        set(Policy::Flagged);
        assert_eq!(is_over_beside::<false>(checkpoint), WHEN_TOLD, "flagged");
        let always = is_over_beside::<false>(|reader| reader.checkpoint_always());
        assert_eq!(always, AT_ONCE, "reported in any case");
        set(Policy::Counted(1));
        assert_eq!(is_over_beside::<false>(checkpoint), AT_ONCE, "counted");
        set(Policy::Counted(u32::MAX));
        assert_eq!(is_over_beside::<false>(checkpoint), WHEN_TOLD, "counted, and urgent");
        set(Policy::None);
        let always = is_over_beside::<false>(|reader| reader.checkpoint_always());
        assert_eq!(always, AT_ONCE, "reported in any case, without a policy");
        assert_eq!(is_over_beside::<false>(|reader| reader.offline(thread::yield_now)), AT_ONCE, "offline");
        set(Policy::Kicked);
        let at_its_end = is_over_beside::<true>(|reader| drop(reader.read()));
        assert_eq!(at_its_end, WHEN_TOLD, "at a section's end");
        // In no section, and at no checkpoint.
        assert_eq!(is_over_beside::<true>(|_| ()), WHEN_TOLD, "kicked");
        assert_eq!(is_over_beside::<false>(checkpoint), WHEN_TOLD, "not kickable");
    });
}

#[test]
fn grace_period_after_a_kick_waits_for_the_kicked_section() {
    act_out(|| {
        qsbr::set_policy(Policy::Kicked).unwrap();
        for inner in [false, true] {
            let (step, section) = (AtomicU32::new(0), 8 * THRESHOLD);
            thread::scope(|scope| {
                scope.spawn(|| {
                    let reader = KickableReader::register().unwrap();
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
fn loaded_value_stays_valid_under_each_policy() {
    act_out(|| {
        const READERS: usize = 3;
        const ROUNDS: u64 = 300;
        rcu::set_knob("till_qs_ms", 1).unwrap();
        rcu::set_knob("lazy_limit", 8).unwrap();
        let (cell, end) = (Cell::new([0u64; 6]).unwrap(), AtomicBool::new(false));
        let boxed = Cell::new(vec![0u64; 6]).unwrap();
        thread::scope(|scope| {
            for which in 0..READERS {
                let (cell, boxed, end) = (&cell, &boxed, &end);
                scope.spawn(move || {
                    let mut reader = KickableReader::register().unwrap();
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
fn taken_signal_and_wait_for_oneself_are_refused() {
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
            let _reader = CooperativeReader::register().unwrap();
            return rcu::synchronize();
        }
        None => {}
    }
    child::run(&mut child::command("signal")).expect_success();
    let outcome = child::run(&mut child::command("itself"));
    let died = !outcome.has_succeeded();
    let told = outcome.stderr.contains("waits for readers in a thread that registered as one, and so for itself");
    assert!(died && told, "{}", outcome.report());
}

#[test]
fn policy_of_the_settings_holds_from_the_start() {
    if let Some(case) = child::case() {
        extern "C" fn mine(_: libc::c_int) {}
        if case == "refused" {
            // SAFETY: a handler that does nothing.
            unsafe { libc::signal(libc::SIGURG, mine as extern "C" fn(libc::c_int) as libc::sighandler_t) };
        }
        heap::conf::apply_environment();
        let expected = match case.as_str() {
            "counted" => Policy::Counted(3),
            "kicked" => Policy::Kicked,
            "none" => Policy::None,
            _ => Policy::Flagged,
        };
        return assert_eq!(qsbr::policy(), expected, "{case}");
    }
    for (case, conf, says) in [
        ("counted", "rcu.counted_each:3,rcu.policy:counted", ""),
        ("kicked", "rcu.policy:kicked", ""),
        ("none", "rcu.policy:none", ""),
        ("usual", "rcu.policy:kick", "rcu.policy cannot be 'kick': expected flagged, counted, kicked or none; ignored"),
        (
            "refused",
            "rcu.policy:kicked",
            "rcu.policy cannot be 'kicked': the program has a handler for SIGURG; ignored",
        ),
    ] {
        let outcome = child::run(child::command(case).env("COMMENSAL_CONF", conf));
        outcome.expect_success();
        assert!(outcome.stderr.contains(says), "{}", outcome.report());
    }
}
