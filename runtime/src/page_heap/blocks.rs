//! Large blocks: those with a mapping of their own, for requests that are too large, or too coarsely aligned, for
//! segments; and the tags of all.
//!
//! A *tag* is a word that the owner of a large block ties to it while the block is in use. It lies in the description
//! of the block's first page, where a free run has its links. Only the block's owner uses it.

use super::free_runs::FreeRuns;
use super::guarded::Mapping;
use super::kept::Table;
use super::runs::{PageHeap, Run};
use super::segment::{Kind, Owner};
use super::{PAGE, UNIT, guarded};
use core::ptr::{null_mut, with_exposed_provenance_mut};
use machine::sync::{Ordering, compiler_fence};
use machine::{here, vm};

/// Bytes that blocks leave unused in mappings that are more than twice as long.
const MOST_EXCESS: u64 = 16 << 20;

impl PageHeap {
    /// A block with a mapping of its own.
    pub fn allocate_block(&self, pages: usize, alignment: usize) -> Option<Run> {
        self.within_limit(pages, || self.make_block(pages, alignment))
    }

    /// The same, without an attempt to make room within the limit.
    pub(super) fn make_block(&self, pages: usize, alignment: usize) -> Option<Run> {
        let (bytes, alignment) = (pages.checked_mul(PAGE)?, UNIT.max(alignment * PAGE));
        if let Some(start) = (alignment == UNIT).then(|| self.reuse_block(bytes)).flatten() {
            return Some(Run { start, is_zero: false });
        }
        let start = guarded::map(self.place(bytes), bytes, alignment)?;
        let entered = self.locked(here!(), |state| {
            let start = self.claim_or_move(state, start, (bytes, alignment), 1)?;
            let mapping = Mapping { start, bytes };
            if self.enter_block(state, mapping, bytes).is_none() {
                // SAFETY: the claim and the mapping are ours and unused.
                unsafe {
                    self.map.give_up(self.map_start, start, 1);
                    mapping.release();
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

    /// A block in a mapping that was kept.
    fn reuse_block(&self, bytes: usize) -> Option<*mut u8> {
        let excess = MOST_EXCESS.saturating_sub(self.counts.excess.get()) as usize;
        let fits = bytes..=bytes.saturating_add(bytes.max(excess));
        let mapping = self.locked(here!(), |state| state.kept.take(fits))??;
        // SAFETY: the mapping is ours.
        let is_accessible = unsafe { vm::protect(mapping.start, bytes, vm::Access::ReadWrite) };
        let enter = |state: &mut FreeRuns| {
            // SAFETY: the map is ours.
            unsafe {
                if !self.map.is_unclaimed(self.map_start, mapping.start, 1) {
                    return None;
                }
                self.map.claim(self.map_start, mapping.start, 1);
                let entered = self.enter_block(state, mapping, bytes);
                if entered.is_none() {
                    self.map.give_up(self.map_start, mapping.start, 1);
                }
                entered
            }
        };
        if !is_accessible || self.locked(here!(), enter).flatten().is_none() {
            // SAFETY: the mapping is ours and unused.
            unsafe { mapping.release() };
            return None;
        }
        Some(mapping.start)
    }

    fn enter_block(&self, state: &mut FreeRuns, mapping: Mapping, bytes: usize) -> Option<()> {
        let pages = (bytes / PAGE) as u64;
        if !self.hold(pages) {
            return None;
        }
        let described = self.new_description(state).filter(|block| {
            block.begin_block(mapping, bytes);
            let is_entered = self.units.insert(mapping.start, *block, &self.metadata);
            if !is_entered {
                state.recycle(block);
            }
            is_entered
        });
        let Some(block) = described else {
            self.limits.release(pages);
            return None;
        };
        self.counts.excess.add(block.excess());
        self.count_taken(pages);
        Some(())
    }

    pub(super) fn free_block(&self, start: *mut u8) {
        let bytes = self.segment(start).bytes();
        let forgotten = self.locked(here!(), |state| {
            let mapping = self.forget_block(state, start);
            (mapping, state.kept.keeps(mapping))
        });
        let Some((mapping, is_kept)) = forgotten else {
            // In a signal handler inside the page heap: the block's pages go back now. The next thread that takes the
            // lock returns its address space. SAFETY: the block's owner gave it up.
            unsafe { vm::decommit(start, bytes) };
            return self.defer(start);
        };
        // No other thread can find the block any more.
        // SAFETY: its owner gave it up.
        let is_kept = is_kept && unsafe { vm::protect(start, bytes, vm::Access::None) };
        let keep = || self.locked(here!(), |state| state.kept.put(mapping));
        let mut surplus = if is_kept { keep().unwrap_or(Some(mapping)) } else { Some(mapping) };
        while let Some(mapping) = surplus {
            // SAFETY: the mapping is ours and unused.
            unsafe { mapping.release() };
            surplus = self.locked(here!(), |state| state.kept.take_surplus()).flatten();
        }
        self.limits.release((bytes / PAGE) as u64);
    }

    /// Frees a deferred block.
    pub(super) fn give_block_back(&self, state: &mut FreeRuns, start: *mut u8) {
        let pages = (self.segment(start).bytes() / PAGE) as u64;
        let mapping = self.forget_block(state, start);
        // SAFETY: no other thread can find the block any more.
        unsafe { mapping.release() };
        self.limits.release(pages);
    }

    fn forget_block(&self, state: &mut FreeRuns, start: *mut u8) -> Mapping {
        let segment = self.segment(start);
        self.units.remove(start);
        // SAFETY: the block's owner gives it up.
        unsafe { self.map.give_up(self.map_start, start, 1) };
        state.unmapped.remember(start);
        self.counts.in_use.subtract((segment.bytes() / PAGE) as u64);
        let mapping = Mapping { start, bytes: segment.mapped.get() };
        self.counts.excess.subtract(segment.excess());
        state.recycle(segment);
        mapping
    }

    /// From now on, the mappings of freed blocks wait for reuse.
    pub fn keep_blocks(&self) {
        let table = self.metadata.cut(size_of::<Table>(), align_of::<Table>());
        // SAFETY: the memory is ours, never freed, and zeroes are mappings of no bytes.
        let table = table.map(|table| unsafe { &mut *table.cast::<Table>() });
        self.locked(here!(), |state| table.map(|table| state.kept.begin(table)));
    }

    /// Unmaps what waits for reuse. Returns how many bytes.
    pub fn release_blocks(&self) -> usize {
        let next = || self.locked(here!(), |state| state.kept.take_any()).flatten();
        core::iter::from_fn(next).fold(0, |bytes, mapping| {
            // SAFETY: the mapping is ours and unused.
            unsafe { mapping.release() };
            bytes + mapping.bytes
        })
    }

    /// The contract is that of [`Self::resize`].
    pub(super) unsafe fn resize_block(&self, start: *mut u8, old: usize, new: usize) -> bool {
        let more = new.saturating_sub(old) as u64;
        if self.within_limit(more as usize, || self.hold(more).then_some(())).is_none() {
            return false;
        }
        let segment = self.segment(start);
        let (before, mut mapping) = (segment.excess(), Mapping { start, bytes: segment.mapped.get() });
        // The kernel refuses growth into another mapping, so the block never reaches into a unit of another owner.
        // SAFETY: passed on.
        let is_done = unsafe { mapping.resize(old * PAGE, new * PAGE) };
        // Only the block's owner looks at its length.
        segment.mapped.set(mapping.bytes);
        if is_done {
            segment.set_bytes(new * PAGE);
            if new > old {
                self.count_taken(more);
            } else {
                self.counts.in_use.subtract((old - new) as u64);
                self.limits.release((old - new) as u64);
            }
        } else {
            self.limits.release(more);
        }
        self.counts.excess.subtract(before);
        self.counts.excess.add(segment.excess());
        is_done
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
