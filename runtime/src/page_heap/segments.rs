//! The page heap's segments: adding and releasing address space, and recovery after a fork left the lock held.

use super::free_runs::FreeRuns;
use super::guarded::Place;
use super::memblock;
use super::runs::PageHeap;
use super::segment::{Kind, Owner, Segment};
use super::{GRANULE, MAX_SEGMENTS, PAGE, UNIT, guarded};
use crate::settings::Key;
use core::ptr::null_mut;
use machine::sync::Ordering;
use machine::{here, process, vm};

const HUGE: Key = Key::of("huge");

/// Up to this size (32 MiB), a heap uses no huge pages, for any system setting, unless the user prefers them.
const SMALL_HEAP_PAGES: u64 = (32 << 20) / PAGE as u64;
/// Bytes of a segment while the heap is small: a process may have as much address space in reserve.
const USUAL_SEGMENT: usize = 8 << 20;
const LARGEST_SEGMENT: usize = 256 << 20;
/// At least, for a run of more than 1 MiB: long runs join only within a segment.
const SEGMENT_FOR_LARGE: usize = 64 << 20;
/// Later a segment is one part in this many of the heap.
const SHARE: usize = 64;
/// Segments that a thread looks at under one hold of the lock.
const SEGMENTS_AT_ONCE: u32 = 64;
/// Attempts at other distances if entries of the page map are taken.
const PLACES: usize = 16;

impl PageHeap {
    /// Reserves a segment that has room for the run, and makes it the current one.
    pub(super) fn add_segment(&self, state: &mut FreeRuns, pages: u32, alignment: u32) -> Option<()> {
        let least = ((pages + alignment - 1) as usize * PAGE).next_multiple_of(GRANULE);
        let reserved = self.counts.reserved.get() as usize * PAGE;
        let most = (reserved / SHARE).clamp(USUAL_SEGMENT, LARGEST_SEGMENT);
        let usual = (reserved / 4).min(most).next_multiple_of(UNIT);
        let usual = match least > UNIT / 4 {
            // A whole number of runs, because the rest would count.
            true if process::limits_address_space() => usual / least * least,
            true => usual.max(SEGMENT_FOR_LARGE),
            false => usual,
        };
        let segment = self.try_segment(state, usual.max(least)).or_else(|| self.try_segment(state, least))?;
        state.close_frontier();
        state.current = Some(segment);
        Some(())
    }

    /// A random place for a mapping, near the first segment. The range has room for much more than the heap.
    pub(crate) fn place(&self, bytes: usize) -> Place {
        const LEAST: usize = 256 << 20;
        const TIMES_HEAP: usize = 8;
        let heap = (self.counts.reserved.get() + self.counts.in_use.get()) as usize * PAGE;
        let wanted = heap.saturating_add(bytes).saturating_mul(TIMES_HEAP);
        let range = wanted.clamp(LEAST, self.map.window() / 2);
        Place { near: self.map_start as usize, range, turn: self.counts.allocations.get() }
    }

    /// A mapping of zeroes between guard pages, for blocks of another kind: no other block of ours will ever have its
    /// entries of the page map. It is never given back. None: no address space; or the lock is held below a handler.
    pub(crate) fn claim_mapping(&self, bytes: usize) -> Option<*mut u8> {
        let start = guarded::map(self.place(bytes), bytes, UNIT)?;
        let claim = |state: &mut FreeRuns| {
            self.claim_or_move(state, start, (bytes, UNIT), granules_of_units(bytes.next_multiple_of(UNIT)))
        };
        self.locked(here!(), claim).unwrap_or_else(|| {
            // SAFETY: the mapping is ours and unused.
            unsafe { guarded::release(start, bytes) };
            None
        })
    }

