//! The limit of the process: how many pages the heap may hold, and when a thread has to be told.
//!
//! *Held* are the pages of spans and large blocks in use, the dirty pages of free runs, and pages on their way back to
//! the kernel. A page is held before a thread gets it, and until the kernel has taken it back.
//!
//! ```text
//!   held  ▁▂▃▄▅▆ soft ▆▆▇▇ hard │ refused
//!              ╰ relief: caches are drained, dirty pages go back; again after each step of growth
//! ```
//!
//! **Never over.** A page is held by one compare-and-swap that judges the sum. So of two threads that race for the last
//! page, one gets it, with or without the page heap's lock.
//!
//! **Hysteresis.** A limit is reached again only after the pages in use have fallen below it by a *step*. A large
//! request may be refused far below the hard limit. That reaches the limit again only a step above or below. Two
//! reliefs are a step of growth apart.
//!
//! Runs at the same time: any number of threads, also in signal handlers. Relaxed throughout: each word stands alone.

use super::{GRANULE_PAGES, PAGE};
use crate::observe::Events;
use machine::sync::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// A step is this part of the limit, up to 32 MiB.
const STEP_PART: u64 = 16;
const LONGEST_STEP: u64 = (32 << 20) / PAGE as u64;
/// One of the two limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Limit {
    /// Above it, the library returns memory that is not in use, and the program should free some.
    Soft = 0,
    /// Allocations that would exceed it are refused.
    Hard = 1,
}

/// Bits of what is due: relief, and a call for each limit.
pub(crate) const RELIEF: u32 = 1 << 2;

impl Limit {
    /// The bit of its call.
    pub(crate) fn bit(self) -> u32 {
        1 << self as u32
    }
}

/// One of the limits, in pages; 0: none.
#[derive(Debug)]
#[repr(C)]
struct Threshold {
    pages: AtomicU64,
    /// Pages in use when it was reached; 0: they were a step below it since.
    reached_at: AtomicU64,
    /// Times that it was reached.
    times: Events,
}

impl Threshold {
    fn get(&self) -> Option<u64> {
        Some(self.pages.load(Relaxed)).filter(|&pages| pages > 0)
    }

    fn set(&self, pages: u64) {
        self.pages.store(pages, Relaxed);
        self.reached_at.store(0, Relaxed);
    }

    /// The step of a limit of so many pages.
    fn step(pages: u64) -> u64 {
        (pages / STEP_PART).clamp(1, LONGEST_STEP)
    }

    /// Notes that it was reached with so many pages in use. Returns whether it was not reached before, or at least
    /// `further` below.
    fn reach(&self, in_use: u64, further: u64) -> bool {
        let before = self.reached_at.load(Relaxed);
        let is_new = before == 0 || in_use >= before.saturating_add(further);
        // Of two threads at once, one counts.
        let counts = is_new && self.reached_at.compare_exchange(before, in_use.max(1), Relaxed, Relaxed).is_ok();
        if counts {
            self.times.count();
        }
        counts
    }

    /// Looks whether so many pages in use are a step below it.
    fn look_at(&self, in_use: u64) {
        let (before, Some(pages)) = (self.reached_at.load(Relaxed), self.get()) else { return };
        if before > 0 && in_use + Self::step(pages) <= before.min(pages) {
            self.reached_at.store(0, Relaxed);
        }
    }
}

/// The limits, and how much is held. All-zero memory: nothing is, and there are none.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Limits {
    // Read on slow paths and seldom written: a line of their own.
    hard: Threshold,
    soft: Threshold,
    /// Held pages above which the next relief is due.
    relief_above: AtomicU64,
    /// Tasks for a thread outside of all locks.
    due: AtomicU32,
    /// Threads that are returning pages.
    pub(super) returning: AtomicU32,
    held: AtomicU64,
    /// Allocations that the hard limit refused.
    pub refused: Events,
    /// Reliefs.
    pub reliefs: Events,
}

const _: () = assert!(core::mem::offset_of!(Limits, held) == 64);

impl Limits {
    /// Pages held.
    pub fn held(&self) -> u64 {
        self.held.load(Relaxed)
    }

    /// A limit in pages, if there is one.
    pub fn get(&self, limit: Limit) -> Option<u64> {
        self.threshold(limit).get()
    }

    /// Times that a limit was reached.
    pub fn times(&self, limit: Limit) -> u64 {
        self.threshold(limit).times.get()
    }

