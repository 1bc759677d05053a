//! The pace of samples: a bound of the time that they take.
//!
//! A sample takes about a microsecond. A program that allocates hundreds of GB a second, which it hardly touches,
//! would spend its time on samples. So if 64 samples come faster than at [`PER_SECOND`], the mean gap grows by a power
//! of two. When they come much more slowly again, it shrinks, down to the mean that was asked for. Magazines are
//! drained and gaps are drawn anew at each change. So a sample's probability is that of the mean at its time, and
//! estimates stay unbiased. A mean below [`LEAST`] is kept: a user who asks for it wants the samples.
//!
//! Runs at the same time: any thread. Relaxed: a count that is missed delays a change.

use crate::caches::heap;
use crate::cpu_cache::{Means, means};
use machine::clock;
use machine::sync::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Most samples a second, in the mean.
const PER_SECOND: u64 = 4096;
/// The least mean gap that is changed.
const LEAST: u64 = 128 << 10;
const WINDOW: u32 = 64;
const WINDOW_NS: u64 = WINDOW as u64 * 1_000_000_000 / PER_SECOND;

/// All-zero memory: no sample was taken yet.
#[derive(Debug)]
#[repr(C)]
pub struct Pace {
    /// Samples in the window.
    count: AtomicU32,
    since_ns: AtomicU64,
    /// The mean gap that was asked for; 0: that of the first window.
    asked: AtomicU64,
}

impl Pace {
    /// Notes that a mean gap is asked for.
    pub fn begin(&self, mean: u64) {
        self.asked.store(mean, Relaxed);
    }

    /// The mean gap that was asked for.
    pub fn asked(&self) -> u64 {
        match self.asked.load(Relaxed) {
            0 => means().profile,
            asked => asked,
        }
    }

    /// Counts a sample. The caller holds no lock.
    #[inline]
    pub fn count(&self) {
        if self.count.fetch_add(1, Relaxed) + 1 >= WINDOW {
            self.adapt();
        }
    }

    #[cold]
    #[inline(never)]
    fn adapt(&self) {
        self.count.store(0, Relaxed);
        let (now, current) = (clock::now_ns(), means());
        let took = now.saturating_sub(self.since_ns.swap(now, Relaxed));
        let asked = self.asked();
        self.asked.store(asked, Relaxed);
        let mean = next(current.profile, asked, took);
        if mean != current.profile {
            heap().cpu.try_to_sample(Means { profile: mean, ..current });
        }
    }
}

/// The mean gap after a window that took so long.
fn next(mean: u64, asked: u64, took_ns: u64) -> u64 {
    const MOST: u64 = 1 << 40;
    match WINDOW_NS / took_ns.max(1) {
        _ if mean == 0 || asked < LEAST => mean,
        2.. => mean.saturating_mul((WINDOW_NS / took_ns.max(1)).next_power_of_two()).min(MOST),
        0 if took_ns > 4 * WINDOW_NS => (mean / 2).max(asked),
        _ => mean,
    }
}

#[cfg(test)]
mod tests {
    use super::{LEAST, WINDOW_NS, next};

    #[test]
    fn mean_grows_with_the_rate_and_shrinks_to_the_one_that_was_asked_for() {
        let asked = 512 << 10;
        for (mean, took_ns, expected) in [
            (asked, WINDOW_NS, asked),
            (asked, WINDOW_NS / 2, 2 * asked),
            (asked, WINDOW_NS / 100, 128 * asked),
            (asked, 0, 1 << 40),
            (128 * asked, WINDOW_NS, 128 * asked),
            (128 * asked, 5 * WINDOW_NS, 64 * asked),
            (asked, 5 * WINDOW_NS, asked),
            (0, 0, 0),
        ] {
            assert_eq!(next(mean, asked, took_ns), expected, "{mean} after {took_ns} ns");
        }
        assert_eq!(next(LEAST - 1, LEAST - 1, 1), LEAST - 1);
    }
}
