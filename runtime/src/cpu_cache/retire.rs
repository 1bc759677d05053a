//! Retiring: a slot has one magazine for each size class to which objects are given that are not free yet, as readers
//! may look at them.
//!
//! It is like the free magazine of a slot, and works by the same restartable operation; but its words lie in a chunk of
//! their own, of which nobody takes anything. Full ones become [`Batch`]es of the threads that exchange them, and
//! others of a thread that takes them away from all slots: by a kick, as in `drain`.
//!
//! Runs at the same time: any number of threads; one that takes magazines away.

use super::slot_word::{Side, SlotWord};
use super::tier::CpuCaches;
use crate::central::{CacheRef, ChunkHead, release_chunk, reserve_chunk, size_class};
use crate::depot::{Batch, View};
use crate::layout::{IDS, Region};
use crate::observe::Why;
use machine::{kick, slot};

/// Magazines that are taken away by one kick at most.
const AT_ONCE: usize = 64;

/// A chunk of such words.
#[derive(Clone, Copy, Debug)]
pub struct RetireSlots(Region);

impl RetireSlots {
    /// A chunk for magazines of retired objects; none: no memory, or nobody could take them away again.
    pub fn make() -> Option<Self> {
        if slot::mode() != slot::Mode::ConcurrencyId || kick::register().is_err() {
            return None;
        }
        let chunk = reserve_chunk()?;
        // SAFETY: the chunk is zeroed, and nobody else knows it; zeroes are a valid head.
        unsafe { &*chunk.base().cast::<ChunkHead>() }.begin(0);
        Some(RetireSlots(chunk))
    }

    /// Gives back a chunk that nobody has seen.
    pub fn unmake(self) {
        release_chunk(self.0);
    }

    /// By the base of its chunk; none if that is null.
    ///
    /// # Safety
    /// It is what [`base`](Self::base) said, or null.
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

    /// Whether anything waits in a slot.
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

    /// Retires an object into the slot's magazine for the class whose word the page map has; false if that is full, or
    /// if the object is of no size class.
    ///
    /// # Safety
    /// The caller owns the object, and gives it up if the answer is true.
    #[inline(always)]
    pub unsafe fn push(self, class_word: usize, object: *mut u8) -> bool {
        // SAFETY: passed on; every slot has an area, and class 0's word names no magazine.
        unsafe { slot::push(self.0.base(), class_word, object) }
    }

    /// Puts another magazine in the place of a slot's, if the calling thread is in the slot and its magazine full, or
    /// if it has none: returns the full one. Error: it is not so, and the other one comes back.
    pub fn exchange(self, slot: u32, class: usize, new: Batch) -> Result<Option<Batch>, Batch> {
        let word = self.word(slot, class);
        let seen = word.look();
        let is_due = !seen.is_draining() && seen.view().is_none_or(View::is_full);
        if !is_due {
            return Err(new);
        }
        word.swap(seen, new.into_magazine()).map(|old| old.map(Batch::new)).map_err(Batch::new)
    }

    /// Takes all magazines in a process with one thread, which is in the middle of none of the operations: in a fork
    /// child. What a thread was taking away is lost.
    pub fn collect(self, mut keep: impl FnMut(u32, Batch)) {
        for word in self.words() {
            // SAFETY: nobody else is there, and the calling thread is here.
            if let Some(magazine) = unsafe { word.take_quietly() } {
                keep(word.slot, Batch::new(magazine));
            }
        }
    }
}

impl CpuCaches {
    /// Takes all magazines of retired objects away from all slots; `keep` gets each with the slot that it was of. One
    /// thread at a time. False: the kernel refused, and some are where they were.
    pub fn take_retired(&self, slots: RetireSlots, mut keep: impl FnMut(u32, Batch)) -> bool {
        let words = slots.words().filter(|word| {
            let seen = word.look();
            if seen.is_draining() {
                // A thread was taking it away that vanished in a fork.
                // SAFETY: we are the only one who takes.
                unsafe { word.unmark() };
            }
            seen.view().is_some()
        });
        self.take_away::<AT_ONCE>(words, Why::Deferred, |word, magazine| keep(word.slot, Batch::new(magazine)))
    }
}
