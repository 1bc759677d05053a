//! The hook of slow paths: is upkeep due in the slot, is the statistics page due, may the operator ask for something?
//!
//! Runs at the same time: any thread. Relaxed throughout: words stand alone, and an early or late look does no harm.

use crate::central::{FURTHEST, coarse_time, units_since};
use machine::sync::{AtomicBool, AtomicU32, Ordering::Relaxed};

/// The hook's words. All-zero memory: only upkeep is due.
#[derive(Debug)]
#[repr(C)]
pub struct Hook {
    /// When the statistics page is due.
    pub statistics_at: At,
    /// Whether slow paths poll for an operator's requests.
    pub(super) is_polled: AtomicBool,
}

/// A due time in coarse time. Zero: never.
#[derive(Debug)]
#[repr(transparent)]
pub struct At(AtomicU32);

impl At {
    /// Due in so many units.
    pub fn in_units(&self, units: u32) {
        self.0.store(coarse_time().wrapping_add(units).max(1), Relaxed);
    }

    /// Never due.
    pub fn never(&self) {
        self.0.store(0, Relaxed);
    }

    /// Whether it will ever be due.
    pub(super) fn is_asked_for(&self) -> bool {
        self.0.load(Relaxed) != 0
    }

    /// Whether it is due.
    #[inline]
    pub fn is_due(&self, time: u32) -> bool {
        match self.0.load(Relaxed) {
            0 => false,
            at => !is_ahead(at, time),
        }
    }
}

/// A slot's upkeep times. All-zero memory: no thread has looked yet.
#[derive(Debug)]
#[repr(C)]
pub struct Watch {
    /// The coarse time of the next look; 0: now.
    look_at: AtomicU32,
    /// The coarse time of the last slow path in the slot.
    pub(super) visited: AtomicU32,
}

impl Watch {
    /// Schedules the next look at a coarse time.
    pub fn look_at(&self, time: u32) {
        debug_assert!(time.wrapping_sub(coarse_time()) as i32 <= FURTHEST as i32, "nobody looks that far ahead");
        self.look_at.store(time.max(1), Relaxed);
    }

    /// Makes the next slow path look.
    pub fn look_now(&self) {
        self.look_at.store(0, Relaxed);
    }

    /// Whether no thread has looked yet, or one should look at once.
    pub fn is_fresh(&self) -> bool {
        self.look_at.load(Relaxed) == 0
    }

    /// Units by which a look is late.
    pub fn lateness(&self, time: u32) -> u32 {
        match self.look_at.load(Relaxed) {
            0 => 0,
            at if is_ahead(at, time) => 0,
            at => time.wrapping_sub(at),
        }
    }

    /// Units since the last slow path in the slot.
    pub fn since_last_visit(&self, time: u32) -> u32 {
        units_since(self.visited.load(Relaxed), time)
    }

    #[inline]
    pub(super) fn is_due(&self, time: u32) -> bool {
        let at = self.look_at.load(Relaxed);
        at == 0 || !is_ahead(at, time)
    }
}

/// Whether a due time lies ahead. Beyond [`FURTHEST`] it has passed, as coarse time wraps.
fn is_ahead(at: u32, time: u32) -> bool {
    (1..=FURTHEST).contains(&at.wrapping_sub(time))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn due_slot_stays_due_until_a_thread_has_looked() {
        const AT: u32 = u32::MAX - 1000;
        let watch = Watch { look_at: AtomicU32::new(AT), visited: AtomicU32::new(0) };
        let due = |after: u32| (watch.is_due(AT.wrapping_add(after)), watch.lateness(AT.wrapping_add(after)));
        assert_eq!([due(0), due(5000), due(1 << 31), due((3 << 30) - 1)].map(|(is_due, _)| is_due), [true; 4]);
        assert_eq!([due(0), due(5000)].map(|(_, late)| late), [0, 5000]);
        // Before it, even if just scheduled: not late.
        for before in [1, 5000, FURTHEST] {
            assert_eq!(due(before.wrapping_neg()), (false, 0), "{before} before");
        }
        watch.look_now();
        assert_eq!(due(7), (true, 0));
    }
}
