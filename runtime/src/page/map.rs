//! The page map: one byte for each granule of 64 KiB of address space, which tells free what class an object is of.
//!
//! The whole map is reserved at once, 2 GiB of address space that read as zero and cost nothing; its pages become writable
//! where segments lie. Zero means "no small object here": a large block, an address that is not ours, or null.
//!
//! Where address space is limited (`ulimit -v`), the map covers a window of 64 GiB only, and addresses are taken modulo the
//! window. The zone then refuses segments whose granules coincide with another's, so what is ours is still told apart
//! from what is ours; a foreign pointer may be mistaken for ours, and is found when its array is flushed.
//!
//! Runs at the same time: loads anywhere; bytes are stored by whoever owns the granule's span.

use machine::sync::{AtomicU8, Ordering};
use machine::vm;

/// log2 of the bytes that one entry covers.
pub const GRANULE_SHIFT: u32 = 16;
/// Entries of the whole map: every granule of a 47-bit address space.
const FULL: usize = 1 << (47 - GRANULE_SHIFT);
/// Entries of the windowed map.
const WINDOW: usize = 1 << (36 - GRANULE_SHIFT);

/// Where the map lies is known from the region; only its extent is kept, as the mask that indexes are taken with. A zero
/// mask (the stand-in region) sends every address to entry 0, which is zero.
#[derive(Debug)]
#[repr(C)]
pub struct PageMap {
    mask: usize,
}

impl PageMap {
    /// Offset of the mask.
    pub const MASK: usize = core::mem::offset_of!(PageMap, mask);

    /// Extents to try, best first, in entries: which of them can be had depends on the limit on address space.
    pub const EXTENTS: [usize; 2] = [FULL, WINDOW];

    /// Sets the number of entries, a power of two. Before anybody else runs.
    pub fn begin(&mut self, entries: usize) {
        debug_assert!(entries.is_power_of_two());
        self.mask = entries - 1;
    }

    /// Entries that exist.
    pub fn entries(&self) -> usize {
        self.mask + 1
    }

    /// The entry for an address.
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
        // SAFETY: the index is below the number of entries. A plain load (an atomic one costs an instruction more): whoever
        // frees an object got it from an allocation that happened after the entry was written, by whatever way the object
        // came to them, and no entry changes while an object of its granule lives.
        unsafe { map.add(self.index(address)).read().into() }
    }

    /// Sets the entries of `granules` granules from `start` on.
    ///
    /// # Safety
    /// As for [`Self::class_word`]; the caller owns the granules, and [`Self::commit`] went well for them.
    pub unsafe fn set(&self, map: *mut u8, start: *mut u8, granules: usize, class_word: u8) {
        for granule in 0..granules {
            let index = self.index(start as usize + (granule << GRANULE_SHIFT));
            // SAFETY: passed on. Relaxed: see `class_word`.
            unsafe { (*map.add(index).cast::<AtomicU8>()).store(class_word, Ordering::Relaxed) };
        }
    }

    /// Makes the entries of `[start, start + bytes)` writable.
    ///
    /// # Safety
    /// As for [`Self::class_word`].
    pub unsafe fn commit(&self, map: *mut u8, start: *mut u8, bytes: usize) -> bool {
        let last = start as usize + bytes - 1;
        let (first_page, last_page) = (self.index(start as usize) / vm::PAGE, self.index(last) / vm::PAGE);
        let pages = if first_page <= last_page { first_page..last_page + 1 } else { 0..self.entries() / vm::PAGE };
        // SAFETY: the pages are the map's.
        unsafe { vm::commit(map.add(pages.start * vm::PAGE), pages.len() * vm::PAGE) }
    }
}
