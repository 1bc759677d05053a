//! The memory layout, with numbers: the region, a slot's area, a chunk of object caches, and the description of a span.
//!
//! ```text
//!   region  │ guard │ first segment │ guard │ first metadata │ header │ areas of the slots │ page map │ guard │
//!                   └ at 4 MiB's multiple                    base     + 12 KiB             + 8 MiB + 12 KiB
//!
//!   segment, large block   │ guard │ objects │ guard │    no metadata is ever mapped beside objects
//!                                  └ at 4 MiB's multiple
//!
//!   chunk                        │ 4 KiB slack   │ header  │ areas of the slots │
//!                                                base
//!
//!   header     0     head of a chunk: zero word, number, used slots, shapes of its caches
//!              1168  words of the modules above the tiers, each its own (`HeaderWord`)
//!              1248  the tiers' state, one inside the other: caches, cpu_cache, depot, central, page_heap
//!
//!   area       0     shards of ids 72 to 0, 40 bytes each; that of id 0, no cache's, is the slot's own (below)
//!   of a slot  2920  the budget of the slot's magazines
//!              2928  magazine words, two for each id from 0 to 72: allocation and free magazine
//!              4096  the same for ids 73 to 127
//!              4976  the budget of middle classes' magazines
//!              5632  gaps between samples, two bytes for each id
//!              5992  shards of ids 127 to 73, of the next slot; those of slot 0 end the header
//!
//!   shard      0     lock             central: it guards the rest, but for the load
//!              4     capacity level   cpu_cache
//!              5     frees examined   cpu_cache: how many, and at 6 since when
//!              8     ring of spans    central
//!              16    full magazines   depot
//!              24    empty magazines  depot
//!              32    load             central: misses and the time of the last one
//!
//!   id 0       0     page list        page_heap
//!              24    magazine arena   depot
//!              32    watch            cpu_cache: when to look again, when a thread last ran
//!
//!   span       64 bytes for each granule of 64 KiB, out of line; and 512 bytes of bits, one for 16 bytes of it
//! ```
//!
//! All of it is address space, committed at first touch. Zeroed memory is valid everywhere, and means "nothing here
//! yet". An untouched page of an area costs nothing: small classes lie in the first, middle ones in the second.

use core::marker::PhantomData;
use core::ptr::NonNull;
use machine::{root, slot, vm};

/// Ids of caches in a chunk, including 0, which is no cache's: as many as size classes, and as a byte of the page map
/// can name, which is twice the id.
pub const IDS: usize = 128;
/// Ids that lie in the first page of an area: those of small classes.
pub const FIRST_IDS: usize = 73;

/// Bytes of the header before the first area.
pub const HEADER: usize = 3 * vm::PAGE;
/// Start of the words of the modules above the tiers, after the head of a chunk.
pub(crate) const WORDS_ABOVE: usize = 144 + 8 * IDS;
pub(crate) const WORDS_ABOVE_BYTES: usize = 80;
/// End of the tiers' state, and start of the shards of slot 0's middle classes.
pub(crate) const TIERS_END: usize = HEADER - (IDS - FIRST_IDS) * SHARD;
/// End of the areas, and start of the page map.
pub const AREAS_END: usize = HEADER + slot::MAX * slot::AREA;
/// Bytes before a chunk's base that are never used: see `cpu_cache::slot_word`.
pub const SLACK: usize = vm::PAGE;

/// Bytes of a cache's shard in a slot, and of its two magazine words.
const SHARD: usize = 40;
const WORDS: usize = 16;
/// Start of an area's magazine words, after the first shards and the budget.
const WORDS_AT: usize = FIRST_IDS * SHARD + 8;

// Offsets in a shard.
pub(crate) const LOCK: usize = 0;
pub(crate) const LEVEL: usize = 4;
pub(crate) const EXAMINED: usize = 5;
pub(crate) const EXAMINED_SINCE: usize = 6;
pub(crate) const RING: usize = 8;
pub(crate) const FULL: usize = 16;
pub(crate) const EMPTY: usize = 24;
pub(crate) const LOAD: usize = 32;

// Offsets in an area.
pub(crate) const PAGE_LIST: usize = shard(0);
pub(crate) const ARENA: usize = shard(0) + 24;
pub(crate) const WATCH: usize = shard(0) + 32;
pub(crate) const BUDGET: usize = FIRST_IDS * SHARD;
pub(crate) const MIDDLE_BUDGET: usize = WORDS_AT + IDS * WORDS;
pub(crate) const DEPOT_BYTES: usize = MIDDLE_BUDGET + 8;
/// A byte for each id.
pub(crate) const DEPOT_LEAST: usize = DEPOT_BYTES + 8;
/// A word of 32 bits for each id.
pub(crate) const DEPOT_TAKER: usize = (DEPOT_LEAST + IDS).next_multiple_of(4);
/// 16 bits for each id.
pub(crate) const GAP: usize = DEPOT_TAKER + 4 * IDS;
const AREA_END: usize = GAP + 2 * IDS;

const _: () = assert!(WORDS_AT + FIRST_IDS * WORDS <= vm::PAGE, "small classes stay within one page");
const _: () = assert!(IDS * 2 <= u8::MAX as usize + 1);
const _: () = assert!(AREA_END <= slot::AREA - (IDS - FIRST_IDS) * SHARD);
const _: () = assert!(slot::AREAS == HEADER + WORDS_AT && slot::AREA.is_multiple_of(vm::PAGE));
const _: () = assert!(AREAS_END + vm::PAGE <= root::BOOTSTRAP_BYTES);

