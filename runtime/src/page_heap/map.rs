//! The page map: one byte for each granule of 64 KiB of address space, from which free reads the class of an object.
//!
//! Zero means "no small object here": a large block, a foreign address, or null.
//!
//! The map is small, because a limit on address space counts all of it. It covers a *window* of four times the
//! machine's memory or more, and addresses are taken modulo the window. So that our own addresses do not collide, each
//! segment *claims* the entries of all its granules. A block with a mapping of its own claims that of its first
//! granule, the only one that is looked up. If an entry is claimed already, the page heap tries another place. The unit
//! at 0 is claimed for null, because free looks null up like any pointer. Another foreign pointer may be mistaken for
//! ours; the flush of its magazine detects it.
//!
//! ```text
//!   map │ a byte for each granule of the window │ a bit for each: whether it is claimed │
//! ```
//!
//! Runs at the same time: loads anywhere; stores by the owner of a granule; claims under the page heap's lock.

use super::{GRANULE_SHIFT, UNIT};
use machine::sync::{AtomicU8, AtomicU64, Ordering};

/// Entries of the smallest map: of 64 GiB.
const LEAST: usize = 1 << (36 - GRANULE_SHIFT);
/// Of the usual one: of 128 GiB.
const USUAL: usize = 2 * LEAST;
/// Of the largest: every granule of a 47-bit address space.
const FULL: usize = 1 << (47 - GRANULE_SHIFT);
/// A map covers the machine's memory this many times, because segments may hold more than memory.
const TIMES_MEMORY: u64 = 4;
/// A map takes at most one part in this many of the address space that is left to the process.
const SHARE: usize = 16;
/// Entries of a unit: their claims are one word.
const UNIT_ENTRIES: usize = UNIT >> GRANULE_SHIFT;
const _: () = assert!(UNIT_ENTRIES == u64::BITS as usize);

/// Only the extent is stored, as a mask for indexes. The stand-in's zero mask sends every address to entry 0, a zero.
#[derive(Debug)]
#[repr(C)]
pub struct PageMap {
    mask: usize,
}

impl PageMap {
    pub const MASK: usize = core::mem::offset_of!(PageMap, mask);

    /// Number of entries for a machine with `memory` bytes, where `fits` tells whether so much address space is left.
    pub fn entries_for(memory: u64, fits: impl Fn(usize) -> bool) -> usize {
        let wanted = (memory.saturating_mul(TIMES_MEMORY) >> GRANULE_SHIFT).clamp(USUAL as u64, FULL as u64);
        let mut entries = wanted.next_power_of_two() as usize;
        while entries > LEAST && !fits(entries * SHARE) {
            entries /= 2;
        }
        entries
    }

    pub const fn bytes(entries: usize) -> usize {
        entries + entries / 8
    }

    /// Sets the number of entries, a power of two, before any other thread runs.
    pub fn begin(&mut self, entries: usize) {
        debug_assert!(entries.is_power_of_two());
        self.mask = entries - 1;
    }

    /// Bytes of address space that so many entries cover.
    pub const fn window_of(entries: usize) -> usize {
        entries << GRANULE_SHIFT
    }

    pub fn window(&self) -> usize {
        Self::window_of(self.mask + 1)
    }

    #[inline(always)]
    pub fn index(&self, address: usize) -> usize {
        (address >> GRANULE_SHIFT) & self.mask
    }

    /// The class of the objects at an address, as twice its number; 0 if there are none.
    ///
    /// # Safety
    /// `map` is the first entry of this map.
    #[inline(always)]
    pub unsafe fn class_word(&self, map: *mut u8, address: usize) -> usize {
        // SAFETY: the index is below the number of entries. A plain load (an atomic one costs an instruction more): a
        // thread that frees an object got it from an allocation that happened after the entry was written, and the way
        // that the object took to it carries that order. No entry changes while an object of its granule lives.
        unsafe { map.add(self.index(address)).read().into() }
    }

    /// Sets the entries of `granules` granules from `start` on.
    ///
    /// # Safety
    /// As for [`Self::class_word`]; the caller owns the granules, which are claimed.
    pub unsafe fn set(&self, map: *mut u8, start: *mut u8, granules: usize, class_word: u8) {
        for granule in 0..granules {
            let index = self.index(start as usize + (granule << GRANULE_SHIFT));
            // SAFETY: passed on. Relaxed: see `class_word`.
            unsafe { (*map.add(index).cast::<AtomicU8>()).store(class_word, Ordering::Relaxed) };
        }
    }

    /// Whether the entries of one granule, or of whole units, are unclaimed. Under the page heap's lock.
    ///
    /// # Safety
    /// As for [`Self::class_word`].
    pub unsafe fn is_unclaimed(&self, map: *mut u8, start: *mut u8, granules: usize) -> bool {
        // SAFETY: passed on.
        unsafe { self.claims(map, start, granules) }.all(|(word, bits)| word.load(Ordering::Relaxed) & bits == 0)
    }

