//! Counters and gauges of more threads than CPUs, and in a fork child.
//!
//! Planted, each found here: an increment by a load and a store; `absolute` by an addition, or to less than there is; a
//! `set` that sums the steps once; a reading that does not look at the base again; fractions that are cut off.

use commensal_metrics::{Counter, Gauge};
use metrics::CounterFn;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

const THREADS: u64 = 8;
/// So long that the scheduler mixes the threads, whatever else the machine does.
const TIME: Duration = Duration::from_millis(400);

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
    let (counter, gauge) = (Counter::default(), Gauge::default());
    let facade = (metrics::Counter::from(counter.clone()), metrics::Gauge::from_arc(Arc::new(gauge.clone())));
    in_threads(|number| {
        for at in 0..EACH {
            match (at + number) % 8 {
                0 => counter.inc(),
                1 => counter.inc_by(5_000_000_000),
                2 => counter.inc_by(u64::MAX),
                3 => facade.0.increment(3),
                4 => gauge.inc_by(f64::from(1 << 30)),
                5 => gauge.dec(),
                // Halves and quarters have no rounding.
                6 => facade.1.increment(3.75),
                _ => facade.1.decrement(0.5),
            }
        }
    });
    let each = THREADS * EACH / 8;
    assert_eq!(counter.get(), each * (1 + 5_000_000_000 - 1 + 3));
    assert_eq!(gauge.get(), each as f64 * (f64::from(1 << 30) - 1.0 + 3.75 - 0.5));
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
fn gauge_that_is_set_is_read_to_the_bit() {
    const END_OF_ONES: f64 = 9_007_199_254_740_992.0; // An `f64` loses ones from here on.
    let gauge = Gauge::default();
    for value in [0.1, 1e300, f64::MIN_POSITIVE, f64::INFINITY, -7.0, f64::NAN, END_OF_ONES] {
        gauge.inc_by(123_456_789.0);
        gauge.inc_by(0.3);
        gauge.set(value);
        assert_eq!(gauge.get().to_bits(), value.to_bits(), "{value}");
    }
    (0..10).for_each(|_| gauge.inc());
    assert_eq!(gauge.get(), END_OF_ONES + 10.0);
    gauge.set(0.0);
    (0..2).for_each(|_| gauge.inc_by(2f64.powi(63)));
    assert_eq!(gauge.get(), 2f64.powi(64));
}

/// The values that are set are so far apart that a reading tells whose it is.
#[test]
fn step_that_is_complete_before_a_set_is_gone() {
    const FAR: f64 = 1e9;
    let (gauge, end) = (Gauge::default(), Instant::now() + TIME);
    let [begun, complete, gone] = [const { AtomicU64::new(0) }; 3];
    in_threads(|number| {
        while Instant::now() < end {
            begun.fetch_add(1, Ordering::SeqCst);
            gauge.inc();
            let before = complete.fetch_add(1, Ordering::SeqCst) + 1;
            gauge.set((number + 1) as f64 * FAR);
            gone.fetch_max(before, Ordering::SeqCst);
            let gone = gone.load(Ordering::SeqCst);
            let read = gauge.get();
            let (steps, most) = (read - (read / FAR).round() * FAR, begun.load(Ordering::SeqCst) - gone);
            assert!((0.0..=most as f64).contains(&steps), "{read} has more than {most} steps");
        }
    });
}

/// One thread sets thousands that rise, and goes up by three after each.
#[test]
fn reading_of_a_gauge_belongs_to_one_set() {
    let gauge = Gauge::default();
    in_threads(|_| (0..2000).for_each(|_| gauge.inc())); // Upgraded, where a sum takes longest.
    gauge.set(0.0);
    let (end, done) = (Instant::now() + TIME, AtomicBool::new(false));
    in_threads(|number| {
        if number == 0 {
            for thousand in (1..).take_while(|at| at % 1000 != 0 || Instant::now() < end) {
                gauge.set(f64::from(thousand) * 1000.0);
                (0..3).for_each(|_| gauge.inc());
                assert_eq!(gauge.get(), f64::from(thousand) * 1000.0 + 3.0);
            }
            done.store(true, Ordering::Relaxed);
        }
        let mut last = 0.0;
        while !done.load(Ordering::Relaxed) {
            let value = gauge.get();
            assert!(value >= last && value % 1000.0 <= 3.0, "{value} after {last}");
            last = value;
        }
    });
}

#[test]
fn fork_child_counts_on() {
    let (requests, guests) = (Counter::default(), Gauge::default());
    in_threads(|_| (0..2000).for_each(|_| requests.inc()));
    guests.set(2.5);
    // SAFETY: the child allocates nothing, takes no lock and ends at once.
    let child = unsafe { libc::fork() };
    if child == 0 {
        (0..500).for_each(|_| requests.inc_by(3));
        guests.inc();
        let is_right = requests.get() == 2000 * THREADS + 1500 && guests.get() == 3.5;
        // SAFETY: ends the process.
        unsafe { libc::_exit(i32::from(!is_right)) };
    }
    let mut status = 0;
    // SAFETY: the child is ours, the status has a place.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "256 if the child counted wrongly, else a signal");
    assert_eq!((requests.get(), guests.get()), (2000 * THREADS, 2.5));
}
