//! Readers that registered: grace periods end as the policy says. That what is found stays until the section ends is tortured
//! (`torture/registered.rs`) and explored (`exploration/src/qsbr.rs`).

mod common;

use commensal_runtime::heap;
use commensal_runtime::rcu;
use commensal_runtime::rcu::qsbr::{self, CooperativeReader, Policy, Reader};
use common::{PATIENCE, child};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

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
    child::alone(|| {
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

/// The program has a handler for it, which does nothing.
fn take_the_signal() {
    // SAFETY: as said.
    unsafe {
        libc::signal(libc::SIGURG, common::disturbed::nothing as extern "C" fn(libc::c_int) as libc::sighandler_t)
    };
}

#[test]
fn taken_signal_and_wait_for_oneself_are_refused() {
    match child::case().as_deref() {
        Some("signal") => {
            take_the_signal();
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
    let itself = child::run(&mut child::command("itself"));
    itself.expect_death("waits for readers in a thread that registered as one, and so for itself");
}

#[test]
fn policy_of_the_settings_holds_from_the_start() {
    let cases = [
        ("counted", "rcu.counted_each:3,rcu.policy:counted", Policy::Counted(3), ""),
        ("kicked", "rcu.policy:kicked", Policy::Kicked, ""),
        ("none", "rcu.policy:none", Policy::None, ""),
        ("usual", "rcu.policy:kick", Policy::Flagged, "'kick': expected flagged, counted, kicked or none; ignored"),
        ("refused", "rcu.policy:kicked", Policy::Flagged, "'kicked': the program has a handler for SIGURG; ignored"),
    ];
    let case = child::case();
    for (name, conf, expected, says) in cases {
        if case.is_none() {
            let outcome = child::run(child::command(name).env("COMMENSAL_CONF", conf));
            outcome.expect_success();
            assert!(outcome.stderr.contains(says), "{}", outcome.report());
        } else if case.as_deref() == Some(name) {
            if name == "refused" {
                take_the_signal();
            }
            heap::conf::apply_environment();
            assert_eq!(qsbr::policy(), expected, "{name}");
        }
    }
}
