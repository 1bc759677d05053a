//! Litmus tests: what the simulated machine's memory shows, and what it must never show. `exhaustive.rs` checks in all
//! runs that stores are buffered, and that fences prevent it.

use simulated::simulation::{Job, Place, Random, Rates, Settings, run, simulate};
use simulated::slot::{self, Section, restartably};
use simulated::sync::{AtomicU64, Ordering, compiler_fence, fence};
use simulated::{kick, vm};
use std::collections::BTreeSet;

const RUNS: u64 = 2000;

/// What two threads, each on a CPU of its own, see in many runs.
fn outcomes(
    new: impl Fn() -> [AtomicU64; 2], first: impl Fn(&[AtomicU64; 2]) -> u64 + Sync,
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
fn store_buffering_with_one_fence_is_still_seen() {
    assert!(store_buffering(|| fence(Ordering::SeqCst), || {}).contains(&(0, 0)));
    assert!(store_buffering(|| fence(Ordering::SeqCst), || compiler_fence(Ordering::SeqCst)).contains(&(0, 0)));
}

#[test]
fn fence_for_all_with_compiler_barriers_forbids_reordering() {
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

/// Threads that move between slots append to a list in their row. Returns how many appended, and how many are listed.
fn appended(looks_inside: bool, seed: u64) -> (usize, usize) {
    const THREADS: usize = 3;
    const TIMES: usize = 10;
    const ROW: usize = 4096;
    let settings = Settings { seed, ..Settings::default() };
    let rates = Rates { preempt: 3000, migrate: 3000, ..Rates::QUIET };
    let report = simulate(settings, Some(Box::new(Random::new(seed, rates))), || {
        slot::initialise();
        let base = vm::reserve(core::ptr::null_mut(), 8 * ROW, vm::Access::ReadWrite).expect("there is memory");
        let word =
            |slot: u32, index: u64| base.wrapping_add(slot as usize * ROW).cast::<u64>().wrapping_add(index as usize);
        let append = || {
            let before = slot::current().expect("a thread has a slot");
            let work = |section: &Section| {
                let now = section.slot()?.expect("a thread has a slot");
                let slot = if looks_inside { now } else { before };
                // SAFETY: every slot has a row, which has room for all.
                unsafe {
                    let length = section.load(word(slot, 0))?;
                    section.prepare(word(slot, 1 + length), 1)?;
                    section.store(word(slot, 0), length + 1)?;
                }
                Ok(true)
            };
            while !restartably(false, work) {}
        };
        let job = |_| -> (Job<'_>, Place) { (Box::new(|| (0..TIMES).for_each(|_| append())), Place::Anywhere) };
        run((0..THREADS).map(job).collect(), None);
        // SAFETY: as above, and nobody else runs.
        (0..8).map(|slot| unsafe { word(slot, 0).read() } as usize).sum()
    });
    (THREADS * TIMES, report.outcome.expect("nothing fails"))
}

#[test]
fn restartable_push_without_the_id_check_is_caught() {
    let differ = |looks_inside| {
        (0..300)
            .filter(|&seed| {
                let (appended, found) = appended(looks_inside, seed);
                appended != found
            })
            .count()
    };
    assert_eq!(differ(true), 0);
    assert!(differ(false) > 0);
}
