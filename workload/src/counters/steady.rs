//! A counter to which many threads have added for long, and go on: the cost of an addition, and the error of a reading.

use crate::Threads;
use crate::threads::Meeting;
use crate::timing::{long_or_short, sixteen_times};
use commensal_runtime::counter::{DEFAULT_RANGE, LazyCounter};
use core::hint::black_box;
use machine::clock::now_ns;
use machine::sync::{AtomicU64, Ordering};

/// Additions of before: 256 threads that add all the time make them in a fifth of a second.
const BEFORE: i64 = 1 << 34;
/// Each thread's last ones of before, in large steps: then its cell is as wide as it becomes.
const STEPS: u32 = 16;
const STEP: i64 = 1 << 20;
const BETWEEN_NS: u64 = 100_000;
/// Times sixteen additions of each thread, which use up each cell more than once where there are 256.
const CHUNKS: u64 = long_or_short(1 << 18, 1 << 14);

/// Nanoseconds of an addition, and the error of a reading over the largest that it may have: half a range for each
/// thread, or 0.1 % of the value. None: no memory, or the sum was wrong.
pub fn steady((count, threads): (u32, &dyn Threads)) -> Option<[f64; 2]> {
    let (counter, meeting, time_ns) = (LazyCounter::new(), Meeting::of(count), AtomicU64::new(0));
    counter.share().ok()?;
    counter.add(BEFORE);
    threads.run(count, &|_| {
        for _ in 0..STEPS {
            counter.add(STEP);
            threads.busy(BETWEEN_NS);
        }
        meeting.wait();
        let start = now_ns();
        for _ in 0..CHUNKS {
            sixteen_times!(|at| black_box(&counter).add(1));
        }
        time_ns.fetch_add(now_ns() - start, Ordering::Relaxed);
    });
    let added = u64::from(count) * 16 * CHUNKS;
    let expected = BEFORE + i64::from(count * STEPS) * STEP + added as i64;
    let (reading, sum) = (counter.read(), counter.sum());
    let most = (f64::from(count) * f64::from(DEFAULT_RANGE) / 2.0).max(sum as f64 / 1000.0);
    let is_right = sum == expected && reading.value.abs_diff(sum) <= reading.error;
    is_right.then(|| [time_ns.into_inner() as f64 / added as f64, reading.error as f64 / most])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::threads::OfStd;

    #[test]
    fn steady_counter_is_read_within_its_error() {
        let [ns, error] = steady((2, &OfStd)).expect("the sum is right");
        assert!(ns > 0.0 && error <= 1.0, "{ns} ns, {error}");
    }
}
