//! Small bodies, of which all runs within a bound are made. Some are litmus tests: what the simulated machine's memory
//! shows, and what it must never show.

use simulated::kick;
use simulated::simulation::{Exhausted, Failure, Place, Settings, exhaust, run};
use simulated::sync::{AtomicU64, Ordering, compiler_fence, fence};
use std::cell::Cell;
use std::collections::BTreeSet;

/// A machine on which only the schedule makes a difference.
fn settings() -> Settings {
    Settings { store_buffer: 4, ..Settings::default() }
}

/// Runs two threads, each on a CPU of its own.
fn two(left: impl Fn(), right: impl Fn()) {
    run(vec![(Box::new(left), Place::On(0)), (Box::new(right), Place::On(1))], None);
}

type Words = [AtomicU64; 2];

/// All outcomes of two sides that share two words.
fn outcomes(
    bound: usize, left: impl Fn(&Words) -> u64, right: impl Fn(&Words) -> u64,
) -> (BTreeSet<(u64, u64)>, Exhausted) {
    let mut seen = BTreeSet::new();
    let main = || {
        let words = [AtomicU64::new(0), AtomicU64::new(0)];
        let (first, second) = (Cell::new(0), Cell::new(0));
        two(|| first.set(left(&words)), || second.set(right(&words)));
        (first.get(), second.get())
    };
    let exhausted = exhaust(&settings(), bound, 100_000, main, |report| {
        seen.insert(report.outcome.expect("nothing fails"));
        true
    });
    assert!(exhausted.is_complete, "{exhausted:?}");
    (seen, exhausted)
}

/// Each side writes its word and reads the other's.
fn store_buffering(bound: usize, left: impl Fn(), right: impl Fn()) -> (BTreeSet<(u64, u64)>, Exhausted) {
    let side = |[own, other]: [&AtomicU64; 2], between: &dyn Fn()| {
        own.store(1, Ordering::Release);
        between();
        other.load(Ordering::Acquire)
    };
    outcomes(bound, |[x, y]| side([x, y], &left), |[x, y]| side([y, x], &right))
}

#[test]
fn store_buffering_has_four_outcomes_and_three_with_fences() {
    let full = || fence(Ordering::SeqCst);
    let for_all = || kick::fence_all().expect("membarrier is there");
    let compiler = || compiler_fence(Ordering::SeqCst);
    let (with_fences, all) = ([(0, 1), (1, 0), (1, 1)], [(0, 0), (0, 1), (1, 0), (1, 1)]);
    assert_eq!(store_buffering(3, || {}, || {}).0, BTreeSet::from(all));
    assert_eq!(store_buffering(3, full, compiler).0, BTreeSet::from(all));
    assert_eq!(store_buffering(3, for_all, compiler).0, BTreeSet::from(with_fences));
    let (seen, exhausted) = store_buffering(4, full, full);
    assert_eq!(seen, BTreeSet::from(with_fences));
    assert!(exhausted.runs > 100, "{exhausted:?}");
}

#[test]
fn messages_pass() {
    let send = |[data, flag]: &Words| {
        data.store(42, Ordering::Relaxed);
        flag.store(1, Ordering::Release);
        0
    };
    let receive = |[data, flag]: &Words| flag.load(Ordering::Acquire) * 100 + data.load(Ordering::Relaxed);
    assert_eq!(outcomes(4, send, receive).0, BTreeSet::from([(0, 0), (0, 42), (0, 142)]));
}

#[test]
fn without_disturbances_only_the_order_of_threads_is_free() {
    assert_eq!(store_buffering(0, || {}, || {}).0, BTreeSet::from([(0, 1), (1, 0)]));
}

#[test]
fn threads_on_one_cpu_take_it_from_each_other() {
    let sums = |bound| {
        let mut seen = BTreeSet::new();
        let main = || {
            let sum = AtomicU64::new(0);
            let add = || sum.store(sum.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            run(vec![(Box::new(add), Place::Anywhere), (Box::new(add), Place::Anywhere)], None);
            sum.load(Ordering::Relaxed)
        };
        let exhausted = exhaust(&Settings { cpus: 1, ..settings() }, bound, 1000, main, |report| {
            seen.insert(report.outcome.expect("nothing fails"));
            true
        });
        assert!(exhausted.is_complete, "{exhausted:?}");
        seen
    };
    assert_eq!([sums(0), sums(1)], [BTreeSet::from([2]), BTreeSet::from([1, 2])]);
}

#[test]
fn plain_write_under_a_waiting_store_is_found() {
    let main = || {
        let word = AtomicU64::new(0);
        word.store(1, Ordering::Relaxed);
        // SAFETY: nobody else has it. That the store waits is what this is about.
        unsafe { word.as_ptr().write_volatile(2) };
        fence(Ordering::SeqCst);
    };
    let mut found = false;
    exhaust(&settings(), 0, 1, main, |report| {
        found = matches!(report.outcome, Err(Failure::Contract(_)));
        true
    });
    assert!(found);
}
