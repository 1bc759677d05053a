//! Runs that a signal handler frees inside the page heap: the next thread that takes the lock puts them back.

use super::free_runs::{FreeRuns, FreedRun};
use super::runs::PageHeap;
use super::segment::Owner;
use core::ptr::null_mut;
use machine::sync::Ordering;

impl PageHeap {
    pub(super) fn defer(&self, start: *mut u8) {
        let mut head = self.deferred.load(Ordering::Relaxed);
        loop {
            // SAFETY: the run is free and at least a page.
            unsafe { start.cast::<FreedRun>().write(FreedRun { next: head }) };
            // Release pairs with the acquire in `put_deferred`: a thread that sees the run also sees its link.
            match self.deferred.compare_exchange_weak(head, start.cast(), Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(seen) => head = seen,
            }
        }
    }

    #[cold]
    pub(super) fn put_deferred(&self, state: &mut FreeRuns) {
        let mut run = self.deferred.swap(null_mut(), Ordering::Acquire);
        // SAFETY: written by `defer`.
        while let Some(FreedRun { next }) = unsafe { run.as_ref() } {
            let (start, next) = (run.cast::<u8>(), *next);
            match self.segment(start).owner() {
                Owner::Block => self.give_block_back(state, start),
                _ => self.put_run(state, start),
            }
            run = next;
        }
    }
}
