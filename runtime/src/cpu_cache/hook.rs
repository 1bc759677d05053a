//! What the hook of the slow paths looks at: when upkeep is due in a slot, when the statistics page is, and whether an
//! operator may ask for something.
//!
//! Runs at the same time: any threads. Relaxed throughout: each word is a number of its own, and a thread that looks
//! too early or too late does no harm.

use crate::central::{FURTHEST, coarse_time, units_since};
use machine::sync::{AtomicBool, AtomicU32, Ordering::Relaxed};

/// What hangs on the slow paths. All-zero memory: nothing does, but slots' turns.
#[derive(Debug)]
#[repr(C)]
pub struct Hook {
    /// When somebody should see to the statistics page.
    pub statistics_at: At,
    /// Whether an operator may ask for something at any time.
    pub(super) is_polled: AtomicBool,
}

/// When a thread should come along, in coarse time. Zero: none has to.
#[derive(Debug)]
#[repr(transparent)]
pub struct At(AtomicU32);

impl At {
    /// Not before so many units from now.
    pub fn in_units(&self, units: u32) {
        self.0.store(coarse_time().wrapping_add(units).max(1), Relaxed);
    }

    /// None has to.
    pub fn never(&self) {
        self.0.store(0, Relaxed);
    }

    /// Whether one ever has to.
    pub(super) fn is_asked_for(&self) -> bool {
        self.0.load(Relaxed) != 0
    }

    /// Whether one has to by now.
    #[inline]
    pub fn is_due(&self, time: u32) -> bool {
        match self.0.load(Relaxed) {
            0 => false,
            at => !is_ahead(at, time),
        }
    }
}

/// What a slot knows of its turns of upkeep. All-zero memory: no thread looked yet.
#[derive(Debug)]
#[repr(C)]
pub struct Watch {
    /// The coarse time from which on a thread should look; 0: now.
    look_at: AtomicU32,
    /// The coarse time at which a thread reached a slow path there.
    pub(super) visited: AtomicU32,
}

impl Watch {
    /// No thread has to look before a coarse time.
    pub fn look_at(&self, time: u32) {
        debug_assert!(time.wrapping_sub(coarse_time()) as i32 <= FURTHEST as i32, "nobody looks that far ahead");
        self.look_at.store(time.max(1), Relaxed);
    }

    /// The next thread that comes along looks.
    pub fn look_now(&self) {
        self.look_at.store(0, Relaxed);
    }

    /// Whether no thread looked yet, or one should at once.
    pub fn is_fresh(&self) -> bool {
        self.look_at.load(Relaxed) == 0
    }

    /// How long ago a thread should have looked.
    pub fn lateness(&self, time: u32) -> u32 {
        match self.look_at.load(Relaxed) {
            0 => 0,
            at if is_ahead(at, time) => 0,
            at => time.wrapping_sub(at),
        }
    }

    /// For how long no thread came along, at a coarse time.
    pub fn since_last_visit(&self, time: u32) -> u32 {
        units_since(self.visited.load(Relaxed), time)
    }

    #[inline]
    pub(super) fn is_due(&self, time: u32) -> bool {
        let at = self.look_at.load(Relaxed);
        at == 0 || !is_ahead(at, time)
    }
}

/// Whether a time to look at is still to come. None is set further ahead than this, so one that seems to be has passed:
/// coarse time goes round.
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
        // Before it, also if somebody else has just said so: nobody is late.
        for before in [1, 5000, FURTHEST] {
            assert_eq!(due(before.wrapping_neg()), (false, 0), "{before} before");
        }
        watch.look_now();
        assert_eq!(due(7), (true, 0));
    }
}
