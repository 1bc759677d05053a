//! Slot words: they name a slot's magazines.
//!
//! A word is an offset from the base of its cache's chunk. An allocation magazine's word leads to the topmost pointer;
//! a free magazine's word leads to the place behind it. So zeroed memory reads as an empty allocation magazine and a
//! full free magazine. A slot word takes a magazine and gives one back. A look gives a [`View`], which may be stale.

use super::gap::Gap;
use crate::central::CacheRef;
use crate::depot::{Magazine, View};
use crate::layout::{HEADER, Region};
use machine::slot::{self, ARRAY, Stored};

/// A word whose magazine another CPU is taking away. It points before the chunk's base, to a magazine's worth of
/// zeroes. No thread pops, as it reads as an empty magazine, and no thread pushes, as it reads as a full one.
const DRAINING: usize = 0usize.wrapping_sub(ARRAY);

/// The two kinds of a slot's magazines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Allocations pop from it.
    Allocation,
    /// Frees push to it.
    Free,
}

impl Side {
    /// Both.
    pub const BOTH: [Side; 2] = [Side::Allocation, Side::Free];

    /// The word for a magazine whose top is at an address.
    fn word(self, chunk: Region, top: usize) -> usize {
        let offset = chunk.offset_of(top as *mut u8);
        match self {
            Side::Allocation => offset,
            Side::Free => offset + 8,
        }
    }
}

/// One of a cache's two words in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotWord {
    /// Its cache.
    pub cache: CacheRef,
    /// Its slot.
    pub slot: u32,
    /// The allocation or the free magazine.
    pub side: Side,
}

/// A word's value when it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    word: usize,
    top: usize,
}

impl Seen {
    /// The magazine that it names, if any.
    #[inline]
    pub fn view<'a>(self) -> Option<View<'a>> {
        // SAFETY: magazines are never unmapped.
        self.names_one().then(|| unsafe { View::at(self.top) })
    }

    /// Whether another CPU is taking the magazine away.
    #[inline]
    pub fn is_draining(self) -> bool {
        self.word == DRAINING
    }

    /// Whether the word names no magazine and is not draining.
    #[inline]
    pub fn is_zero(self) -> bool {
        self.word == 0
    }

    #[inline]
    fn names_one(self) -> bool {
        // A smaller word is an offset into the header, which begins with zeroes.
        self.word >= HEADER && !self.is_draining()
    }

    /// The magazine.
    ///
    /// # Safety
    /// It was taken out of the word.
    unsafe fn adopt(self) -> Option<Magazine> {
        // SAFETY: passed on.
        self.names_one().then(|| unsafe { Magazine::adopt(self.top) })
    }
}

impl SlotWord {
    /// A word of a slot.
    #[inline]
    pub fn new(cache: CacheRef, slot: u32, side: Side) -> Self {
        SlotWord { cache, slot, side }
    }

    #[inline]
    fn base(self) -> *mut u8 {
        self.cache.chunk().base()
    }

    #[inline]
    fn index(self) -> usize {
        match self.side {
            Side::Allocation => self.cache.index(),
            Side::Free => self.cache.index() + 1,
        }
    }

    fn seen(self, word: usize) -> Seen {
        let place = self.cache.chunk().at_offset(word) as usize;
        Seen { word, top: if self.side == Side::Free { place.wrapping_sub(8) } else { place } }
    }

    /// Its value now.
    #[inline]
    pub fn look(self) -> Seen {
        // SAFETY: each slot has an area.
        self.seen(unsafe { slot::load(self.base(), self.slot, self.index()) })
    }

    /// The magazine that it names now.
    #[inline]
    pub fn view<'a>(self) -> Option<View<'a>> {
        self.look().view()
    }

    /// Replaces the word if the calling thread is in the slot and the word has not changed.
    fn replace(self, seen: Seen, new: usize) -> bool {
        self.cache.mark_used_in(self.slot);
        // SAFETY: each slot has an area; `new` names a magazine of the caller's, or none.
        unsafe { slot::compare_store(self.base(), self.slot, self.index(), seen.word, new) == Stored::Done }
    }

    /// The gap that reserves its magazine's objects.
    #[inline]
    fn gap(self) -> Option<Gap> {
        if self.side == Side::Allocation { Gap::of(self.cache, self.slot) } else { None }
    }

    /// The magazine seen.
    ///
    /// # Safety
    /// It was taken out of this word.
    unsafe fn adopt(self, seen: Seen) -> Option<Magazine> {
        // SAFETY: passed on.
        let magazine = unsafe { seen.adopt() }?;
        if let Some(gap) = self.gap() {
            gap.refund(magazine.len());
        }
        Some(magazine)
    }

    /// Takes out the magazine seen. None: there was none, the word has changed, or the thread has migrated.
    pub fn take(self, seen: Seen) -> Option<Magazine> {
        // SAFETY: the word no longer names it.
        if seen.names_one() && self.replace(seen, 0) { unsafe { self.adopt(seen) } } else { None }
    }