/// Offset of an id's shard from the start of an area. Shards of further ids lie before it: no comparison.
#[inline(always)]
pub const fn shard(id: usize) -> usize {
    BUDGET.wrapping_sub((id + 1) * SHARD)
}

/// For traces: the name of the part at an offset in an area, its id, and the offset in it.
pub fn part_of(offset: usize) -> Option<(&'static str, usize, usize)> {
    let word = offset.wrapping_sub(WORDS_AT);
    if word / WORDS < IDS {
        return Some((if word % WORDS < 8 { "allocation" } else { "free" }, word / WORDS, word % 8));
    }
    let in_shard = |id| offset.wrapping_sub(shard(id)) % slot::AREA;
    (0..IDS).find(|&id| in_shard(id) < SHARD).map(|id| ("shard", id, in_shard(id)))
}

/// Address space that begins with a header and has an area for each slot: the process's own, or a chunk of caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Region(NonNull<u8>);

impl Region {
    /// The region at `base`.
    ///
    /// # Safety
    /// `base` is a runtime's base, a chunk's, or the machine's zeroed stand-in for one.
    #[inline(always)]
    pub unsafe fn at(base: *mut u8) -> Self {
        // SAFETY: neither is null.
        Region(unsafe { NonNull::new_unchecked(base) })
    }

    /// The process's own region, or the stand-in.
    #[inline(always)]
    pub fn of_process() -> Self {
        // SAFETY: the root's base is a runtime's or the stand-in.
        unsafe { Region::at(root::base()) }
    }

    #[inline]
    pub(crate) fn of_map(map_start: *mut u8) -> Self {
        // SAFETY: the map follows the areas of a runtime's region.
        unsafe { Region::at(map_start.wrapping_sub(AREAS_END)) }
    }

    #[inline(always)]
    pub(crate) fn base(self) -> *mut u8 {
        self.0.as_ptr()
    }

    #[inline]
    pub(crate) fn in_area<T>(self, slot: u32, offset: usize) -> *mut T {
        debug_assert!((slot as usize) < slot::MAX);
        self.base().wrapping_add((HEADER + slot as usize * slot::AREA).wrapping_add(offset)).cast()
    }

    #[inline]
    pub(crate) fn in_shard<T>(self, slot: u32, id: usize, offset: usize) -> *mut T {
        debug_assert!(id < IDS && offset + size_of::<T>() <= SHARD);
        self.in_area(slot, shard(id).wrapping_add(offset))
    }

    /// The address at an offset from the base. Magazine words store such offsets.
    #[inline(always)]
    pub fn at_offset(self, offset: usize) -> *mut u8 {
        self.base().wrapping_add(offset)
    }

    #[inline(always)]
    pub(crate) fn offset_of(self, address: *mut u8) -> usize {
        (address as usize).wrapping_sub(self.base() as usize)
    }
}

/// A part of the process's header that belongs to one module above the tiers. All-zero memory must be a valid `T`.
#[derive(Debug)]
pub struct HeaderWord<T> {
    offset: usize,
    of: PhantomData<fn() -> T>,
}

/// The offsets of these parts.
pub(crate) mod header {
    use super::WORDS_ABOVE;

    pub const GROUPS: usize = WORDS_ABOVE;
    pub const UPKEEP: usize = WORDS_ABOVE + 8;
    pub const STATISTICS: usize = WORDS_ABOVE + 16;
    /// The operator's page.
    pub const CONTROL: usize = WORDS_ABOVE + 32;
    /// The mean gaps between samples.
    pub const SAMPLING: usize = WORDS_ABOVE + 40;
    pub const PROFILE: usize = WORDS_ABOVE + 64;
    /// Guarded blocks.
    pub const GUARD: usize = WORDS_ABOVE + 72;
}

impl<T> HeaderWord<T> {
    /// The part at an offset of `header`.
    ///
    /// # Panics
    /// The offset lies outside of the words above the header.
    ///
    /// # Safety
    /// Zeroes are a valid `T` (all atomic), and what it points to. These bytes of the header have no other user.
    pub const unsafe fn at(offset: usize) -> Self {
        assert!(offset >= WORDS_ABOVE && offset + size_of::<T>() <= WORDS_ABOVE + WORDS_ABOVE_BYTES);
        HeaderWord { offset, of: PhantomData }
    }

    /// The part in the process's region. None before there is a heap.
    pub fn get(&self) -> Option<&'static T> {
        // SAFETY: as promised in `at`; the region is never unmapped.
        root::is_installed().then(|| unsafe { &*Region::of_process().at_offset(self.offset).cast::<T>() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn area_parts_of_all_ids_do_not_overlap() {
        let words = |id: usize| WORDS_AT + id * WORDS..WORDS_AT + (id + 1) * WORDS;
        let shards = |id: usize| shard(id) % slot::AREA..shard(id) % slot::AREA + SHARD;
        let mut parts: std::vec::Vec<_> = (0..IDS).flat_map(|id| [words(id), shards(id)]).collect();
        parts.extend([BUDGET, MIDDLE_BUDGET, DEPOT_BYTES].map(|word| word..word + 8));
        parts.extend([DEPOT_LEAST..DEPOT_TAKER, DEPOT_TAKER..GAP, GAP..AREA_END]);
        parts.sort_by_key(|part| part.start);
        assert!(parts.windows(2).all(|pair| pair[0].end <= pair[1].start), "{parts:?}");
        assert!(parts.iter().all(|part| part.end <= slot::AREA));
    }
}
