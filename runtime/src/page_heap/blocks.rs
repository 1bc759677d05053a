//! Large blocks: those with a mapping of their own, for requests that are too large, or too coarsely aligned, for
//! segments; and the tags of all.
//!
//! A *tag* is a word that the owner of a large block ties to it while the block is in use. It lies in the description
//! of the block's first page, where a free run has its links. Only the block's owner uses it.

use super::free_runs::FreeRuns;
use super::runs::{PageHeap, Run};
use super::segment::{Kind, Owner};
use super::{PAGE, UNIT, guarded};
use core::ptr::{null_mut, with_exposed_provenance_mut};
use machine::sync::{Ordering, compiler_fence};
use machine::{here, vm};

impl PageHeap {
    /// A block with a mapping of its own.
    pub fn allocate_block(&self, pages: usize, alignment: usize) -> Option<Run> {
        let (bytes, alignment) = (pages.checked_mul(PAGE)?, UNIT.max(alignment * PAGE));
        let start = guarded::map(self.place(bytes), bytes, alignment)?;
        let entered = self.locked(here!(), |state| {
            let start = self.claim_or_move(state, start, (bytes, alignment), 1)?;
            if self.enter_block(state, start, bytes).is_none() {
                // SAFETY: the claim and the mapping are ours and unused.
                unsafe {
                    self.map.give_up(self.map_start, start, 1);
                    guarded::release(start, bytes);
                }
                return None;
            }
            Some(start)
        });
        let Some(start) = entered else {
            // SAFETY: the mapping is ours and unused.
            unsafe { guarded::release(start, bytes) };
            return None;
        };
        Some(Run { start: start?, is_zero: true })
    }

    fn enter_block(&self, state: &mut FreeRuns, start: *mut u8, bytes: usize) -> Option<()> {
        let block = self.new_description(state)?;
        block.begin_block(start, bytes);
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
            unsafe { guarded::release(start, bytes) };
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
        unsafe { guarded::release(start, bytes) };
    }

    fn forget_block(&self, state: &mut FreeRuns, start: *mut u8) -> usize {
        let segment = self.segment(start);
        self.units.remove(start);
        // SAFETY: the block's owner gives it up.
        unsafe { self.map.give_up(self.map_start, start, 1) };
        let bytes = segment.bytes();
        state.recycle(segment);
        state.unmapped.remember(start);
        self.counts.in_use.subtract((bytes / PAGE) as u64);
        bytes
    }

    /// The contract is that of [`Self::resize`].
    pub(super) unsafe fn resize_block(&self, start: *mut u8, old: usize, new: usize) -> bool {
        // The kernel refuses growth into another mapping, so the block never reaches into a unit of another owner.
        // SAFETY: passed on.
        if !unsafe { guarded::resize(start, old * PAGE, new * PAGE) } {
            return false;
        }
        // Only the block's owner looks at its length.
        self.segment(start).set_bytes(new * PAGE);
        if new > old {
            self.count_taken((new - old) as u64);
        } else {
            self.counts.in_use.subtract((old - new) as u64);
        }
        true
    }

    /// The tag of the large block that begins at an address; null if it has none.
    pub fn tag(&self, start: *mut u8) -> *mut u8 {
        let Some(segment) = self.find(start) else { return null_mut() };
        match segment.owner() {
            Owner::Block => segment.tag.get(),
            Owner::PageHeap => {
                let page = segment.page(segment.page_of(start));
                let tag = (page.next as usize) << 32 | page.previous as usize;
                if page.kind == Kind::Tagged { with_exposed_provenance_mut(tag) } else { null_mut() }
            }
            Owner::Nobody => null_mut(),
        }
    }

    /// Notes how many bytes of a block its user asked for. Returns how many it has; none: it has no mapping of its own.
    pub fn note_length(&self, start: *mut u8, bytes: usize) -> Option<usize> {
        let segment = self.find(start).filter(|segment| segment.owner() == Owner::Block)?;
        segment.length.set(Some(bytes));
        Some(segment.bytes())
    }

    /// The bytes noted of the block that begins at an address, and how many it has.
    pub fn length(&self, start: *mut u8) -> Option<(usize, usize)> {
        let segment = self.find(start).filter(|segment| segment.owner() == Owner::Block && segment.start() == start)?;
        Some((segment.length.get()?, segment.bytes()))
    }

    /// Forgets it.
    pub fn forget_length(&self, start: *mut u8) {
        if let Some(segment) = self.find(start) {
            segment.length.set(None);
        }
    }

    /// Ties a tag to a large block. False: the block cannot have one.
    ///
    /// # Safety
    /// The caller owns the large block that begins there.
    pub unsafe fn set_tag(&self, start: *mut u8, tag: *mut u8) -> bool {
        let Some(segment) = self.find(start) else { return false };
        if segment.owner() == Owner::Block {
            segment.tag.set(tag);
            return true;
        }
        let page = segment.page(segment.page_of(start));
        let word = tag.expose_provenance();
        (page.next, page.previous) = ((word >> 32) as u32, word as u32);
        // The run is in use at every moment, for a fork child that goes over the descriptions.
        compiler_fence(Ordering::Release);
        page.kind = Kind::Tagged;
        true
    }
}
