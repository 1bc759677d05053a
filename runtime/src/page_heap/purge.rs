//! Giving dirty pages of free runs back to the kernel: bounded calls, the longest runs first, each as a whole as it
//! lies there, since free neighbours are joined. When, and how many, whoever calls decides; see `upkeep`.
//!
//! A run that is being given back belongs to nobody: it is in no bin, and counts as in use. So the kernel is called
//! without the lock.
//!
//! **Huge pages.** Where the kernel may have made some, giving a part of one back breaks it up, and memory that the
//! rest of it needs is slower from then on, for nothing, as the kernel keeps all of it for a while. There only whole
//! ones go, unless memory is short.
//!
//! Runs at the same time: any number of threads.

use super::PAGE;
use super::free_runs::FreeRuns;
use super::runs::PageHeap;
use super::segment::Kind;
use crate::settings::Key;
use machine::sync::{Ordering, compiler_fence};
use machine::{here, thread, vm};

/// MiB of dirty pages that free runs may keep in any case.
const KEEP: Key = Key::of("keep");
const UPKEEP: Key = Key::of("upkeep");
/// Dirty pages that free runs may keep without anybody in the background, as much as cached objects may keep in spans;
/// and how many are left then.
const MOST_ALONE: u64 = (24 << 20) / PAGE as u64;
const KEPT_ALONE: u64 = (16 << 20) / PAGE as u64;
/// Dirty pages that go back in one call at most: 4 MiB, which bounds the time under the lock as well as that in the
/// kernel.
pub const MOST_PURGED_AT_ONCE: u64 = 1024;

impl PageHeap {
    /// Says whether somebody gives idle pages back in the background, of this process.
    pub fn set_background(&self, is_there: bool) {
        // Relaxed: who sees the old word gives pages back once more, or once less.
        self.background.store(if is_there { thread::generation() } else { 0 }, Ordering::Relaxed);
    }

    /// Whether nobody does, and somebody should: a process that frees much and then sleeps would keep it.
    pub fn is_alone(&self) -> bool {
        self.background.load(Ordering::Relaxed) != thread::generation() && UPKEEP.is_on()
    }

    /// After a run was freed. Where nobody comes along later, what is too much goes back at once: by parts of many
    /// pages, so that a page that is freed costs little.
    pub(super) fn give_excess_back(&self) {
        if self.counts.free_dirty.get() > MOST_ALONE && self.is_alone() {
            self.purge(KEPT_ALONE.max(self.kept_dirty()));
        }
    }

    /// The fewest dirty pages that free runs had since this was asked the last time: nobody needed so many.
    pub fn take_least_dirty(&self) -> u64 {
        // Relaxed: a number of its own. Of pages that are taken at the same time, some count for the next time only.
        self.least_dirty.swap(self.counts.free_dirty.get(), Ordering::Relaxed)
    }

    /// So many dirty pages came that count as if they had been there all the time, since [`Self::take_least_dirty`].
    pub fn raise_least_dirty(&self, came: u64) {
        self.least_dirty.fetch_add(came, Ordering::Relaxed);
    }

    /// Gives dirty pages of free runs back to the kernel until `keep` of them are left, all that can be; returns the
    /// number of pages given.
    pub fn purge(&self, keep: u64) -> u64 {
        let mut given = 0;
        while let excess = self.counts.free_dirty.get().saturating_sub(keep)
            && excess > 0
        {
            match self.purge_some(excess, false) {
                0 => break,
                pages => given += pages,
            }
        }
        given
    }

    /// Gives some dirty pages of one free run back to the kernel, up to `most` and [`MOST_PURGED_AT_ONCE`], without
    /// breaking huge pages up if these are to stay whole. Returns how many; 0: there were none, or the kernel refused.
    pub fn purge_some(&self, most: u64, keeps_huge_whole: bool) -> u64 {
        let most = most.min(MOST_PURGED_AT_ONCE);
        let taken = self.locked(here!(), |state| self.take_dirty_run(state, most, keeps_huge_whole));
        let Some(Some((start, pages, dirty))) = taken else { return 0 };
        self.counts.purged.add(dirty);
        // SAFETY: the run is in no bin and in nobody's hands.
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
        if done && put.is_some() { dirty } else { 0 }
    }

    /// How many dirty pages free runs may keep, whatever is in use.
    pub fn kept_dirty(&self) -> u64 {
        KEEP.get() * ((1 << 20) / PAGE as u64)
    }

    /// Takes a part of a free run that has up to `most` dirty pages out of its bin, of the longest first; it counts as
    /// in use until it is put back. Its first byte, its pages, and how many of these are dirty.
    fn take_dirty_run(&self, state: &mut FreeRuns, most: u64, keeps_huge_whole: bool) -> Option<(*mut u8, u32, u64)> {
        let (pointer, run) = state.unlink_longest_dirty(keeps_huge_whole)?;
        // SAFETY: the segment exists.
        let segment = unsafe { &*pointer };
        let unit = if keeps_huge_whole { segment.unit_of_contents() } else { 1 };
        let whole = run.start.next_multiple_of(unit)..run.end / unit * unit;
        // From the end, where fresh runs are cut last: words of 64 pages as long as all of their dirty pages may go,
        // and then single ones.
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
        state.link_if_any(pointer, run.start, first - run.start);
        state.link_if_any(pointer, whole.end, run.end - whole.end);
        let pages = whole.end - first;
        let description = segment.page(first);
        description.pages = pages;
        compiler_fence(Ordering::Release);
        description.kind = Kind::Large;
        self.fewer_dirty(dirty);
        self.counts.in_use.add(pages as u64);
        Some((segment.address(first), pages, dirty))
    }
}
