//! The state of upkeep: one value for the process, made at its first use, so that short-lived processes have none.
//!
//! Runs at the same time: any threads. A lock without waiters protects the inside; others try again soon.

use super::decay::Decay;
use super::shepherd::Shepherd;
use super::timetable::Timetable;
use crate::caches::heap;
use crate::layout::{HeaderWord, header};
use crate::observe::Events;
use crate::settings::Key;
use core::cell::UnsafeCell;
use machine::sync::{AtomicPtr, AtomicU32, AtomicU64, Lock, Ordering, spin_loop};
use machine::{clock, slot};

/// Above all others, as nothing is taken while it is held.
const UPKEEP_RANK: u8 = 7;
const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MILLISECOND;
/// Pages of a MiB.
const MIB_PAGES: u64 = (1 << 20) / crate::page_heap::PAGE as u64;

pub(super) const UPKEEP: Key = Key::of("upkeep");
const INTERVAL: Key = Key::of("upkeep.interval_ms");
const BUDGET: Key = Key::of("upkeep.budget_mib");

/// Everything. All-zero memory is how it begins.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct State {
    pub(super) shepherd: Shepherd,
    pub(super) counts: Counts,
    /// How far a thread that returns pages of free objects has come over the heap, plus one; 0: there is nothing to do.
    pub(super) subreleased: AtomicU64,
    /// When to begin that again, because there were objects of recently used caches; 0: there were none.
    pub(super) subrelease_again_ns: AtomicU64,
    /// The round in which it was last looked whether memory is short, and whether it was; or that it cannot be told.
    pub(super) looked_in: AtomicU64,
    pub(super) shortage: AtomicU32,
    lock: Lock<UPKEEP_RANK>,
    inside: UnsafeCell<Inside>,
    /// By slot.
    pub(super) turns: [OwnTurn; slot::MAX],
}

/// A turn that somebody may be in the middle of.
#[derive(Debug)]
#[repr(C)]
pub(super) struct OwnTurn {
    /// When it ends, in nanoseconds; 0: nobody is.
    pub(super) until_ns: AtomicU64,
    /// How many caches were looked over in it.
    pub(super) place: AtomicU32,
}

// SAFETY: what is inside is used under the lock; the rest is atomic, or constant.
unsafe impl Sync for State {}

/// What the lock protects.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Inside {
    pub(super) decay: Decay,
    pub(super) allowance: Allowance,
    pub(super) table: Timetable,
}

/// What upkeep did.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Counts {
    /// Turns that threads took in their own slots, and that were taken for slots where nobody came along.
    pub(super) own: Events,
    pub(super) deserted: Events,
    /// Arrays that were emptied, and spans that went to the page heap.
    pub(super) arrays: Events,
    pub(super) spans: Events,
    /// Calls that gave pages back, those pages, and calls that the kernel refused.
    pub(super) calls: Events,
    pub(super) pages: Events,
    pub(super) refused: Events,
    /// The longest that anything took at a stretch.
    pub(super) longest_ns: Events,
}

/// How many pages may go back now, of so many in a second.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Allowance {
    since_ns: u64,
    pages: u64,
}

impl Allowance {
    /// What may go back now: for the time since the last look, at most a quarter of a second: no storm after a rest.
    pub(super) fn refill(&mut self, now_ns: u64, pages_per_second: u64) -> u64 {
        let passed = now_ns.saturating_sub(self.since_ns).min(SECOND / 4);
        let more = passed * pages_per_second / SECOND;
        if more > 0 || now_ns < self.since_ns {
            self.since_ns = now_ns;
            self.pages = (self.pages + more).min(pages_per_second.div_ceil(4));
        }
        self.pages
    }

    pub(super) fn take(&mut self, pages: u64) {
        self.pages = self.pages.saturating_sub(pages);
    }
}

/// Where it is known.
// SAFETY: zeroes are null, and nobody else has these bytes.
const PLACE: HeaderWord<AtomicPtr<State>> = unsafe { HeaderWord::at(header::UPKEEP) };

impl State {
    /// What there is; none: nobody needed it yet.
    pub(super) fn known() -> Option<&'static State> {
        // Acquire pairs with the release in `make`: whoever finds it finds it as it was made.
        // SAFETY: null, or stored there, and never unmapped.
        unsafe { PLACE.get()?.load(Ordering::Acquire).as_ref() }
    }

    /// The same; none: there is no memory for it.
    #[cold]
    pub(super) fn make() -> Option<&'static State> {
        Self::known().or_else(|| {
            // Zero, which is valid.
            let made = heap().page_heap().metadata.cut(size_of::<State>(), align_of::<State>())?;
            // Whoever is second has cut some address space in vain.
            let null = core::ptr::null_mut();
            let _ = PLACE.get()?.compare_exchange(null, made.cast(), Ordering::AcqRel, Ordering::Relaxed);
            Self::known()
        })
    }

    /// The same, after an event that must be noted: tries for some microseconds. If that fails, as in a signal handler
    /// above the lock's holder, pages go back earlier or later.
    pub(super) fn note(&self, now_ns: u64, work: impl Fn(&mut Inside)) {
        const TRIES: u32 = 1000;
        (0..TRIES).any(|_| {
            let is_done = self.with(now_ns, &work).is_some();
            if !is_done {
                spin_loop();
            }
            is_done
        });
    }

    pub(super) fn pages_per_second(&self) -> u64 {
        BUDGET.get() * MIB_PAGES
    }

    /// Intervals that pages have to be idle for; 0: somebody else is at it.
    pub(super) fn patience(&self) -> u32 {
        self.with(clock::now_ns(), |inside| inside.decay.patience()).unwrap_or(0)
    }

    /// Works with what is inside, at a time; none: somebody else does.
    pub(super) fn with<R>(&self, now_ns: u64, work: impl FnOnce(&mut Inside) -> R) -> Option<R> {
        let is_ours = self.lock.try_acquire();
        let is_inherited = !is_ours && self.lock.try_inherit();
        if !is_ours && !is_inherited {
            return None;
        }
        // SAFETY: we hold the lock.
        let inside = unsafe { &mut *self.inside.get() };
        if is_inherited {
            // Its holder vanished in a fork, in the middle of something: slots join anew.
            inside.table = Timetable::new();
            inside.decay = Decay::new();
        }
        inside.table.advance(now_ns, interval_ns());
        let result = work(inside);
        // SAFETY: acquired above.
        unsafe { self.lock.release() };
        Some(result)
    }
}

/// What an interval is.
pub(crate) fn interval_ns() -> u64 {
    INTERVAL.get() * MILLISECOND
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allowance_is_of_the_time_that_passed_and_bounded() {
        let mut allowance = Allowance { since_ns: 0, pages: 0 };
        assert_eq!(allowance.refill(100 * SECOND, 1000), 250, "a rest of a hundred seconds");
        allowance.take(200);
        assert_eq!(allowance.refill(100 * SECOND + SECOND / 10, 1000), 150);
        allowance.take(1000);
        assert_eq!(allowance.refill(100 * SECOND + SECOND / 10 + 10, 1000), 0);
        // Short times are not lost.
        let pages = (1..=1000).map(|step| allowance.refill(100 * SECOND + SECOND / 10 + step * MILLISECOND / 10, 1000));
        assert_eq!(pages.last(), Some(100));
    }
}