    /// Sets a limit. If more is held, allocations that need pages are refused until enough went back, and relief is
    /// due.
    pub fn set(&self, limit: Limit, pages: Option<u64>) {
        let pages = pages.map_or(0, |pages| pages.max(1));
        self.threshold(limit).set(pages);
        if limit == Limit::Soft {
            self.relief_above.store(pages, Relaxed);
            if pages > 0 && self.held() > pages {
                self.due.fetch_or(RELIEF, Relaxed);
            }
        }
    }

    fn threshold(&self, limit: Limit) -> &Threshold {
        match limit {
            Limit::Soft => &self.soft,
            Limit::Hard => &self.hard,
        }
    }

    /// Whether there is a hard limit.
    pub(crate) fn is_hard(&self) -> bool {
        self.hard.get().is_some()
    }

    /// Holds more pages, beside so many in use. False: the hard limit refuses.
    pub(super) fn hold(&self, more: u64, in_use: u64) -> bool {
        let most = self.hard.get().unwrap_or(u64::MAX);
        let within = |held: u64| (more == 0 || held.saturating_add(more) <= most).then_some(held + more);
        let Ok(before) = self.held.fetch_update(Relaxed, Relaxed, within) else { return false };
        self.hard.look_at(in_use);
        self.soft.look_at(in_use);
        self.note(before, before + more);
        true
    }

    /// Pages went back to the kernel, or were not taken after all.
    pub(super) fn release(&self, pages: u64) {
        self.held.fetch_sub(pages, Relaxed);
    }

    /// Notes growth of the held pages.
    fn note(&self, before: u64, after: u64) {
        let Some(soft) = self.soft.get() else { return };
        let step = Threshold::step(soft);
        // Of two threads that come here at once, both may make relief due: it is one bit.
        let known = self.relief_above.load(Relaxed);
        let mut above = known.min(before.saturating_add(step).max(soft));
        if after > above {
            self.due.fetch_or(RELIEF, Relaxed);
            above = after + step;
        }
        if above != known {
            self.relief_above.store(above, Relaxed);
        }
    }

    /// Pages that an allocation of so many lacks within the hard limit.
    pub(crate) fn lacking(&self, pages: u64) -> u64 {
        self.hard.get().map_or(0, |most| self.held().saturating_add(pages).saturating_sub(most))
    }

    /// The hard limit refused an allocation, after all that is not in use went back. So many pages are in use.
    pub(crate) fn refuse(&self, in_use: u64) {
        self.refused.count();
        let step = self.hard.get().map_or(0, Threshold::step);
        if self.hard.reach(in_use, step) {
            self.due.fetch_or(Limit::Hard.bit(), Relaxed);
        }
    }

    // ---- what is due ----

    /// Whether a thread outside of all locks has something to do.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.due.load(Relaxed) != 0
    }

    /// Takes some of the bits that are due.
    pub(crate) fn take_due(&self, bits: u32) -> u32 {
        self.due.fetch_and(!bits, Relaxed) & bits
    }

    /// Pages that relief should leave: a step less than the soft limit, so that not every page needs it again.
    pub(crate) fn after_relief(&self) -> u64 {
        self.soft.get().map_or(u64::MAX, |soft| soft - Threshold::step(soft))
    }

    /// Notes the end of a relief. If more than the soft limit is still held, that limit is reached.
    pub(crate) fn note_relief(&self) {
        self.reliefs.count();
        let (Some(soft), held) = (self.soft.get(), self.held()) else { return };
        self.relief_above.store((held + Threshold::step(soft)).max(soft), Relaxed);
        if held > soft && self.soft.reach(held, u64::MAX) {
            self.due.fetch_or(Limit::Soft.bit(), Relaxed);
        }
    }

    // ---- pages that go back ----

    pub(super) fn begin_return(&self) {
        self.returning.fetch_add(1, Relaxed);
    }

    pub(super) fn end_return(&self) {
        self.returning.fetch_sub(1, Relaxed);
    }
}

