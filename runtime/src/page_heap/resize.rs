//! Changes the length of a large block in place.
//!
//! Runs at the same time: the block's owner, and any number of threads elsewhere.

use super::free_runs::FreeRuns;
use super::runs::{BLOCK_PAGES, PageHeap};
use super::segment::{Kind, Owner};
use machine::here;

impl PageHeap {
    /// Changes the length of the run at `start` in place. False: it is unchanged.
    ///
    /// # Safety
    /// The caller owns the run, of `old` pages, and gives up the pages that shrinking removes.
    pub unsafe fn resize(&self, start: *mut u8, old: usize, new: usize) -> bool {
        let Some(segment) = self.find(start) else { return false };
        if segment.owner() == Owner::Block || new > BLOCK_PAGES {
            // SAFETY: passed on.
            return segment.owner() == Owner::Block && unsafe { self.resize_block(start, old, new) };
        }
        let resize = |state: &mut FreeRuns| {
            if new <= old { self.shrink_run(state, start, new as u32) } else { self.grow_run(state, start, new as u32) }
        };
        let resize = || self.locked(here!(), resize)?.then_some(());
        let is_done = self.within_limit(new.saturating_sub(old), resize).is_some();
        self.give_excess_back();
        is_done
    }

    fn shrink_run(&self, state: &mut FreeRuns, start: *mut u8, new: u32) -> bool {
        let segment = self.segment(start);
        let page = segment.page_of(start);
        let old = segment.page(page).pages;
        if new < old {
            segment.page(page).pages = new;
            self.counts.in_use.subtract((old - new) as u64);
            self.counts.free_dirty.add(segment.count_dirty(page + new, old - new) as u64);
            state.join_and_link(segment, page + new, old - new);
        }
        true
    }

    fn grow_run(&self, state: &mut FreeRuns, start: *mut u8, new: u32) -> bool {
        let segment = self.segment(start);
        let page = segment.page_of(start);
        let old = segment.page(page).pages;
        let (end, more) = (page + old, new - old);
        let is_fresh = end == segment.low.get();
        if is_fresh && more <= segment.high.get() - end {
            if !self.hold(more.into()) {
                return false;
            }
            segment.low.set(end + more);
        } else if end < segment.pages() && segment.page(end).kind == Kind::Free && segment.page(end).pages >= more {
            if !self.hold((more - segment.count_dirty(end, more)).into()) {
                return false;
            }
            let free = segment.page(end).pages;
            state.unlink(segment, end);
            state.link(segment, end + more, free - more);
        } else {
            return false;
        }
        segment.page(page).pages = new;
        self.use_pages(segment, end, more, !is_fresh);
        self.count_taken(more as u64);
        true
    }
}
