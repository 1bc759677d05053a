//! Keeps fewer objects in magazines and the depot while a process with one thread shrinks. Such a process may sleep
//! next, and each of these objects keeps a span from the page heap.
//!
//! While the held bytes fall and spans hold much more than that, all caches count as cold. At intervals, the slot
//! flushes all its objects to the spans. This adds little cost, because most freed objects go on to the spans anyway.
//! The state ends soon after the process stops shrinking. With a background thread, upkeep does this instead.
//!
//! Runs at the same time: any thread, though a process with several soon has a background thread.

use machine::sync::{AtomicU32, AtomicU64, Ordering};

/// Slack that spans may always have: `PINNED` bytes, plus one part in `SHARE` of what the program holds.
pub const PINNED: u64 = 24 << 20;
const SHARE: u64 = 32;
/// Bytes below the lowest that make a new lowest, and bytes above it after which falls count anew.
const STEP: u64 = 64 << 10;
const SWING: u64 = 32 << 20;
/// Misses that count as shrinking after a new lowest (as many magazines as fit `STEP`), and those between two flushes.
const MISSES: u32 = 2048;
const FLUSH_EVERY: u32 = 16;

/// Whether the process shrinks. Relaxed throughout: these are hints.
#[derive(Debug)]
#[repr(C)]
pub struct Shrinking {
    lowest: AtomicU64,
    /// Remaining misses for which the process counts as shrinking.
    left: AtomicU32,
}

impl Shrinking {
    /// Whether the process shrinks, so that magazines and the depot should be empty.
    pub fn is_on(&self) -> bool {
        self.left.load(Ordering::Relaxed) > 0
    }

    /// Counts a miss at which the program holds `held` bytes, and spans hold `pinned` more. True: flush the slot now.
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

    /// Planted bugs that were seen here: a lowest that does not rise again; misses that count where little is pinned.
    #[test]
    fn shrinking_process_keeps_little_at_hand() {
        const MIB: u64 = 1 << 20;
        let shrinking = Shrinking { lowest: AtomicU64::new(0), left: AtomicU32::new(0) };
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
