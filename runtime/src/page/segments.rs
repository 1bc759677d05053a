//! The zone's segments: how address space is added to it, and what becomes of it after a fork that left the lock held.

use super::PAGE;
use super::bins::LONGEST;
use super::free_runs::FreeRuns;
use super::segment::{Owner, Segment};
use super::span::GRANULE;
use super::units::UNIT;
use super::zone::Zone;
use crate::observe::LockReport;
use crate::settings::Key;
use core::ptr::null_mut;
use machine::sync::{Ordering, compiler_fence};
use machine::{here, process, vm};

const HUGE: Key = Key::of("huge");

const MAX_SEGMENTS: usize = 1 << 14;
/// While a heap is no larger than this (32 MiB), none of it uses huge pages, whatever the system's setting.
const SMALL_HEAP_PAGES: u64 = (32 << 20) / PAGE as u64;
/// Bytes of the table of all segments.
pub(super) const SEGMENT_TABLE_BYTES: usize = MAX_SEGMENTS * size_of::<*mut Segment>();
const LARGEST_SEGMENT: usize = 256 << 20;

impl Zone {
    /// Reserves a segment that has room for the run, and makes it the current one.
    pub(super) fn add_segment(&self, state: &mut FreeRuns, pages: u32, alignment: u32) -> Option<()> {
        let least = ((pages + alignment) as usize * PAGE).next_multiple_of(UNIT);
        let usual =
            (self.counts.reserved.get() as usize * PAGE / 4).next_multiple_of(UNIT).clamp(UNIT, LARGEST_SEGMENT);
        let segment = self.try_segment(state, least.max(usual)).or_else(|| self.try_segment(state, least))?;
        state.close_frontier();
        state.current = segment;
        Some(())
    }

    fn try_segment(&self, state: &mut FreeRuns, bytes: usize) -> Option<*mut Segment> {
        let start = reserve_aligned(bytes, UNIT)?;
        let is_small = self.counts.reserved.get() < SMALL_HEAP_PAGES;
        let avoids_huge = is_small || HUGE.is("avoid");
        if avoids_huge {
            // SAFETY: the mapping is ours.
            unsafe { vm::advise_huge(start, bytes, vm::Huge::Avoid) };
        }
        let Some(segment) = self.adopt_segment(state, start, bytes) else {
            // SAFETY: the mapping is ours and unused.
            unsafe { vm::release(start, bytes) };
            return None;
        };
        // SAFETY: descriptions are never freed, and the lock is held.
        unsafe { (*segment).may_be_huge = !avoids_huge && process::prefers_huge_pages() };
        Some(segment)
    }

    pub(super) fn adopt_segment(&self, state: &mut FreeRuns, start: *mut u8, bytes: usize) -> Option<*mut Segment> {
        if self.is_shadowed(start, bytes) {
            return None;
        }
        // SAFETY: the map is ours.
        if !unsafe { self.map.commit(self.map_start, start, bytes) } {
            return None;
        }
        let segment = self.new_segment(state)?;
        // SAFETY: the description is ours alone until it is entered below.
        let described = unsafe { (*segment).begin(start, bytes, |size| self.metadata.cut(size, 64)) };
        if !described {
            state.recycle(segment);
            return None;
        }
        for unit in 0..bytes / UNIT {
            if !self.units.insert(start.wrapping_add(unit * UNIT), segment, &self.metadata) {
                (0..unit).for_each(|unit| self.units.remove(start.wrapping_add(unit * UNIT)));
                state.recycle(segment);
                return None;
            }
        }
        self.counts.reserved.add((bytes / PAGE) as u64);
        Some(segment)
    }

    /// With a windowed map: whether a granule of the range has the same entry as one of another segment, or block.
    pub(super) fn is_shadowed(&self, start: *mut u8, bytes: usize) -> bool {
        let window = self.map.entries() * GRANULE;
        // SAFETY: the lock is held, or nobody else runs.
        let state = unsafe { &*self.state.get() };
        (1..=state.segment_count).any(|number| {
            let (segment, _) = state.resolve(number << LONGEST.ilog2());
            // SAFETY: the segment exists.
            let other = unsafe { &*segment };
            let distance = (start as usize).wrapping_sub(other.start() as usize) % window;
            other.owner != Owner::Nobody && (distance < other.bytes || window - distance < bytes)
        })
    }