/// Pages that an allocation needs from the page heap, at most: a small object may need a span.
pub(crate) fn pages_for(bytes: usize) -> usize {
    bytes.div_ceil(PAGE).max(GRANULE_PAGES as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(hard: Option<u64>, soft: Option<u64>) -> Limits {
        // SAFETY: all-zero memory holds nothing and has no limits.
        let limits: Limits = unsafe { core::mem::zeroed() };
        limits.set(Limit::Hard, hard);
        limits.set(Limit::Soft, soft);
        limits
    }

    /// Planted bugs that were seen here: a comparison with `<` instead of `<=`; pages that count although refused.
    #[test]
    fn hard_limit_gives_its_last_page_and_no_more() {
        let limits = limits(Some(100), None);
        assert!(limits.hold(60, 0) && !limits.hold(41, 60) && limits.hold(40, 60) && !limits.hold(1, 100));
        assert!(limits.hold(0, 100), "dirty pages are held already");
        assert_eq!((limits.held(), limits.lacking(5)), (100, 5));
        limits.release(3);
        assert!(!limits.hold(4, 97) && limits.hold(3, 97));
        limits.set(Limit::Hard, Some(50));
        limits.release(20);
        assert!(!limits.hold(1, 80), "80 are held");
        limits.set(Limit::Hard, None);
        assert!(limits.hold(1000, 80) && limits.lacking(1000) == 0);
    }

    /// Planted bugs that were seen here: relief at each page above the limit; a limit that is never reached again; one
    /// that is reached again without a step below it.
    #[test]
    fn relief_is_due_once_in_a_step_and_a_limit_reached_once_until_a_step_below() {
        const SOFT: u64 = 1600;
        const STEP: u64 = SOFT / STEP_PART;
        let limits = limits(None, Some(SOFT));
        let mut reliefs = 0;
        // Grows by pages, all of them in use.
        let mut grow = |pages: u64| {
            for _ in 0..pages {
                assert!(limits.hold(1, limits.held()));
                if limits.take_due(RELIEF) != 0 {
                    reliefs += 1;
                    limits.note_relief();
                }
            }
            (reliefs, limits.times(Limit::Soft), limits.take_due(Limit::Soft.bit()) != 0)
        };
        assert_eq!(grow(SOFT), (0, 0, false));
        assert_eq!(grow(1), (1, 1, true));
        assert_eq!(grow(STEP), (1, 1, false));
        // Each relief is due at the first page above a step.
        assert_eq!(grow(10 * STEP), (11, 1, false));
        // Not far enough below, and then far enough.
        limits.release(limits.held() - SOFT + STEP - 1);
        assert_eq!(grow(STEP + 1), (12, 1, false));
        limits.release(limits.held() - SOFT + STEP);
        assert_eq!(grow(STEP + 1), (13, 2, true));
    }

    /// Planted bug that was seen here: a soft limit that is looked at only when pages are held.
    #[test]
    fn soft_limit_below_the_held_pages_is_due_at_once() {
        let limits = limits(None, None);
        assert!(limits.hold(1000, 1000));
        limits.set(Limit::Soft, Some(1000));
        assert!(!limits.is_due(), "1000 are not too many");
        limits.set(Limit::Soft, Some(999));
        assert_eq!(limits.take_due(RELIEF), RELIEF);
        limits.set(Limit::Soft, None);
        assert!(!limits.is_due());
    }

    #[test]
    fn relief_that_suffices_does_not_reach_the_soft_limit() {
        let limits = limits(None, Some(1600));
        assert!(limits.hold(1700, 0));
        assert_eq!(limits.take_due(RELIEF), RELIEF);
        limits.release(1700 - limits.after_relief());
        limits.note_relief();
        assert_eq!((limits.times(Limit::Soft), limits.reliefs.get(), limits.is_due()), (0, 1, false));
        assert!(
            limits.hold(100, 1500) && !limits.is_due() && limits.hold(1, 1600) && limits.is_due(),
            "1600 are not too many"
        );
    }

    #[test]
    fn refusals_reach_the_hard_limit_once_until_a_step_below() {
        let limits = limits(Some(160), None);
        assert!(limits.hold(160, 0));
        let refuse = || {
            limits.refuse(limits.held());
            limits.take_due(Limit::Hard.bit()) != 0
        };
        assert_eq!([refuse(), refuse(), refuse()], [true, false, false]);
        limits.release(9);
        assert!(limits.hold(9, 151) && !refuse());
        limits.release(10);
        assert!(limits.hold(10, 150) && refuse());
        assert_eq!((limits.refused.get(), limits.times(Limit::Hard)), (5, 2));
        // Requests that are too large, far below the limit.
        limits.release(100);
        assert!(limits.hold(1, 60) && refuse());
        assert!(limits.hold(1, 61) && !refuse() && limits.hold(8, 62) && !refuse());
        assert!(limits.hold(1, 70) && refuse(), "a step above the refusal before");
    }
}
