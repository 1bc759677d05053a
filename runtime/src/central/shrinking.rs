//! Fewer objects at hand while a process with one thread shrinks: it may sleep then, and each object that lies in a
//! magazine or in the depot keeps a span from going back.
//!
//! As long as less and less is held, and spans hold much more than that, caches count as cold, and once in a while all
//! that the slot has at hand goes back to the spans. That costs what flushing costs anyway, as most of what such a
//! process frees goes on to the spans. It is over soon after the process has ceased to shrink. Where there is a thread
//! in the background, upkeep does all this in time.
//!
//! Runs at the same time: any threads, though processes with several have somebody in the background, but for a moment.

use machine::sync::{AtomicU32, AtomicU64, Ordering};

/// Spans may hold so many bytes more than the program in any case, and one part in so many of what it holds.
pub const PINNED: u64 = 24 << 20;
const SHARE: u64 = 32;
/// Bytes that make a new lowest, and how far what is held rises above that before falls count anew.
const STEP: u64 = 64 << 10;
const SWING: u64 = 32 << 20;
/// Misses for which a process counts as shrinking after a new lowest: a magazine of any cold cache fits that step as
/// often. And those between two flushes.
const MISSES: u32 = 2048;
const FLUSH_EVERY: u32 = 16;

/// How a process shrinks. Relaxed throughout: hints.
#[derive(Debug)]
#[repr(C)]
pub struct Shrinking {
    lowest: AtomicU64,
    /// Misses that are left.
    left: AtomicU32,
}

impl Shrinking {
    /// It does not, so far.
    pub const fn new() -> Self {
        Shrinking { lowest: AtomicU64::new(0), left: AtomicU32::new(0) }
    }

    /// Whether it shrinks, and nothing should lie at hand.
    pub fn is_on(&self) -> bool {
        self.left.load(Ordering::Relaxed) > 0
    }

    /// Counts a miss where so much is held, and spans hold so much more. True: what is at hand should go back.
    pub fn count(&self, held: u64, pinned: u64) -> bool {
        let lowest = self.lowest.load(Ordering::Relaxed);
        let mut left = self.left.load(Ordering::Relaxed);
        if held + STEP <= lowest {
            self.lowest.store(held, Ordering::Relaxed);
            left = MISSES;
        } else if held > lowest + SWING {
            self.lowest.store(held - SWING, Ordering::Relaxed);
        }
        left = if pinned > PINNED + held / SHARE { left.saturating_sub(1) } else { 0 };
        self.left.store(left, Ordering::Relaxed);
        left % FLUSH_EVERY == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process that shrinks has nothing at hand, until soon after it has ceased to; one that swings, or packs what it
    /// holds, goes on as ever.
    ///
    /// Planted bugs that were seen here: a lowest that does not rise again; misses that are counted where little is
    /// pinned.
    #[test]
    fn shrinking_process_keeps_little_at_hand() {
        const MIB: u64 = 1 << 20;
        let shrinking = Shrinking::new();
        let flushes =
            |held: u64, spans: u64, misses: u32| (0..misses).filter(|_| shrinking.count(held, spans - held)).count();
        assert_eq!(flushes(400 * MIB, 410 * MIB, 100), 0, "it has only grown");
        for held in (100..400).rev() {
            let usual = if held < 368 { 100 / FLUSH_EVERY } else { 0 };
            let some = flushes(held * MIB, 410 * MIB, 100) as u32;
            assert!(some.abs_diff(usual) <= 1 && shrinking.is_on() == (held < 368), "{some} flushes at {held} MiB");
        }
        assert_eq!(flushes(100 * MIB, 410 * MIB, MISSES) as u32, (MISSES - 100).div_ceil(FLUSH_EVERY));
        assert!(!shrinking.is_on(), "it has ceased to shrink");
        for held in [130, 101, 131, 100] {
            assert_eq!(flushes(held * MIB, 410 * MIB, 100), 0, "it swings");
        }
        assert!(flushes(99 * MIB, 410 * MIB, 100) > 0 && shrinking.is_on());
        flushes(300 * MIB, 410 * MIB, MISSES);
        assert!(!shrinking.is_on(), "it grows");
        assert!(flushes(260 * MIB, 410 * MIB, 100) > 0, "it shrinks again");
        assert_eq!(flushes(98 * MIB, 98 * MIB + PINNED, 100), 0, "spans are full");
        assert!(!shrinking.is_on());
    }
}