    /// Puts a magazine in place of the one seen, which it returns.
    ///
    /// # Errors
    /// As for `take`, or an allocation magazine goes beyond the next sample. The magazine comes back.
    pub fn swap(self, seen: Seen, magazine: Magazine) -> Result<Option<Magazine>, Magazine> {
        let (gap, len) = (self.gap(), magazine.len());
        if gap.is_some_and(|gap| !gap.reserve_all(len)) {
            return Err(magazine);
        }
        let new = self.side.word(self.cache.chunk(), magazine.view().top());
        if !self.replace(seen, new) {
            gap.into_iter().for_each(|gap| gap.refund(len));
            return Err(magazine);
        }
        magazine.into_top();
        // SAFETY: the word no longer names it.
        Ok(unsafe { self.adopt(seen) })
    }

    /// Puts a magazine into an empty word.
    ///
    /// # Errors
    /// The word is not empty, or as for [`Self::swap`]. The magazine comes back.
    pub fn put(self, magazine: Magazine) -> Result<(), Magazine> {
        self.swap(self.seen(0), magazine).map(|_| ())
    }

    // ---- words of other CPUs; see `drain` ----

    /// Takes the magazine out of a slot without threads.
    ///
    /// # Safety
    /// No thread is in the slot, nor comes meanwhile.
    pub unsafe fn take_quietly(self) -> Option<Magazine> {
        // SAFETY: passed on.
        unsafe { self.adopt(self.seen(slot::exchange(self.base(), self.slot, self.index(), 0))) }
    }

    /// Marks the word as draining.
    ///
    /// # Safety
    /// One thread at a time marks words, and it settles them.
    pub unsafe fn mark(self) -> Marked {
        // SAFETY: passed on.
        Marked { word: self, before: unsafe { slot::exchange(self.base(), self.slot, self.index(), DRAINING) } }
    }

    /// Frees a word whose marker vanished in a fork; the magazine is lost.
    ///
    /// # Safety
    /// No other thread takes magazines away.
    pub unsafe fn unmark(self) {
        // SAFETY: no other thread replaces a draining word.
        unsafe { slot::compare_exchange(self.base(), self.slot, self.index(), DRAINING, 0) };
    }
}

/// A word that is [`DRAINING`], and its old value.
#[derive(Clone, Copy, Debug)]
pub struct Marked {
    /// The word.
    pub word: SlotWord,
    before: usize,
}

impl Marked {
    /// Takes the old magazine out. None: the slot still has it.
    ///
    /// # Safety
    /// The slot was restarted since, and this is called once.
    pub unsafe fn take(self) -> Option<Magazine> {
        let Marked { word, before } = self;
        // SAFETY: if the word is still draining, the magazine is ours.
        unsafe {
            let is_kept = slot::compare_exchange(word.base(), word.slot, word.index(), DRAINING, 0);
            if is_kept { word.adopt(word.seen(before)) } else { None }
        }
    }

    /// Puts the old magazine back, unless the slot has replaced the word: no restart was granted.
    ///
    /// # Safety
    /// Call this once.
    pub unsafe fn put_back(self) {
        let Marked { word, before } = self;
        // SAFETY: only a word that is still draining changes, and then its magazine is ours to give.
        unsafe { slot::compare_exchange(word.base(), word.slot, word.index(), DRAINING, before) };
    }
}

/// Exchanges the slot's two magazines and pops an object. None: a word has changed, the allocation magazine has
/// objects, the free magazine has none or goes beyond the next sample, or the thread has migrated.
#[inline]
pub(super) fn change_places(cache: CacheRef, slot: u32, allocation: Seen, free: Seen) -> Option<*mut u8> {
    let (gap, len) = (Gap::of(cache, slot), free.view().map_or(0, View::len));
    if gap.is_some_and(|gap| !gap.reserve_all(len)) {
        return None;
    }
    // SAFETY: each slot has an area, and both words name magazines.
    let object = unsafe { slot::change_places(cache.chunk().base(), cache.index(), allocation.word, free.word) };
    if object.is_null() {
        gap.into_iter().for_each(|gap| gap.refund(len));
        return None;
    }
    Some(object)
}

/// Exchanges the slot's two magazines and pushes an object to the one that had room. False: a word has changed, the
/// free magazine goes beyond the next sample, or the thread has migrated.
///
/// # Safety
/// The allocation magazine seen has room, and the free magazine seen is full. As for [`push`].
pub(super) unsafe fn change_and_push(
    cache: CacheRef, slot: u32, allocation: Seen, free: Seen, object: *mut u8,
) -> bool {
    let [old, new] = [allocation, free].map(|seen| seen.view().map_or(0, View::len));
    let gap = Gap::of(cache, slot);
    if gap.is_some_and(|gap| !gap.reserve_all(new)) {
        return false;
    }
    // SAFETY: passed on; each slot has an area, and both words name magazines.
    let is_done =
        unsafe { slot::change_and_push(cache.chunk().base(), cache.index(), allocation.word, free.word, object) };
    if let Some(gap) = gap {
        gap.refund(if is_done { old } else { new });
    }
    is_done
}

/// Pushes an object to the slot's free magazine, as the fast path does. False: no space.
///
/// # Safety
/// The caller owns the object, which is one of the cache's, and gives it up if the answer is true.
pub(super) unsafe fn push(cache: CacheRef, object: *mut u8) -> bool {
    // SAFETY: passed on; each slot has an area.
    unsafe { slot::push(cache.chunk().base(), cache.index(), object) }
}
