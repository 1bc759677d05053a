//! Slot words: where a slot's magazines are named.
//!
//! A word is an offset from the base of its cache's chunk: of the allocation magazine, that of the topmost pointer; of
//! the free magazine, of the place behind it. So zeroed memory reads as an allocation magazine that is empty, and a
//! free magazine that is full. A slot word takes a magazine and gives one back; a look at it gives a [`View`], which
//! may be stale.

use crate::central::CacheRef;
use crate::depot::{Magazine, View};
use crate::layout::{HEADER, Region};
use machine::slot::{self, ARRAY, Stored};

/// A word whose magazine is being taken away by another CPU. It points before the chunk's base, to a magazine's worth
/// of memory that is never used: as an allocation magazine to a zero, so nobody pops; as a free magazine it is full, so
/// nobody pushes.
const DRAINING: usize = 0usize.wrapping_sub(ARRAY);

/// Which of a slot's two magazines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The one that allocations take from.
    Allocation,
    /// The one that frees give to.
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

/// One of the two words that a slot has for a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotWord {
    /// Of which cache.
    pub cache: CacheRef,
    /// Of which slot.
    pub slot: u32,
    /// Which of the two.
    pub side: Side,
}

/// What a word said when it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    word: usize,
    top: usize,
}

impl Seen {
    /// The magazine that it names, if it names one.
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

    /// Whether the word names nothing, and nobody is taking anything away.
    #[inline]
    pub fn is_zero(self) -> bool {
        self.word == 0
    }

    #[inline]
    fn names_one(self) -> bool {
        // Words below the header's end are offsets into it, which begins with zeroes.
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

    /// The raw word, for the restartable operation that exchanges both.
    #[inline]
    pub(super) fn word(self) -> usize {
        self.word
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

    /// What it says, at some moment.
    #[inline]
    pub fn look(self) -> Seen {
        // SAFETY: every slot has an area.
        self.seen(unsafe { slot::load(self.base(), self.slot, self.index()) })
    }

    /// The magazine that it names, at some moment.
    #[inline]
    pub fn view<'a>(self) -> Option<View<'a>> {
        self.look().view()
    }

    /// Replaces the word if the calling thread is in the slot, and the word still so.
    fn replace(self, seen: Seen, new: usize) -> bool {
        self.cache.mark_used_in(self.slot);
        // SAFETY: every slot has an area; `new` names a magazine that is the caller's, or none.
        unsafe { slot::compare_store(self.base(), self.slot, self.index(), seen.word, new) == Stored::Done }
    }

    /// Takes the magazine out that was seen there. None: there was none, or the word is not so any more, or the thread
    /// is elsewhere.
    pub fn take(self, seen: Seen) -> Option<Magazine> {
        // SAFETY: the word names it no more.
        if seen.names_one() && self.replace(seen, 0) { unsafe { seen.adopt() } } else { None }
    }

    /// Puts a magazine there in the place of what was seen, which comes out. Error: it is not so any more, or the
    /// thread is elsewhere, and the magazine comes back.
    pub fn swap(self, seen: Seen, magazine: Magazine) -> Result<Option<Magazine>, Magazine> {
        let new = self.side.word(self.cache.chunk(), magazine.view().top());
        if !self.replace(seen, new) {
            return Err(magazine);
        }
        magazine.into_top();
        // SAFETY: the word names it no more.
        Ok(unsafe { seen.adopt() })
    }

    /// Puts a magazine where none is.
    pub fn put(self, magazine: Magazine) -> Result<(), Magazine> {
        self.swap(self.seen(0), magazine).map(|_| ())
    }

    // ---- words of other CPUs: see `drain` ----

    /// Takes the magazine out of a slot that no thread is in.
    ///
    /// # Safety
    /// None is, nor comes meanwhile.
    pub unsafe fn take_quietly(self) -> Option<Magazine> {
        // SAFETY: passed on.
        unsafe { self.seen(slot::exchange(self.base(), self.slot, self.index(), 0)).adopt() }
    }

    /// Marks the word as draining.
    ///
    /// # Safety
    /// By one thread at a time, which settles it.
    pub unsafe fn mark(self) -> Marked {
        // SAFETY: passed on.
        Marked { word: self, before: unsafe { slot::exchange(self.base(), self.slot, self.index(), DRAINING) } }
    }

    /// Frees a word that a thread marked which vanished in a fork: what it was taking away is lost.
    ///
    /// # Safety
    /// No other thread takes magazines away.
    pub unsafe fn unmark(self) {
        // SAFETY: nobody replaces a draining word.
        unsafe { slot::compare_exchange(self.base(), self.slot, self.index(), DRAINING, 0) };
    }
}

/// A word that says [`DRAINING`], and what it said before.
#[derive(Clone, Copy, Debug)]
pub struct Marked {
    /// The word.
    pub word: SlotWord,
    before: usize,
}

impl Marked {
    /// After a restart of the slot, or none: takes what was there out, or puts it back. None: it is the slot's still.
    ///
    /// # Safety
    /// Once.
    pub unsafe fn settle(self, is_restarted: bool) -> Option<Magazine> {
        let Marked { word, before } = self;
        let next = if is_restarted { 0 } else { before };
        // SAFETY: the magazine is ours if the word is still draining, and goes back or becomes private.
        unsafe {
            let is_kept = slot::compare_exchange(word.base(), word.slot, word.index(), DRAINING, next);
            if is_kept && is_restarted { word.seen(before).adopt() } else { None }
        }
    }
}

/// Lets the two magazines of the slot change places and takes an object of the one that was given to. None: a word is
/// not as it was seen, the allocation magazine is not empty, or the free magazine is; or the thread is elsewhere.
pub(super) fn change_places(cache: CacheRef, allocation: Seen, free: Seen) -> Option<*mut u8> {
    // SAFETY: every slot has an area, and both words name magazines.
    let object = unsafe { slot::change_places(cache.chunk().base(), cache.index(), allocation.word(), free.word()) };
    (!object.is_null()).then_some(object)
}

/// Puts an object into the slot's free magazine, as the fast path does. False: there is no room.
///
/// # Safety
/// The caller owns the object, which is one of the cache's, and gives it up if the answer is true.
pub(super) unsafe fn push(cache: CacheRef, object: *mut u8) -> bool {
    // SAFETY: passed on; every slot has an area.
    unsafe { slot::push(cache.chunk().base(), cache.index(), object) }
}

/// An object of the slot's allocation magazine, as the fast path takes it.
#[inline]
pub(super) fn pop(cache: CacheRef) -> Option<*mut u8> {
    // SAFETY: a chunk in which every slot has an area.
    let object = unsafe { slot::pop(cache.chunk().base(), cache.index()) };
    (!object.is_null()).then_some(object)
}
