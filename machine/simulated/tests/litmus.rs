//! Litmus tests: what the simulated machine's memory shows, and what it must never show.

use commensal_machine_simulated::kick;
use commensal_machine_simulated::simulation::{Place, Random, Rates, Settings, run, simulate};
use commensal_machine_simulated::sync::{AtomicU64, Ordering, compiler_fence, fence};
use std::collections::BTreeSet;

const RUNS: u64 = 2000;

/// What two threads, each on a CPU of its own, see in many runs.
fn outcomes(
    new: impl Fn() -> [AtomicU64; 2],
    first: impl Fn(&[AtomicU64; 2]) -> u64 + Sync,
    second: impl Fn(&[AtomicU64; 2]) -> u64 + Sync,
) -> BTreeSet<(u64, u64)> {
    let both = |seed| {
        let settings = Settings { seed, ..Settings::default() };
        let report = simulate(settings, Some(Box::new(Random::new(seed, Rates::QUIET))), || {
            let words = new();
            let (mut left, mut right) = (0, 0);
            run(
                vec![
                    (Box::new(|| left = first(&words)), Place::On(0)),
                    (Box::new(|| right = second(&words)), Place::On(1)),
                ],
                None,
            );
            (left, right)
        });
        report.outcome.expect("nothing fails")
    };
    (0..RUNS).map(both).collect()
}

fn zeroes() -> [AtomicU64; 2] {
    [AtomicU64::new(0), AtomicU64::new(0)]
}

/// Each writes its word and reads the other's.
fn store_buffering(left: impl Fn() + Sync, right: impl Fn() + Sync) -> BTreeSet<(u64, u64)> {
    let first = |[x, y]: &[AtomicU64; 2]| {
        x.store(1, Ordering::Release);
        left();
        y.load(Ordering::Acquire)
    };
    let second = |[x, y]: &[AtomicU64; 2]| {
        y.store(1, Ordering::Release);
        right();
        x.load(Ordering::Acquire)
    };
    outcomes(zeroes, first, second)
}

#[test]
fn stores_are_buffered() {
    let seen = store_buffering(|| {}, || {});
    assert_eq!(seen, BTreeSet::from([(0, 0), (0, 1), (1, 0), (1, 1)]));
}

#[test]
fn fences_forbid_store_buffering() {
    let full = || fence(Ordering::SeqCst);
    let seen = store_buffering(full, full);
    assert_eq!(seen, BTreeSet::from([(0, 1), (1, 0), (1, 1)]));
}

#[test]
fn one_fence_is_not_enough() {
    assert!(store_buffering(|| fence(Ordering::SeqCst), || {}).contains(&(0, 0)));
    assert!(store_buffering(|| fence(Ordering::SeqCst), || compiler_fence(Ordering::SeqCst)).contains(&(0, 0)));
}

#[test]
fn a_fence_for_all_forbids_it_with_compiler_barriers_on_the_other_side() {
    let all = || kick::fence_all().expect("membarrier is there");
    let seen = store_buffering(all, || compiler_fence(Ordering::SeqCst));
    assert_eq!(seen, BTreeSet::from([(0, 1), (1, 0), (1, 1)]));
}

#[test]
fn messages_pass() {
    let send = |[data, flag]: &[AtomicU64; 2]| {
        data.store(42, Ordering::Relaxed);
        flag.store(1, Ordering::Release);
        0
    };
    let receive = |[data, flag]: &[AtomicU64; 2]| {
        let flag = flag.load(Ordering::Acquire);
        flag * 100 + data.load(Ordering::Relaxed)
    };
    assert_eq!(outcomes(zeroes, send, receive), BTreeSet::from([(0, 0), (0, 42), (0, 142)]));
}

#[test]
fn increments_in_two_steps_get_lost() {
    let two_steps = |words: &[AtomicU64; 2]| {
        let old = words[0].load(Ordering::Relaxed);
        words[0].store(old + 1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        words[0].load(Ordering::Relaxed)
    };
    let seen = outcomes(zeroes, two_steps, two_steps);
    assert!(seen.contains(&(1, 1)) && seen.contains(&(1, 2)), "{seen:?}");
    let one_step = |words: &[AtomicU64; 2]| {
        words[0].fetch_add(1, Ordering::Relaxed);
        words[0].load(Ordering::Relaxed)
    };
    assert!(!outcomes(zeroes, one_step, one_step).contains(&(1, 1)));
}