    /// Claims entries.
    ///
    /// # Safety
    /// As above.
    pub unsafe fn claim(&self, map: *mut u8, start: *mut u8, granules: usize) {
        // SAFETY: passed on.
        let words = unsafe { self.claims(map, start, granules) };
        words.for_each(|(word, bits)| word.store(word.load(Ordering::Relaxed) | bits, Ordering::Relaxed));
    }

    /// Drops claims.
    ///
    /// # Safety
    /// As above.
    pub unsafe fn give_up(&self, map: *mut u8, start: *mut u8, granules: usize) {
        // SAFETY: passed on.
        let words = unsafe { self.claims(map, start, granules) };
        words.for_each(|(word, bits)| word.store(word.load(Ordering::Relaxed) & !bits, Ordering::Relaxed));
    }

    /// The offset in the window of `granules` unclaimed granules at a multiple of `alignment`, a power of two of units.
    ///
    /// # Safety
    /// As above.
    pub unsafe fn find_unclaimed(&self, map: *mut u8, granules: usize, alignment: usize) -> Option<usize> {
        // SAFETY: passed on.
        (0..self.window()).step_by(alignment).find(|&at| unsafe { self.is_unclaimed(map, at as *mut u8, granules) })
    }

    /// The words of claims, and their bits for these granules.
    unsafe fn claims<'a>(
        &self, map: *mut u8, start: *mut u8, granules: usize,
    ) -> impl Iterator<Item = (&'a AtomicU64, u64)> {
        let (first, entries) = (self.index(start as usize), self.mask + 1);
        let bits = if granules == 1 { 1 << (first % UNIT_ENTRIES) } else { u64::MAX };
        (0..granules.div_ceil(UNIT_ENTRIES)).map(move |unit| {
            let word = (first / UNIT_ENTRIES + unit) % (entries / UNIT_ENTRIES);
            // SAFETY: passed on; the entries are followed by a bit for each of them.
            (unsafe { &*map.add(entries).cast::<AtomicU64>().add(word) }, bits)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;

    #[test]
    fn map_covers_memory_four_times_within_the_limit() {
        const GIB: u64 = 1 << 30;
        for (memory, limit, covered) in [
            (GIB, usize::MAX, 128 * GIB),
            (24 * GIB, usize::MAX, 128 * GIB),
            (33 * GIB, usize::MAX, 256 * GIB),
            (u64::MAX, usize::MAX, GIB << 17),
            (24 * GIB, 40 << 20, 128 * GIB),
            (24 * GIB, 20 << 20, 64 * GIB),
            (24 * GIB, 0, 64 * GIB),
            (GIB << 10, 1 << 30, GIB << 12),
        ] {
            let entries = PageMap::entries_for(memory, |bytes| bytes <= limit);
            assert_eq!((entries as u64) << GRANULE_SHIFT, covered, "{memory} bytes of memory, {limit} left");
        }
    }

    #[test]
    fn claimed_entries_are_found_claimed_wherever_the_address() {
        machine::test_support::play(1, || {
            const UNITS: usize = 8;
            let mut map = PageMap { mask: 0 };
            map.begin(UNITS * UNIT_ENTRIES);
            let memory = vec![0_u64; PageMap::bytes(UNITS * UNIT_ENTRIES) / 8].leak().as_mut_ptr().cast::<u8>();
            let window = map.window();
            // SAFETY: the map has room for its entries and claims.
            let claim = |at: usize, granules| unsafe {
                let is_free = map.is_unclaimed(memory, at as *mut u8, granules);
                if is_free {
                    map.claim(memory, at as *mut u8, granules);
                }
                is_free
            };
            // SAFETY: as above.
            let give_up = |at: usize, granules| unsafe { map.give_up(memory, at as *mut u8, granules) };
            // SAFETY: as above.
            let find = |granules, alignment| unsafe { map.find_unclaimed(memory, granules, alignment) };
            // Over the window's end.
            assert!(claim(7 * UNIT, 2 * UNIT_ENTRIES));
            assert!(!claim(3 * window, 1) && !claim(7 * UNIT, UNIT_ENTRIES) && !claim(4 * UNIT, 4 * UNIT_ENTRIES));
            let granule = UNIT + (5 << GRANULE_SHIFT);
            assert!(
                claim(granule, 1) && !claim(window + granule, 1) && claim(window + granule + (1 << GRANULE_SHIFT), 1)
            );
            assert_eq!((find(1, UNIT), find(UNIT_ENTRIES, UNIT)), (Some(UNIT), Some(2 * UNIT)));
            assert_eq!((find(1, 4 * UNIT), find(6 * UNIT_ENTRIES, UNIT)), (Some(4 * UNIT), None));
            give_up(granule, 1);
            assert!(!claim(UNIT, UNIT_ENTRIES), "the block beside it still has its claim");
            give_up(granule + (1 << GRANULE_SHIFT), 1);
            give_up(7 * UNIT, 2 * UNIT_ENTRIES);
            assert!(claim(0, UNITS * UNIT_ENTRIES) && find(1, UNIT).is_none());
        });
    }
}
