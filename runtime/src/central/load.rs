//! The miss rate of a cache in a slot, as a logarithm. It sets the capacity of the slot's magazines.
//!
//! Runs at the same time: any thread, without a lock. Relaxed: of two misses at once, one may go uncounted.

use machine::clock::{self, COARSE_NS};
use machine::sync::{AtomicU32, Ordering::Relaxed};

pub const HIGHEST_RATE: u32 = 7;
/// Close misses that make a step of the rate. A burst of a few blocks has fewer; a busy program has hundreds in a row.
const PARTS: u32 = 4;
/// The low bits of the rate word: the rate, in parts of a step. The bits above hold the time, in units of 12 µs.
const RATE_BITS: u32 = (HIGHEST_RATE + 1) * PARTS - 1;
const UNIT: u32 = RATE_BITS + 1;
const _: () = assert!(UNIT as u64 * COARSE_NS == 12_288);
const _: () = assert!(UNIT.is_power_of_two() && HIGHEST_RATE * PARTS <= RATE_BITS, "rate and time share a word");
/// The longest delay before another look, in units of coarse time: some minutes.
pub const FURTHEST: u32 = 1 << 30;
/// A miss at most this long after the last one adds a part: 12 µs.
const CLOSE: u32 = coarse_of(12_288);
/// A longer interval than this takes a part away, as with bursts some 50 µs apart.
const APART: u32 = coarse_of(49_152);
/// A longer interval than this, some 200 µs, takes a whole step away.
const FAR: u32 = coarse_of(196_608);

/// At the highest rate, the slot reads the clock at one refill in this many, because the clock costs as much as the
/// rest of a miss. It then sees the time of that many misses. A slot that only frees has no refills; it reads the clock
/// at one miss in [`PARTS`], and counts in the parts beyond the highest rate.
const GLANCE_AT_CLOCK: u32 = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// An allocation found the allocation magazine empty.
    Refill,
    /// A free found the free magazine full.
    Overflow,
}

/// The time, in units of [`COARSE_NS`]. It wraps within half an hour.
#[inline]
pub fn coarse_time() -> u32 {
    clock::coarse() as u32
}

/// Units from `time` to `now`. Zero if `now` was read up to some 25 ms before `time`.
pub fn units_since(time: u32, now: u32) -> u32 {
    const MOMENT: u32 = 1 << 16;
    let units = now.wrapping_sub(time);
    if units > u32::MAX - MOMENT { 0 } else { units }
}

/// Nanoseconds as units of coarse time: at least one, at most [`FURTHEST`].
pub const fn coarse_of(ns: u64) -> u32 {
    match ns / COARSE_NS {
        0 => 1,
        units if units > FURTHEST as u64 => FURTHEST,
        units => units as u32,
    }
}

/// A cache's load in a slot. All-zero memory: no miss yet.
#[derive(Debug)]
#[repr(C)]
pub struct Load {
    /// Times that the allocation magazine ran out and was not just exchanged with the free magazine.
    refills: AtomicU32,
    /// Time of the last miss, and the rate; see [`Self::count_miss`].
    rate: AtomicU32,
}

impl Load {
    /// Counts a miss; returns the rate, up to [`HIGHEST_RATE`], and tells `visit` the [`coarse_time`] if it was read.
    /// The compiler makes a copy for each case. The rate is the logarithm of how many times a few objects the slot
    /// should keep, so that misses are at least some 12 µs apart.
    #[inline(always)]
    pub fn count_miss(&self, path: Path, visit: impl Fn(Option<u32>)) -> u32 {
        let is_refill = path == Path::Refill;
        let refills = self.refills.load(Relaxed).wrapping_add(is_refill as u32);
        self.refills.store(refills, Relaxed);
        let word = self.rate.load(Relaxed);
        let (last, parts) = (word & !RATE_BITS, word & RATE_BITS);
        if parts / PARTS == HIGHEST_RATE {
            if is_refill && !refills.is_multiple_of(GLANCE_AT_CLOCK) {
                visit(None);
                return HIGHEST_RATE;
            }
            if !is_refill && parts < RATE_BITS {
                self.rate.store(last | (parts + 1), Relaxed);
                visit(None);
                return HIGHEST_RATE;
            }
        }
        let time = coarse_time();
        let now = time & !RATE_BITS;
        let parts = after_miss(parts.min(HIGHEST_RATE * PARTS), now.wrapping_sub(last));
        self.rate.store(now | parts, Relaxed);
        visit(Some(time));
        parts / PARTS
    }

    /// Counts a refill without a look at the clock, but for one in so many: then false, and nothing is counted.
    #[inline]
    pub fn counts_without_clock(&self, one_in: u32) -> bool {
        let refills = self.refills.load(Relaxed).wrapping_add(1);
        let is_counted = !refills.is_multiple_of(one_in);
        if is_counted {
            self.refills.store(refills, Relaxed);
        }
        is_counted
    }

