//! Fewer objects at hand while a process with one thread shrinks: it may sleep then, and each object that lies in an array or in the depot keeps a
//! span from going back.
//!
//! As long as less and less is held, and spans hold much more than that, caches count as cold, and once in a while all that the slot has at hand goes
//! back to the spans. That costs what flushing costs anyway, as most of what such a process frees goes on to the spans. It is over soon after the
//! process has ceased to shrink. Where there is a thread in the background, upkeep does all this in time.
//!
//! Runs at the same time: any threads, though processes with several have somebody in the background, but for a moment.

use super::General;
use super::panel::Handle;
use crate::page::PAGE;
use machine::sync::{AtomicU32, AtomicU64, Ordering};

/// Spans may hold so many bytes more than the program in any case, and one part in so many of what it holds.
const PINNED: u64 = 24 << 20;
const SHARE: u64 = 32;
/// Bytes that make a new lowest, and how far what is held rises above that before falls count anew.
const STEP: u64 = 64 << 10;
const SWING: u64 = 32 << 20;
/// Visits for which a process counts as shrinking after a new lowest: an array of any cold cache fits that step as often. And those between two flushes.
const VISITS: u32 = 2048;
const FLUSH_EVERY: u32 = 16;

/// How a process shrinks. Relaxed throughout: hints.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Reclaim {
    lowest: AtomicU64,
    /// Visits that are left.
    left: AtomicU32,
}

impl Reclaim {
    pub const fn new() -> Self {
        Reclaim { lowest: AtomicU64::new(0), left: AtomicU32::new(0) }
    }

    /// Whether it shrinks, and nothing should lie at hand.
    pub fn is_on(&self) -> bool {
        self.left.load(Ordering::Relaxed) > 0
    }

    /// Counts a visit where so much is held, and spans hold so much more. True: what is at hand should go back.
    fn count(&self, held: u64, pinned: u64) -> bool {
        let lowest = self.lowest.load(Ordering::Relaxed);
        let mut left = self.left.load(Ordering::Relaxed);
        if held + STEP <= lowest {
            self.lowest.store(held, Ordering::Relaxed);
            left = VISITS;
        } else if held > lowest + SWING {
            self.lowest.store(held - SWING, Ordering::Relaxed);
        }
        left = if pinned > PINNED + held / SHARE { left.saturating_sub(1) } else { 0 };
        self.left.store(left, Ordering::Relaxed);
        left % FLUSH_EVERY == 1
    }
}

impl Handle<'_> {
    /// After a visit to a slow path of free.
    #[inline]
    pub(super) fn reclaim(self) {
        let in_use = self.slab().zone.counts.in_use.get() * PAGE as u64;
        if in_use > PINNED && self.slab().zone.is_alone() {
            self.general().reclaim(in_use);
        }
    }
}

impl General<'_> {
    #[cold]
    fn reclaim(self, in_use: u64) {
        let registry = self.slab.registry();
        let held = registry.tally.bytes();
        if registry.rare.0.reclaim.count(held, in_use.saturating_sub(held)) {
            self.try_as_only_drainer(Self::drain_at_hand);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process that shrinks has nothing at hand, until soon after it has ceased to; one that swings, or packs what it holds, goes on as ever.
    ///
    /// Planted bugs that were seen here: a lowest that does not rise again; visits that are counted where little is pinned.
    #[test]
    fn who_shrinks_has_little_at_hand() {
        const MIB: u64 = 1 << 20;
        let reclaim = Reclaim::new();
        let flushes =
            |held: u64, spans: u64, visits: u32| (0..visits).filter(|_| reclaim.count(held, spans - held)).count();
        assert_eq!(flushes(400 * MIB, 410 * MIB, 100), 0, "it has only grown");
        for held in (100..400).rev() {
            let usual = if held < 368 { 100 / FLUSH_EVERY } else { 0 };
            let some = flushes(held * MIB, 410 * MIB, 100) as u32;
            assert!(some.abs_diff(usual) <= 1 && reclaim.is_on() == (held < 368), "{some} flushes at {held} MiB");
        }
        assert_eq!(flushes(100 * MIB, 410 * MIB, VISITS) as u32, (VISITS - 100).div_ceil(FLUSH_EVERY));
        assert!(!reclaim.is_on(), "it has ceased to shrink");
        for held in [130, 101, 131, 100] {
            assert_eq!(flushes(held * MIB, 410 * MIB, 100), 0, "it swings");
        }
        assert!(flushes(99 * MIB, 410 * MIB, 100) > 0 && reclaim.is_on());
        flushes(300 * MIB, 410 * MIB, VISITS);
        assert!(!reclaim.is_on(), "it grows");
        assert!(flushes(260 * MIB, 410 * MIB, 100) > 0, "it shrinks again");
        assert_eq!(flushes(98 * MIB, 98 * MIB + PINNED, 100), 0, "spans are full");
        assert!(!reclaim.is_on());
    }
}