    pub(super) fn new_segment(&self, state: &mut FreeRuns) -> Option<*mut Segment> {
        // SAFETY: descriptions are never freed, and the lock is held.
        if let Some(spare) = unsafe { state.spare.as_mut() } {
            state.spare = spare.next;
            return Some(spare);
        }
        if state.segment_count as usize + 1 >= MAX_SEGMENTS {
            return None;
        }
        let segment = self.metadata.cut(size_of::<Segment>(), 64)?.cast::<Segment>();
        // SAFETY: the table has room; a zeroed description is a valid one of nobody's.
        unsafe {
            (*segment).number = state.segment_count + 1;
            state.segments.add(state.segment_count as usize + 1).write_volatile(segment);
        }
        // In this order, for a child that is forked in between, and for those who walk the segments without the lock.
        compiler_fence(Ordering::Release);
        state.segment_count += 1;
        Some(segment)
    }

    /// Unmaps segments that are free as a whole; returns the bytes of address space that went back.
    pub fn release_segments(&self, locks: &LockReport) -> usize {
        let mut released = 0;
        while let Some(Some((start, bytes))) = self.locked(locks, here!(), |state| self.detach_empty_segment(state)) {
            // SAFETY: nobody finds the segment any more.
            unsafe { vm::release(start, bytes) };
            released += bytes;
        }
        released
    }

    fn detach_empty_segment(&self, state: &mut FreeRuns) -> Option<(*mut u8, usize)> {
        // The first segment is part of the region.
        let segment = (2..=state.segment_count)
            .map(|number| state.resolve(number << LONGEST.ilog2()).0)
            .find(|&segment| segment != state.current && state.is_free(segment))?;
        state.unlink(segment, 0);
        // SAFETY: the segment exists, the lock is held.
        let (start, bytes) = unsafe { ((*segment).start(), (*segment).bytes) };
        let pages = (bytes / PAGE) as u32;
        // SAFETY: as above.
        self.counts.free_dirty.subtract(unsafe { (*segment).mark_clean(0, pages) } as u64);
        self.counts.reserved.subtract(pages as u64);
        for unit in 0..bytes / UNIT {
            self.units.remove(start.wrapping_add(unit * UNIT));
        }
        state.recycle(segment);
        Some((start, bytes))
    }

    /// After the holder vanished in a fork: finds all free runs anew, as what lies between the runs in use.
    #[cold]
    pub(super) fn rebuild(&self, state: &mut FreeRuns) {
        state.forget();
        let (mut dirty, mut reserved) = (0, 0);
        for number in 1..=state.segment_count {
            let (segment, _) = state.resolve(number << LONGEST.ilog2());
            // SAFETY: the segment exists.
            let (owner, start, bytes) = unsafe { ((*segment).owner, (*segment).start(), (*segment).bytes) };
            // The holder may have been entering the segment's units, or removing them.
            let enter = |unit| self.units.insert(start.wrapping_add(unit * UNIT), segment, &self.metadata);
            match owner {
                Owner::Zone if (0..bytes / UNIT).all(enter) => {
                    dirty += state.relink_segment(segment);
                    reserved += (bytes / PAGE) as u64;
                }
                Owner::Nobody => state.recycle(segment),
                _ => {}
            }
        }
        self.counts.free_dirty.set(dirty);
        self.counts.reserved.set(reserved);
    }
}

/// Reserves committed memory that is aligned to `alignment`, a multiple of the page size.
pub(super) fn reserve_aligned(bytes: usize, alignment: usize) -> Option<*mut u8> {
    let bytes = bytes.checked_next_multiple_of(PAGE)?;
    let all = bytes.checked_add(alignment)?;
    let start = vm::reserve(null_mut(), all, vm::Access::ReadWrite)?;
    let aligned = (start as usize).next_multiple_of(alignment) as *mut u8;
    let (before, after) = (aligned as usize - start as usize, all - bytes - (aligned as usize - start as usize));
    // SAFETY: the ends of a mapping that is ours.
    unsafe {
        if before > 0 {
            vm::release(start, before);
        }
        if after > 0 {
            vm::release(aligned.wrapping_add(bytes), after);
        }
    }
    Some(aligned)
}
