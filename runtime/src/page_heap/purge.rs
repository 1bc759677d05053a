//! Returns dirty pages of free runs to the kernel, in bounded calls, the longest runs first; see `upkeep`. A run that
//! is being returned is in no bin and counts as in use, so the system call needs no lock.
//!
//! **Huge pages.** Returning a part of a huge page breaks it up. The rest is slower from then on, for no gain, because
//! the kernel keeps all of it for a while. So only whole huge pages go back, unless memory is short.
//!
//! Runs at the same time: any number of threads.

use super::PAGE;
use super::free_runs::FreeRuns;
use super::runs::PageHeap;
use super::segment::{Huge, Kind};
use crate::settings::Key;
use machine::sync::{Ordering, compiler_fence};
use machine::{here, thread, vm};

/// MiB of dirty pages that free runs may always keep.
const KEEP: Key = Key::of("keep");
const UPKEEP: Key = Key::of("upkeep");
/// Without background work: most dirty pages of free runs, the same as of cached objects, and how many a purge leaves.
const MOST_ALONE: u64 = (24 << 20) / PAGE as u64;
const KEPT_ALONE: u64 = (16 << 20) / PAGE as u64;
/// Most dirty pages beyond these that a process which swings keeps, as a multiple of those in use.
const TIMES_IN_USE: u64 = 4;
/// Most dirty pages in one call: 4 MiB, which bounds the time under the lock and in the kernel.
pub const MOST_PURGED_AT_ONCE: u64 = 1024;

impl PageHeap {
    /// From now on this process returns idle pages in the background.
    pub fn begin_background_work(&self) {
        // Relaxed: a thread that sees the old word purges once more, or once less.
        self.background.store(thread::generation(), Ordering::Relaxed);
    }

    pub fn end_background_work(&self) {
        // Relaxed: as above.
        self.background.store(0, Ordering::Relaxed);
    }

    /// Whether background work is enabled but absent: a process that frees much and then sleeps would keep its memory.
    pub fn is_alone(&self) -> bool {
        self.background.load(Ordering::Relaxed) != thread::generation() && UPKEEP.is_on()
    }

    /// Runs after a free. Without background work it returns the excess, many pages at a time to save calls.
    pub(super) fn give_excess_back(&self) {
        let dirty = self.counts.free_dirty.get();
        if dirty > MOST_ALONE && self.is_alone() {
            let needed = self.needed_again();
            if dirty > MOST_ALONE + needed {
                self.purge((KEPT_ALONE + needed).max(self.kept_dirty()));
            }
        }
    }

    /// Dirty pages that a process which swings will soon need again. It is such a process if more than a quarter of the
    /// pages given back had to come back. They are some, not all: a process that frees all of its memory keeps little.
    fn needed_again(&self) -> u64 {
        let swings = (4 * self.counts.refilled.get()).saturating_sub(self.counts.purged.get());
        swings.min(TIMES_IN_USE * self.counts.in_use.get())
    }

    /// The fewest dirty pages in free runs since the last call: so many were not needed.
    pub fn take_least_dirty(&self) -> u64 {
        // Relaxed: an independent number. Pages taken at the same time may count for the next call.
        self.least_dirty.swap(self.counts.free_dirty.get(), Ordering::Relaxed)
    }

    /// Counts `came` new dirty pages as if they had been there since [`Self::take_least_dirty`].
    pub fn raise_least_dirty(&self, came: u64) {
        self.least_dirty.fetch_add(came, Ordering::Relaxed);
    }

    /// Returns dirty pages of free runs to the kernel until `keep` are left or no more can go. Returns their number.
    pub fn purge(&self, keep: u64) -> u64 {
        let mut given = 0;
        while let excess = self.counts.free_dirty.get().saturating_sub(keep)
            && excess > 0
        {
            match self.purge_some(excess, Huge::BreakUp) {
                0 => break,
                pages => given += pages,
            }
        }
        given
    }

    /// Returns some dirty pages of one free run to the kernel, up to `most` and [`MOST_PURGED_AT_ONCE`]. Returns their
    /// number; 0: there were none, or the kernel refused.
    pub fn purge_some(&self, most: u64, huge: Huge) -> u64 {
        let most = most.min(MOST_PURGED_AT_ONCE);
        let taken = self.locked(here!(), |state| self.take_dirty_run(state, most, huge));
        let Some(Some((start, pages, dirty))) = taken else { return 0 };
        self.limits.begin_return();
        self.counts.purged.add(dirty);
        // SAFETY: the run is in no bin, so no other thread has it.
        let done = unsafe { vm::decommit(start, pages as usize * PAGE) };
        let put = self.locked(here!(), |state| {
            if done {
                self.segment(start).mark_clean(self.segment(start).page_of(start), pages);
            }
            self.put_run(state, start);
        });
        if put.is_none() {
            self.defer(start);
        }
        if !done {
            self.counts.purged.subtract(dirty);
        }
        let given = if done && put.is_some() { dirty } else { 0 };
        self.limits.release(given);
        self.limits.end_return();
        given
    }

    /// Dirty pages that free runs may always keep.
    pub fn kept_dirty(&self) -> u64 {
        KEEP.get() * ((1 << 20) / PAGE as u64)
    }

    /// Takes a part with up to `most` dirty pages of a longest free run out of its bin; it counts as in use until it is
    /// put back. Returns its first byte, its pages, and the number of dirty ones.
    fn take_dirty_run(&self, state: &mut FreeRuns, most: u64, huge: Huge) -> Option<(*mut u8, u32, u64)> {
        let (segment, run) = state.unlink_longest_dirty(huge)?;
        let (whole, unit) = segment.purgeable(&run, huge);
        // From the end, where fresh runs are cut last: by 64 pages while all dirty ones may go, then singly.
        let (mut first, mut dirty) = (whole.end, 0);
        let mut step = unit.max(64);
        while first > whole.start && dirty < most {
            let pages = step.min(first - whole.start);
            let more = u64::from(segment.count_dirty(first - pages, pages));
            if more > most - dirty && step > unit {
                step = unit;
                continue;
            }
            (first, dirty) = (first - pages, dirty + more);
        }
        state.link(segment, run.start, first - run.start);
        state.link(segment, whole.end, run.end - whole.end);
        let pages = whole.end - first;
        let description = segment.page(first);
        description.pages = pages;
        compiler_fence(Ordering::Release);
        description.kind = Kind::Purged;
        self.fewer_dirty(dirty);
        self.counts.in_use.add(pages as u64);
        Some((segment.address(first), pages, dirty))
    }
}
