//! Blocks with a mapping of their own: for requests that are too large, or too coarsely aligned, for segments.

use super::PAGE;
use super::free_runs::FreeRuns;
use super::runs::{PageHeap, Run};
use super::segments::reserve_aligned;
use super::sizes::UNIT;
use machine::{here, vm};

impl PageHeap {
    pub(super) fn allocate_block(&self, pages: usize, alignment: usize) -> Option<Run> {
        let (bytes, alignment) = (pages.checked_mul(PAGE)?, UNIT.max(alignment * PAGE));
        let start = reserve_aligned(bytes, alignment)?;
        let entered = self.locked(here!(), |state| {
            let start = self.claim_or_move(state, start, (bytes, alignment), 1)?;
            let entered = self.enter_block(state, start, bytes);
            if entered.is_none() {
                // SAFETY: the claim and the mapping are ours and unused.
                unsafe {
                    self.map.give_up(self.map_start, start, 1);
                    vm::release(start, bytes);
                }
            }
            entered.map(|()| start)
        });
        match entered {
            Some(start) => start.map(|start| Run { start, is_zero: true }),
            None => {
                // SAFETY: the mapping is ours and unused.
                unsafe { vm::release(start, bytes) };
                None
            }
        }
    }

    fn enter_block(&self, state: &mut FreeRuns, start: *mut u8, bytes: usize) -> Option<()> {
        let block = self.new_description(state)?;
        // SAFETY: the description is ours alone.
        unsafe { (*block).begin_block(start, bytes) };
        if !self.units.insert(start, block, &self.metadata) {
            state.recycle(block);
            return None;
        }
        self.count_taken((bytes / PAGE) as u64);
        Some(())
    }

    pub(super) fn free_block(&self, start: *mut u8) {
        let forgotten = self.locked(here!(), |state| self.forget_block(state, start));
        if let Some(bytes) = forgotten {
            // SAFETY: no other thread can find the block any more.
            unsafe { vm::release(start, bytes) };
            return;
        }
        // In a signal handler inside the page heap: the block's pages go back now. The next thread that takes the lock
        // returns its address space. SAFETY: the block's owner gave it up.
        unsafe { vm::decommit(start, self.segment(start).bytes()) };
        self.defer(start);
    }

    /// Frees a deferred block.
    pub(super) fn give_block_back(&self, state: &mut FreeRuns, start: *mut u8) {
        let bytes = self.forget_block(state, start);
        // SAFETY: no other thread can find the block any more.
        unsafe { vm::release(start, bytes) };
    }

    fn forget_block(&self, state: &mut FreeRuns, start: *mut u8) -> usize {
        let segment = (&raw const *self.segment(start)).cast_mut();
        self.units.remove(start);
        // SAFETY: the block's owner gives it up.
        let bytes = unsafe {
            self.map.give_up(self.map_start, start, 1);
            (*segment).bytes()
        };
        state.recycle(segment);
        self.counts.in_use.subtract((bytes / PAGE) as u64);
        bytes
    }

    /// The contract is that of [`Self::resize`].
    pub(super) unsafe fn resize_block(&self, start: *mut u8, old: usize, new: usize) -> bool {
        // The kernel refuses growth into another mapping, so the block never reaches into a unit of another owner.
        // SAFETY: passed on.
        if !unsafe { vm::resize(start, old * PAGE, new * PAGE) } {
            return false;
        }
        let segment = (&raw const *self.segment(start)).cast_mut();
        // SAFETY: only the block's owner looks at its length.
        unsafe { (*segment).set_bytes(new * PAGE) };
        if new > old {
            self.count_taken((new - old) as u64);
        } else {
            self.counts.in_use.subtract((old - new) as u64);
        }
        true
    }
}