    fn try_segment(&self, state: &mut FreeRuns, bytes: usize) -> Option<&'static Segment> {
        let (start, granules) = (guarded::map(self.place(bytes), bytes, UNIT)?, granules_of_units(bytes));
        let start = self.claim_or_move(state, start, (bytes, UNIT), granules)?;
        let wish = match HUGE.is("prefer") {
            true => Some(vm::Huge::Prefer),
            false if self.counts.reserved.get() < SMALL_HEAP_PAGES || HUGE.is("avoid") => Some(vm::Huge::Avoid),
            false => None,
        };
        if let Some(wish) = wish {
            // SAFETY: the mapping is ours.
            unsafe { vm::advise_huge(start, bytes, wish) };
        }
        let Some(segment) = self.adopt_segment(state, start, bytes) else {
            // SAFETY: the claim and the mapping are ours and unused.
            unsafe {
                self.map.give_up(self.map_start, start, granules);
                guarded::release(start, bytes);
            }
            return None;
        };
        segment.may_be_huge.set(wish.map_or(self.prefers_huge, |wish| wish == vm::Huge::Prefer));
        Some(segment)
    }

    /// The entries of the segment's granules are claimed, except the first segment's: see [`Self::claim_or_move`].
    pub(super) fn adopt_segment(&self, state: &mut FreeRuns, start: *mut u8, bytes: usize) -> Option<&'static Segment> {
        let segment = self.new_segment(state)?;
        // The description is ours alone until it is entered below.
        if !segment.begin(start, bytes, |size| self.metadata.cut(size, 64)) {
            state.recycle(segment);
            return None;
        }
        for unit in segment.units() {
            if !self.units.insert(unit, segment, &self.metadata) {
                segment.units().take_while(|&entered| entered < unit).for_each(|entered| self.units.remove(entered));
                state.recycle(segment);
                return None;
            }
        }
        self.counts.reserved.add((bytes / PAGE) as u64);
        Some(segment)
    }

    /// Claims the entries of a mapping's first granules: one, or whole units. If they are taken, releases the mapping
    /// and reserves another of `bytes` at `alignment`. None: there is no place, and no mapping.
    pub(super) fn claim_or_move(
        &self, state: &FreeRuns, start: *mut u8, (bytes, alignment): (usize, usize), granules: usize,
    ) -> Option<*mut u8> {
        let (map, map_start) = (&self.map, self.map_start);
        let first = state.segment(1);
        // SAFETY: the map is ours. Null's unit, first blocks and the first segment are claimed here: a small process
        // touches no claims.
        let is_unclaimed = unsafe {
            map.claim(map_start, null_mut(), granules_of_units(UNIT));
            map.claim(map_start, first.start(), granules_of_units(first.bytes()));
            for granule in memblock::granules() {
                map.claim(map_start, granule, 1);
            }
            map.is_unclaimed(map_start, start, granules)
        };
        let place = if is_unclaimed {
            Some(start)
        } else {
            // SAFETY: the mapping is ours and unused.
            unsafe { guarded::release(start, bytes) };
            let reserve = |at| guarded::map_at(at, bytes);
            // First near: else the kernel offers the same gap again. The distances double, to pass what is in use. No
            // address has more than 47 bits unless the kernel offers such.
            let near = (0..usize::BITS).map_while(|shift| alignment.checked_mul(1 << shift));
            let near = near.flat_map(|far| [(start as usize).checked_sub(far), (start as usize).checked_add(far)]);
            let near = near.flatten().filter(|at| at >> 47 == start as usize >> 47);
            // SAFETY: the map is ours.
            let mut near = near.filter(|&at| unsafe { map.is_unclaimed(map_start, at as *mut u8, granules) });
            near.find_map(reserve).or_else(|| {
                // SAFETY: the map is ours.
                let offset = unsafe { map.find_unclaimed(map_start, granules, alignment.min(map.window())) }?;
                let step = alignment.max(map.window());
                let highest = start as usize / step * step + offset;
                (0..PLACES).filter_map(|steps| highest.checked_sub(steps * step)).filter(|&at| at > 0).find_map(reserve)
            })
        };
        // SAFETY: the map is ours.
        place.inspect(|&place| unsafe { map.claim(map_start, place, granules) })
    }

    pub(super) fn new_description(&self, state: &mut FreeRuns) -> Option<&'static Segment> {
        if let Some(spare) = state.spare {
            state.spare = spare.next.get();
            return Some(spare);
        }
        // SAFETY: fresh metadata is zero, a valid description without an owner, and is never freed.
        self.metadata.cut(size_of::<Segment>(), 64).map(|fresh| unsafe { &*fresh.cast::<Segment>() })
    }

    /// A description with a number, as handles of pages need it.
    fn new_segment(&self, state: &mut FreeRuns) -> Option<&'static Segment> {
        let segment = self.new_description(state)?;
        if segment.number.get() > 0 {
            return Some(segment);
        }
        let number = self.segment_count.load(Ordering::Relaxed) + 1;
        if number as usize >= MAX_SEGMENTS {
            state.recycle(segment);
            return None;
        }
        segment.number.set(number);
        // SAFETY: the table has room.
        let entry = unsafe { &*state.segments.add(number as usize) };
        entry.store((&raw const *segment).cast_mut(), Ordering::Relaxed);
        // Release pairs with the acquire in `for_each_span`: a thread, or a child, that counts it finds it.
        self.segment_count.store(number, Ordering::Release);
        Some(segment)
    }

    /// Unmaps a segment that is one free run, if there is one among some from number `from` on. Returns its bytes of
    /// address space, and the number to go on from; none: there are no more.
    pub fn release_some_segments(&self, from: u32) -> (usize, Option<u32>) {
        // The first segment is part of the region.
        let from = from.max(2);
        let Some((detached, next)) = self.locked(here!(), |state| {
            let all = self.segment_count.load(Ordering::Relaxed) + 1;
            let some = from..all.min(from.saturating_add(SEGMENTS_AT_ONCE));
            let (end, found) = (some.end, { some }.find(|&number| self.is_empty_segment(state, number)));
            let next = found.map_or(end, |number| number + 1);
            (found.map(|number| self.detach_segment(state, number)), Some(next).filter(|&next| next < all))
        }) else {
            return (0, None);
        };
        let Some((start, bytes, dirty)) = detached else { return (0, next) };
        // SAFETY: no other thread can find the segment any more.
        unsafe { guarded::release(start, bytes) };
        self.limits.release(dirty);
        (bytes, next)
    }

    fn is_empty_segment(&self, state: &FreeRuns, number: u32) -> bool {
        let segment = state.segment(number);
        segment.owner() == Owner::PageHeap
            && (segment.page(0).kind, segment.page(0).pages) == (Kind::Free, segment.pages())
            && state.current.is_none_or(|current| !core::ptr::eq(segment, current))
    }

    /// Takes an empty segment out of the heap. Returns its place, its bytes, and the dirty pages that it had.
    fn detach_segment(&self, state: &mut FreeRuns, number: u32) -> (*mut u8, usize, u64) {
        let segment = state.segment(number);
        state.unlink(segment, 0);
        let (start, bytes, pages) = (segment.start(), segment.bytes(), segment.pages());
        let dirty = u64::from(segment.mark_clean(0, pages));
        self.counts.free_dirty.subtract(dirty);
        self.counts.reserved.subtract(u64::from(pages));
        segment.units().for_each(|unit| self.units.remove(unit));
        // SAFETY: its granules are in no span.
        unsafe { self.map.give_up(self.map_start, start, granules_of_units(segment.bytes())) };
        state.recycle(segment);
        (start, bytes, dirty)
    }

    /// After the holder vanished in a fork: finds all free runs again, as the pages between the runs in use.
    #[cold]
    pub(super) fn rebuild(&self, state: &mut FreeRuns) {
        state.forget();
        let (mut dirty, mut reserved) = (0, 0);
        for number in 1..=self.segment_count.load(Ordering::Relaxed) {
            let segment = state.segment(number);
            // The holder may have stopped while it changed the segment's units or claims. Orphaned claims stay.
            let enter = |unit| self.units.insert(unit, segment, &self.metadata);
            match segment.owner() {
                Owner::PageHeap if segment.units().all(enter) => {
                    if number > 1 {
                        // SAFETY: the map is ours, and so is the segment.
                        unsafe { self.map.claim(self.map_start, segment.start(), granules_of_units(segment.bytes())) };
                    }
                    dirty += state.relink_segment(segment);
                    reserved += u64::from(segment.pages());
                }
                Owner::Nobody => state.recycle(segment),
                _ => {}
            }
        }
        self.counts.free_dirty.set(dirty);
        self.counts.reserved.set(reserved);
    }
}

/// Granules of the units that a segment of `bytes` lies in; it may not fill the last one.
fn granules_of_units(bytes: usize) -> usize {
    bytes.next_multiple_of(UNIT) / GRANULE
}
