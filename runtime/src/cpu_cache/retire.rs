//! Retiring: each slot has one magazine per size class for objects that wait for readers.
//!
//! It works like a free magazine, by the same restartable operation. Its words lie in a chunk of their own, from which
//! nothing allocates. Exchanging a full one yields a [`Batch`]. To take the others, a thread kicks, as in `drain`.
//!
//! Runs at the same time: any number of threads; one that takes magazines away.

use super::slot_word::{Side, SlotWord};
use super::tier::CpuCaches;
use crate::central::{CacheRef, ChunkHead, release_chunk, reserve_chunk, size_class};
use crate::depot::{Batch, View};
use crate::layout::{IDS, Region};
use crate::observe::Why;
use machine::{kick, slot};

/// Most magazines taken by one kick.
const AT_ONCE: usize = 64;

/// The chunk of these words.
#[derive(Clone, Copy, Debug)]
pub struct RetireSlots(Region);

impl RetireSlots {
    /// Makes the chunk. None: no memory, or the machine cannot kick.
    pub fn make() -> Option<Self> {
        if slot::mode() != slot::Mode::ConcurrencyId || kick::register().is_err() {
            return None;
        }
        let chunk = reserve_chunk()?;
        // SAFETY: the chunk is zeroed and unknown to others; zeroes are a valid head.
        unsafe { &*chunk.base().cast::<ChunkHead>() }.begin(0);
        Some(RetireSlots(chunk))
    }

    /// Releases a chunk that was never published.
    pub fn unmake(self) {
        release_chunk(self.0);
    }

    /// The slots at a chunk's base; none if it is null.
    ///
    /// # Safety
    /// `base` comes from [`base`](Self::base), or is null.
    #[inline(always)]
    pub unsafe fn at(base: *mut ChunkHead) -> Option<Self> {
        // SAFETY: passed on.
        (!base.is_null()).then(|| RetireSlots(unsafe { Region::at(base.cast()) }))
    }

    /// The base of its chunk.
    pub fn base(self) -> *mut ChunkHead {
        self.0.base().cast()
    }

    fn word(self, slot: u32, class: usize) -> SlotWord {
        SlotWord::new(CacheRef::new(self.0, class), slot, Side::Free)
    }

    /// The words that may name magazines.
    fn words(self) -> impl Iterator<Item = SlotWord> {
        let of_slot = move |slot| (1..IDS).map(move |class| self.word(slot, class));
        CacheRef::new(self.0, 1).slots().flat_map(of_slot)
    }

    /// Whether an object waits in a slot.
    pub fn is_used(self) -> bool {
        self.words().any(|word| word.view().is_some())
    }

    /// Objects that wait in slots, and their bytes; exact at rest.
    pub fn count(self) -> (u64, u64) {
        let len = |word: SlotWord| {
            let objects = word.view().map_or(0, View::len);
            (objects as u64, (objects * size_class::size(word.cache.id())) as u64)
        };
        self.words().map(len).fold((0, 0), |(objects, bytes), (more, theirs)| (objects + more, bytes + theirs))
    }

    /// Retires an object of a class, given as the page map's word. False: the magazine is full, or there is no class.
    ///
    /// # Safety
    /// The caller owns the object, and gives it up if the answer is true.
    #[inline(always)]
    pub unsafe fn push(self, class_word: usize, object: *mut u8) -> bool {
        // SAFETY: passed on; each slot has an area, and class 0's word names no magazine.
        unsafe { slot::push(self.0.base(), class_word, object) }
    }

    /// Replaces the magazine of the calling thread's slot, if it is full or missing; returns the full one.
    ///
    /// # Errors
    /// The thread migrated, or the magazine has space. `new` comes back.
    pub fn exchange(self, slot: u32, class: usize, new: Batch) -> Result<Option<Batch>, Batch> {
        let word = self.word(slot, class);
        let seen = word.look();
        if seen.is_draining() || seen.view().is_some_and(|view| !view.is_full()) {
            return Err(new);
        }
        word.swap(seen, new.0).map(|old| old.map(Batch)).map_err(Batch)
    }

    /// Takes all magazines in a fork child, whose thread is in no operation. Draining ones are lost.
    pub fn collect(self, mut keep: impl FnMut(u32, Batch)) {
        for word in self.words() {
            // SAFETY: no other thread exists, and this one is here.
            if let Some(magazine) = unsafe { word.take_quietly() } {
                keep(word.slot, Batch(magazine));
            }
        }
    }
}

impl CpuCaches {
    /// Takes all slots' magazines; `keep` gets each with its slot. One thread at a time. False: the machine refused.
    pub fn take_retired(&self, slots: RetireSlots, mut keep: impl FnMut(u32, Batch)) -> bool {
        let words = slots.words().filter(|word| {
            let seen = word.look();
            if seen.is_draining() {
                // A thread that vanished in a fork was taking it away.
                // SAFETY: only this thread takes magazines.
                unsafe { word.unmark() };
            }
            seen.view().is_some()
        });
        self.take_away::<AT_ONCE>(words, Why::Deferred, |word, magazine| keep(word.slot, Batch(magazine)))
    }
}
