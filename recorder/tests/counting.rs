//! Counters: more threads than CPUs, by handles and by macros, lose nothing; and readings never fall.
//!
//! Planted, each found here: an increment by a load and a store; `raise` by an addition instead of an exchange; `raise` to a value that is
//! lower than what there is; a table of handles that takes one key for another.

use commensal_metrics::{Builder, Recorder};
use metrics::{Key, counter, with_local_recorder};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const THREADS: u64 = 8;
const TIME: Duration = Duration::from_millis(400);

fn recorder() -> Recorder {
    Builder::new().build().expect("the usual settings are good")
}

/// Runs `work` in each of the threads, at the same time, under the recorder.
fn in_threads(recorder: &Recorder, work: impl Fn(u64) + Sync) {
    let barrier = Barrier::new(THREADS as usize);
    thread::scope(|scope| {
        for number in 0..THREADS {
            let (work, barrier) = (&work, &barrier);
            scope.spawn(move || {
                barrier.wait();
                with_local_recorder(recorder, || work(number));
            });
        }
    });
}

#[test]
fn sums_are_exact_by_handle_macro_and_direct() {
    const EACH: u64 = 200_000;
    let recorder = recorder();
    let shared = with_local_recorder(&recorder, || counter!("requests"));
    let direct = recorder.direct_counter("requests");
    in_threads(&recorder, |number| {
        for at in 0..EACH {
            match (at + number) % 4 {
                0 => shared.increment(1),
                1 => counter!("requests").increment(2),
                2 => direct.increment(3),
                _ => counter!("other", "thread" => (number % 2).to_string()).increment(5_000_000_000),
            }
        }
    });
    let snapshot = recorder.snapshot();
    assert_eq!(snapshot.counter(&Key::from_name("requests")), Some(THREADS * EACH / 4 * (1 + 2 + 3)));
    for thread in ["0", "1"] {
        let key = Key::from_parts("other", vec![metrics::Label::new("thread", thread)]);
        assert_eq!(snapshot.counter(&key), Some(THREADS / 2 * EACH / 4 * 5_000_000_000));
    }
    assert_eq!(snapshot.counters.len(), 3);
}

#[test]
fn keys_that_come_up_at_the_same_time_are_one_counter_each() {
    const KEYS: u64 = 700;
    let recorder = recorder();
    in_threads(&recorder, |_| {
        for round in 0..2 {
            (0..KEYS).for_each(|key| counter!(format!("key{key}")).increment(1 + round));
        }
    });
    let snapshot = recorder.snapshot();
    assert_eq!(snapshot.counters.len(), KEYS as usize);
    snapshot.counters.iter().for_each(|(key, count)| assert_eq!(*count, 3 * THREADS, "{key}"));
}

#[test]
fn raising_at_the_same_time_is_not_adding() {
    const RAISES: u64 = 100_000;
    let recorder = recorder();
    let counter = recorder.direct_counter("raised");
    in_threads(&recorder, |_| (1..=RAISES).for_each(|at| counter.absolute(100 * at)));
    assert_eq!(counter.value(), 100 * RAISES);
    // Increments come on top, or in between: then the raise is by so much less.
    in_threads(&recorder, |number| match number {
        0 => (0..50).for_each(|_| counter.increment(1)),
        _ => (1..=RAISES).for_each(|at| counter.absolute(100 * (RAISES + at))),
    });
    let value = counter.value();
    assert!((200 * RAISES..=200 * RAISES + 50).contains(&value), "{value}");
}

#[test]
fn readings_never_fall() {
    let (recorder, stop) = (recorder(), AtomicBool::new(false));
    let counter = recorder.direct_counter("requests");
    thread::scope(|scope| {
        for number in 0..3 {
            let (counter, stop) = (&counter, &stop);
            scope.spawn(move || {
                for at in 0.. {
                    counter.increment(1 + number);
                    if number == 2 {
                        // To more than there is, and to less.
                        counter.absolute(at * [12, 1][at as usize % 2]);
                    }
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
        }
        let (end, mut last) = (Instant::now() + TIME, 0);
        let mut is_well = true;
        while is_well && Instant::now() < end {
            let value = counter.value();
            is_well = value >= last;
            last = value;
        }
        stop.store(true, Ordering::Relaxed);
        assert!(is_well, "a reading fell to {last}");
    });
}