    /// Whether the miss just counted, at the highest rate, is one in so many on its path. Overflows have no count, as a
    /// slot that only frees is rare: the clock, when one in [`PARTS`] reads it, says which ones, on average.
    #[inline]
    pub fn is_one_in(&self, times: u32, path: Path) -> bool {
        match (path, self.rate.load(Relaxed)) {
            (Path::Refill, _) => self.refills().is_multiple_of(times),
            (Path::Overflow, word) => {
                word & RATE_BITS == HIGHEST_RATE * PARTS && (word / UNIT).is_multiple_of(times / PARTS)
            }
        }
    }

    /// For tests: the highest rate, as after many misses.
    pub fn raise(&self) {
        self.rate.store(coarse_time() & !RATE_BITS | (HIGHEST_RATE * PARTS), Relaxed);
    }

    #[inline]
    pub fn rate(&self) -> u32 {
        (self.rate.load(Relaxed) & RATE_BITS) / PARTS
    }

    /// Units of [`coarse_time`] since a miss that read the clock. A cache that is used without misses looks unused.
    pub fn since_last_miss(&self, now: u32) -> u32 {
        units_since(self.rate.load(Relaxed) & !RATE_BITS, now)
    }

    /// Whether the last miss seen is more than `units` before `now`.
    pub fn is_idle(&self, now: u32, units: u32) -> bool {
        self.since_last_miss(now) > units
    }

    /// Times that the allocation magazine ran out.
    #[inline]
    pub fn refills(&self) -> u32 {
        self.refills.load(Relaxed)
    }

    /// Forgets all, as the cache is at its end.
    pub fn forget(&self) {
        self.refills.store(0, Relaxed);
        self.rate.store(0, Relaxed);
    }
}

/// The rate, in parts of a step, after a miss `interval` after the last one seen.
fn after_miss(parts: u32, interval: u32) -> u32 {
    match interval {
        0..=CLOSE => (parts + 1).min(HIGHEST_RATE * PARTS),
        interval if interval > FAR => parts.saturating_sub(PARTS),
        interval if interval > APART && parts / PARTS < HIGHEST_RATE => parts.saturating_sub(1),
        _ => parts,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rate after 1000 bursts of `misses` each, with `pause` units between bursts.
    fn after_bursts(misses: u32, pause: u32) -> u32 {
        let burst = |parts, _| (1..misses).fold(after_miss(parts, pause * UNIT), |parts, _| after_miss(parts, 0));
        (0..1000).fold(0, burst) / PARTS
    }

    #[test]
    fn rate_without_pauses_rises_to_the_highest() {
        assert_eq!(after_bursts(2, 1), HIGHEST_RATE);
        assert_eq!(after_bursts(100, 20), HIGHEST_RATE);
    }

    #[test]
    fn rate_of_small_bursts_stays_low() {
        assert_eq!(after_bursts(2, 5), 0);
        assert_eq!(after_bursts(3, 20), 0);
    }

    #[test]
    fn highest_rate_after_pauses_falls() {
        let after_pauses = |pauses| (0..pauses).fold(HIGHEST_RATE * PARTS, |parts, _| after_miss(parts, FAR + UNIT));
        assert_eq!((after_pauses(1) / PARTS, after_pauses(HIGHEST_RATE)), (HIGHEST_RATE - 1, 0));
    }

    #[test]
    fn busy_cache_that_only_takes_back_is_not_idle() {
        let long_ago = coarse_time().wrapping_sub(1 << 20) & !RATE_BITS;
        // One refill: the next one does not read the clock.
        let load = Load { rate: AtomicU32::new(long_ago | (HIGHEST_RATE * PARTS)), refills: AtomicU32::new(1) };
        for miss in 1..=PARTS {
            assert!(load.since_last_miss(coarse_time()) >= 1 << 20, "before miss {miss}");
            load.count_miss(Path::Overflow, |_| ());
        }
        assert!(load.since_last_miss(coarse_time()) < 1 << 20);
    }

    #[test]
    fn miss_after_the_look_at_the_clock_is_recent() {
        for now in [0, UNIT, 1 << 20, u32::MAX - 1] {
            for (later, since) in [(UNIT, 0), (20 * UNIT, 0), (0_u32.wrapping_sub(1 << 20), 1 << 20)] {
                let rate = (now.wrapping_add(later) & !RATE_BITS) | (HIGHEST_RATE * PARTS);
                let load = Load { rate: AtomicU32::new(rate), refills: AtomicU32::new(0) };
                let found = load.since_last_miss(now);
                assert!((since..=since + UNIT).contains(&found), "{found} at {now}, missed {later} later");
            }
        }
    }
}
