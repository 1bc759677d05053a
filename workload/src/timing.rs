//! How long something takes when nothing disturbs it.
//!
//! The least of several rounds is what the work costs; whatever else a machine does only adds to it. A round is so long
//! that the clock's own time is nothing against it, and there are as many as fit into a budget: so a process that
//! measures takes a known time, whether a task takes nanoseconds or a hundred microseconds.

use crate::Threads;
use crate::threads::Meeting;
use machine::clock::{IS_STEADY, now_ns};
use machine::sync::{AtomicBool, AtomicU64, Ordering};

/// The clock takes some 25 ns, and this is a thousand times that.
const ROUND_NS: u64 = 30_000;
const BUDGET_NS: u64 = long_or_short(2_500_000, 200_000);
/// A round of several threads at once.
const TOGETHER_NS: u64 = if IS_STEADY { 5_000 } else { long_or_short(1_000_000, 50_000) };
const ROUNDS_TOGETHER: usize = long_or_short(8, 2) as usize;
/// However long they take.
const LEAST_ROUNDS: u32 = 3;

/// How long it takes to be sure: shorter in tests, and where the same work always takes as long.
pub(crate) const fn long_or_short(long: u64, short: u64) -> u64 {
    if cfg!(test) || IS_STEADY { short } else { long }
}

/// Runs its body sixteen times in a row, `$at` being 0 to 15: every arm of a comparison is unrolled alike, whatever the
/// optimizer thinks of its body.
macro_rules! sixteen_times {
    (|$at:ident| $body:expr) => {
        $crate::timing::sixteen_times!(@ $at $body; 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)
    };
    (@ $at:ident $body:expr; $($number:literal)*) => {
        {
            $({
                #[allow(unused_variables, reason = "a body may do the same each time")]
                let $at: usize = $number;
                $body;
            })*
        }
    };
}

pub(crate) use sixteen_times;

/// The same, eight times.
macro_rules! eight_times {
    (|$at:ident| $body:expr) => {
        $crate::timing::sixteen_times!(@ $at $body; 0 1 2 3 4 5 6 7)
    };
}

pub(crate) use eight_times;

/// Nanoseconds of one task, in the best round. `work` does so many of them; none if it cannot. What it does first is
/// not timed.
pub fn floor_ns(mut work: impl FnMut(u32) -> Option<()>) -> Option<f64> {
    let mut time = |tasks: u32| {
        let start = now_ns();
        work(tasks)?;
        Some(now_ns() - start)
    };
    let mut tasks = 1;
    while time(tasks)? < ROUND_NS && tasks < 1 << 30 {
        tasks *= 2;
    }
    let (start, mut rounds, mut best) = (now_ns(), 0, u64::MAX);
    while rounds < LEAST_ROUNDS || now_ns() - start < BUDGET_NS {
        best = best.min(time(tasks)?);
        rounds += 1;
    }
    Some(best as f64 / f64::from(tasks))
}

/// The same of a task that cannot fail.
pub fn task_floor_ns(mut task: impl FnMut()) -> f64 {
    let floor = floor_ns(|tasks| {
        (0..tasks).for_each(|_| task());
        Some(())
    });
    floor.expect("it cannot fail")
}

/// Nanoseconds of one of the tasks that `batch` does some of and says how many, by each of so many threads at once; and
/// how many were done altogether. The clock is looked at after so many batches, and when the time of one thread is
/// over, a round is over for all: where some get more of what they fight for than others, those that are done would
/// leave it to the rest. The best of some rounds, each the mean over all tasks. None: a batch could not be done.
pub(crate) fn together_ns(
    (count, threads): (u32, &dyn Threads), batches: u32, batch: impl Fn() -> Option<u64> + Sync,
) -> Option<(f64, u64)> {
    let start = Meeting::of(count);
    let [times, done] = [const { [const { AtomicU64::new(0) }; ROUNDS_TOGETHER] }; 2];
    let (are_over, has_failed) = ([const { AtomicBool::new(false) }; ROUNDS_TOGETHER], AtomicBool::new(false));
    let batch = || {
        batch().unwrap_or_else(|| {
            has_failed.store(true, Ordering::Relaxed);
            0
        })
    };
    let before = AtomicU64::new(0);
    threads.run(count, &|_| {
        // What is done once is done before.
        before.fetch_add((0..batches.div_ceil(4)).map(|_| batch()).sum::<u64>(), Ordering::Relaxed);
        for ((time, done), is_over) in times.iter().zip(&done).zip(&are_over) {
            start.wait();
            let (begin, mut tasks) = (now_ns(), 0);
            let mut more = || {
                tasks += batch();
                !is_over.load(Ordering::Relaxed)
            };
            while (0..batches).all(|_| more()) {
                if now_ns() - begin >= TOGETHER_NS {
                    is_over.store(true, Ordering::Relaxed);
                }
            }
            time.fetch_add(now_ns() - begin, Ordering::Relaxed);
            done.fetch_add(tasks, Ordering::Relaxed);
        }
    });
    let of_round = |(time, done): (&AtomicU64, &AtomicU64)| {
        time.load(Ordering::Relaxed) as f64 / done.load(Ordering::Relaxed).max(1) as f64
    };
    let best = times.iter().zip(&done).map(of_round).reduce(f64::min)?;
    let done = before.into_inner() + done.iter().map(|done| done.load(Ordering::Relaxed)).sum::<u64>();
    (!has_failed.into_inner()).then_some((best, done))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread::sleep;
    use std::time::Duration;

    #[test]
    fn floor_is_the_best_round() {
        let mut calls = 0;
        let floor = floor_ns(|tasks| {
            calls += 1;
            // So far apart that no machine is so busy that a short sleep takes as long as a long one.
            sleep(Duration::from_millis(if calls % 2 == 0 { 50 } else { 1 }) * tasks);
            Some(())
        });
        let floor = floor.unwrap();
        assert!((1e6..5e7).contains(&floor), "{floor}");
        assert!(calls > LEAST_ROUNDS);
        assert_eq!(floor_ns(|_| None), None);
    }
}
