//! A counter of more threads than CPUs, and in a fork child.
//!
//! Planted, each found here: an increment by a load and a store; `absolute` by an addition, or to less than there is.

use commensal_metrics::Counter;
use metrics::CounterFn;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

const THREADS: u64 = 8;

/// Runs `work` in each of the threads, at the same time.
fn in_threads(work: impl Fn(u64) + Sync) {
    let barrier = Barrier::new(THREADS as usize);
    thread::scope(|scope| {
        for number in 0..THREADS {
            let (work, barrier) = (&work, &barrier);
            scope.spawn(move || {
                barrier.wait();
                work(number);
            });
        }
    });
}

#[test]
fn sums_of_many_threads_are_exact() {
    const EACH: u64 = 400_000;
    let counter = Counter::default();
    let facade = metrics::Counter::from(counter.clone());
    in_threads(|number| {
        for at in 0..EACH {
            match (at + number) % 4 {
                0 => counter.inc(),
                1 => counter.inc_by(5_000_000_000),
                2 => counter.inc_by(u64::MAX),
                _ => facade.increment(3),
            }
        }
    });
    assert_eq!(counter.get(), THREADS * EACH / 4 * (1 + 5_000_000_000 - 1 + 3));
}

#[test]
fn counter_that_many_threads_raise_never_falls_and_is_raised_once() {
    let (counter, tickets) = (Counter::default(), AtomicU64::new(0));
    // Two threads that come one after the other find the same new level.
    let level = |ticket: u64| ticket / 100 * 1000;
    in_threads(|number| {
        let mut last = 0;
        for at in 0..100_000 {
            if number == 0 && at < 50 {
                counter.inc();
            }
            let least = level(tickets.fetch_add(1, Ordering::SeqCst)).max(last);
            counter.absolute(least);
            counter.absolute(least / 2);
            last = counter.get();
            // Increments come on top, or in between: then a raise is by so much less.
            let most = level(tickets.load(Ordering::SeqCst)) + 50;
            assert!((least..=most).contains(&last), "{last} is not from {least} to {most}");
        }
    });
}

#[test]
fn fork_child_counts_on() {
    let requests = Counter::default();
    in_threads(|_| (0..2000).for_each(|_| requests.inc()));
    // SAFETY: the child allocates nothing, takes no lock and ends at once.
    let child = unsafe { libc::fork() };
    if child == 0 {
        (0..500).for_each(|_| requests.inc_by(3));
        let is_right = requests.get() == 2000 * THREADS + 1500;
        // SAFETY: ends the process.
        unsafe { libc::_exit(i32::from(!is_right)) };
    }
    let mut status = 0;
    // SAFETY: the child is ours, the status has a place.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "256 if the child counted wrongly, else a signal");
    assert_eq!(requests.get(), 2000 * THREADS);
}
