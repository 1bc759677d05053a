//! Gauges: steps and fractions of many threads are exact, and a `set` among them has increments before it or after it.
//!
//! Planted, each found here: a `set` that stores what it made of an older base; a reading that does not look at the base again; fractions
//! that are cut off to whole steps.

use commensal_metrics::{Builder, DirectGauge};
use metrics::{gauge, with_local_recorder};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const THREADS: usize = 6;
/// So long that the scheduler mixes the threads, whatever else the machine does.
const TIME: Duration = Duration::from_millis(400);

#[test]
fn steps_and_fractions_of_many_threads_are_exact() {
    const EACH: u32 = 200_000;
    let recorder = Builder::new().build().expect("the usual settings are good");
    let by_handle = with_local_recorder(&recorder, || gauge!("guests"));
    let barrier = Barrier::new(THREADS);
    thread::scope(|scope| {
        for number in 0..THREADS {
            let (recorder, by_handle, barrier) = (&recorder, &by_handle, &barrier);
            scope.spawn(move || {
                barrier.wait();
                with_local_recorder(recorder, || {
                    for at in 0..EACH as usize {
                        match (at + number) % 4 {
                            0 => by_handle.increment(3),
                            1 => gauge!("guests").decrement(1),
                            // Halves and quarters have no rounding.
                            2 => gauge!("guests").increment(0.25),
                            _ => by_handle.decrement(0.5),
                        }
                    }
                });
            });
        }
    });
    let quarters = f64::from(EACH / 4) * THREADS as f64;
    assert_eq!(recorder.direct_gauge("guests").value(), quarters * (3.0 - 1.0 + 0.25 - 0.5));
}

/// What all threads of a test did so far, by steps of one.
#[derive(Default)]
struct Account {
    begun: AtomicU64,
    complete: AtomicU64,
    /// How many were complete before a set that is complete, too.
    gone: AtomicU64,
}

impl Account {
    fn step(&self, gauge: &DirectGauge) {
        self.begun.fetch_add(1, Ordering::SeqCst);
        gauge.increment(1.0);
        self.complete.fetch_add(1, Ordering::SeqCst);
    }
}

/// Each setter goes up by one, sets its own value, and reads. Whoever set last: steps that were complete before a set that is complete are in no
/// reading after it. And where there is a single setter, all steps are that began after it.
fn set_and_read(gauge: &DirectGauge, account: &Account, value: f64, is_alone: bool) {
    let count = |number: &AtomicU64| number.load(Ordering::SeqCst) as f64;
    account.step(gauge);
    let before = account.complete.load(Ordering::SeqCst);
    gauge.set(value);
    account.gone.fetch_max(before, Ordering::SeqCst);
    let (set_by, gone) = (count(&account.begun), count(&account.gone));
    (0..if is_alone { 20 } else { 0 }).for_each(|_| account.step(gauge));
    let complete = count(&account.complete);
    let read = gauge.value();
    let (least, most) = (if is_alone { complete - set_by } else { 0.0 }, count(&account.begun) - gone);
    // Values are so far apart that a reading tells whose it is.
    let steps = read - (read / FAR).round() * FAR;
    assert!((least..=most).contains(&steps), "{read} with {least} to {most} steps after {value} was set");
}

const FAR: f64 = 1e9;

fn increments_are_before_a_set_or_after_it(setters: u32, others: u32) {
    let recorder = Builder::new().build().expect("the usual settings are good");
    let (gauge, account, end) = (recorder.direct_gauge("gauge"), Account::default(), Instant::now() + TIME);
    thread::scope(|scope| {
        for number in 1..=setters {
            let (gauge, account) = (&gauge, &account);
            scope.spawn(move || {
                while Instant::now() < end {
                    (0..50).for_each(|_| set_and_read(gauge, account, f64::from(number) * FAR, setters == 1));
                }
            });
        }
        for _ in 0..others {
            scope.spawn(|| {
                while Instant::now() < end {
                    (0..50).for_each(|_| account.step(&gauge));
                }
            });
        }
    });
}

#[test]
fn increments_are_before_the_set_of_one_thread_or_after_it() {
    increments_are_before_a_set_or_after_it(1, 3);
}

#[test]
fn increments_are_before_the_sets_of_several_threads_or_after_them() {
    increments_are_before_a_set_or_after_it(8, 0);
}

/// One thread sets thousands that rise, and goes up by three after each.
#[test]
fn readings_are_of_one_base() {
    let recorder = Builder::new().build().expect("the usual settings are good");
    let gauge = recorder.direct_gauge("thousands");
    // Upgraded, where a sum takes longest.
    thread::scope(|scope| {
        (0..4).for_each(|_| drop(scope.spawn(|| (0..2000).for_each(|_| gauge.increment(1.0)))));
    });
    gauge.set(0.0);
    let end = Instant::now() + TIME;
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for thousand in (1..).take_while(|at| at % 1000 != 0 || Instant::now() < end) {
                gauge.set(f64::from(thousand) * 1000.0);
                (0..3).for_each(|_| gauge.increment(1.0));
            }
        });
        let mut last = 0.0;
        while !writer.is_finished() {
            let value = gauge.value();
            assert!(value >= last && value % 1000.0 <= 3.0, "{value} after {last}");
            last = value;
        }
    });
}
