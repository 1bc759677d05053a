//! Batches: objects that wait for something together before they are free.
//!
//! A batch is an array: its objects are of one general class, and when their time has come it goes to a depot as it is, without a look at any of
//! them. What is of no general class is gathered in batches of mixed objects, which are given back one by one.

use super::array::{Array, MOST_POINTERS, Stack};
use super::{General, class, misuse};
use crate::page::PAGE;
use machine::{here, slot};

/// An array that belongs to the holder of this value, as it is named from the runtime's region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Batch(Array);

impl Batch {
    /// What [`word`](Self::word) said; zero is none.
    #[inline]
    pub fn from_word(word: usize) -> Option<Self> {
        Array::from_take_word(word).map(Batch)
    }

    /// The batch and how full it is in one word.
    #[inline]
    pub fn word(self) -> usize {
        self.0.take_word()
    }

    pub(super) fn of(array: Array) -> Self {
        Batch(array)
    }

    pub(super) fn array(self) -> Array {
        self.0
    }

    /// Whether it has no room.
    #[inline]
    pub fn is_full(self) -> bool {
        self.0.is_full()
    }
}

/// Batches, the one that came last first. All-zero memory is none.
#[derive(Debug)]
#[repr(transparent)]
pub struct Batches(Stack);

impl Batches {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'a> General<'a> {
    /// An empty batch for objects of a class, or of none if that is 0: for at most so many. None: no memory.
    pub fn begin_batch(self, class: usize, most: usize) -> Option<Batch> {
        let cache = self.class(class.max(1));
        let capacity = if class == 0 { MOST_POINTERS } else { cache.shape().most() };
        let array = cache.find_empty(&mut cache.lock(cache.slot_for_spans(slot::current()), here!()))?;
        Some(Batch(array.sized(self.region, capacity.min(most).max(1))))
    }

    /// Puts an object into a batch that has room.
    #[inline]
    pub fn add_to_batch(self, mut batch: Batch, object: *mut u8) -> Batch {
        batch.0.push(self.region, object);
        batch
    }

    /// Objects in a batch.
    pub fn batch_len(self, batch: Batch) -> usize {
        batch.0.len(self.region)
    }

    /// Bytes of the objects in a batch.
    pub fn batch_bytes(self, batch: Batch) -> usize {
        let mut objects = batch.0.objects(self.region);
        let Some(first) = objects.next() else { return 0 };
        match self.class_at(first) {
            0 => self.bytes_of_other(first) + objects.map(|object| self.bytes_of_other(object)).sum::<usize>(),
            class => class::size(class) * self.batch_len(batch),
        }
    }

    /// Bytes of something that is of no general class.
    pub fn bytes_of_other(self, object: *mut u8) -> usize {
        let large = || self.slab.zone.large_pages(object).map_or(0, |pages| pages * PAGE);
        self.cache_at(object).map_or_else(large, |cache| cache.object_bytes())
    }

    /// Puts a batch on top of others.
    pub fn stack_batch(self, batches: &mut Batches, batch: Batch) {
        batches.0.push(self.region, batch.0);
    }

    /// Takes the topmost batch.
    pub fn unstack_batch(self, batches: &mut Batches) -> Option<Batch> {
        batches.0.pop(self.region).map(Batch)
    }

    /// All of them, the topmost first.
    pub fn batches(self, batches: &Batches) -> impl Iterator<Item = Batch> {
        batches.0.iter(self.region).map(Batch)
    }

    /// Frees the objects of a batch. If a slot is named as their home, its depot gets them, and keeps so many bytes of their class in any case; but not
    /// from a thread that has no slot.
    ///
    /// # Safety
    /// They are the caller's to give up, as for [`Self::free_one`].
    pub unsafe fn free_batch(self, mut batch: Batch, home: Option<(u32, usize)>) {
        let class = batch.0.objects(self.region).next().map_or(0, |first| self.class_at(first));
        let cache = self.class(class.max(1));
        let current = slot::current();
        let (slot, kept_bytes) = current.and(home).unwrap_or_else(|| (cache.slot_for_spans(current), 0));
        if class != 0 {
            return cache.stow_keeping(slot, batch.0, kept_bytes);
        }
        while let Some(object) = batch.0.pop(self.region) {
            // SAFETY: passed on.
            unsafe { self.free_one(object) };
        }
        cache.keep_empty(&mut cache.lock(slot, here!()), batch.0);
    }

    /// Frees an object, whatever it is.
    ///
    /// # Safety
    /// It is the caller's to give up.
    pub unsafe fn free_one(self, object: *mut u8) {
        // SAFETY: passed on.
        unsafe {
            match self.class_at(object) {
                0 => match self.cache_at(object) {
                    Some(cache) => cache.put_other(object, 0),
                    None => self.free_large_of_any(object),
                },
                class => self.class(class).put_again(object),
            }
        }
    }

    /// Takes a large block back, whoever is charged for it.
    ///
    /// # Safety
    /// It is the caller's to give up, if it is one.
    pub unsafe fn free_large_of_any(self, block: *mut u8) {
        self.demand_large(block);
        // SAFETY: passed on.
        unsafe {
            if let Some(forget) = self.slab.registry().rare.0.forgets_large() {
                forget(block);
            }
            self.free_large(block);
        }
    }

    /// Ends the program if no large block begins at an address.
    pub fn demand_large(self, block: *mut u8) {
        let zone = &self.slab.zone;
        if zone.large_pages(block).is_none() {
            misuse::die(if zone.holds(block) { misuse::Found::Interior } else { misuse::Found::Foreign }, block);
        }
    }
}
