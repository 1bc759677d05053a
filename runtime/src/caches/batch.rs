//! Batches of objects that wait for a grace period: how they begin, and how their objects are freed.

use super::heap::Heap;
use crate::central::{MOST_POINTERS, size_class};
use crate::depot::{Batch, View};
use machine::{here, slot};

/// Whose depot gets the objects of a batch, and how many bytes of their class it keeps in any case.
#[derive(Clone, Copy, Debug)]
pub struct Home {
    /// The slot.
    pub slot: u32,
    /// Bytes that are never too much there.
    pub kept_bytes: usize,
}

impl Heap {
    /// An empty batch for objects of a class, or of none if that is 0: for at most so many. None: no memory.
    pub fn begin_batch(&self, class: usize, most: usize) -> Option<Batch> {
        let (cache, depot) = (self.class(class.max(1)), &self.cpu.depot);
        let capacity = if class == 0 { MOST_POINTERS } else { cache.shape().most() };
        let magazine = depot.find_empty(&depot.lock(cache, depot.slot_or_none(slot::current()), here!()))?;
        Some(Batch::new(magazine.sized(capacity.min(most).max(1))))
    }

    /// Bytes of the objects in a batch.
    pub fn batch_bytes(&self, batch: View<'_>) -> usize {
        let mut objects = batch.objects();
        let Some(first) = objects.next() else { return 0 };
        match self.class_at(first) {
            0 => self.bytes_of_special(first) + objects.map(|object| self.bytes_of_special(object)).sum::<usize>(),
            class => size_class::size(class) * batch.len(),
        }
    }

    /// Bytes of something that is of no size class.
    pub fn bytes_of_special(&self, object: *mut u8) -> usize {
        self.central().cache_at(object).map_or_else(
            || self.page_heap().large_pages(object).map_or(0, |pages| pages * crate::page_heap::PAGE),
            |cache| cache.object_bytes(),
        )
    }

    /// Frees the objects of a batch. If a slot is named as their home, its depot gets them; but not from a thread that
    /// has no slot.
    ///
    /// # Safety
    /// They are the caller's to give up.
    pub unsafe fn free_batch(&self, batch: Batch, home: Option<Home>) {
        let (depot, mut magazine) = (&self.cpu.depot, batch.into_magazine());
        let class = magazine.view().objects().next().map_or(0, |first| self.class_at(first));
        let (cache, current) = (self.class(class.max(1)), slot::current());
        let anywhere = || Home { slot: depot.slot_or_none(current), kept_bytes: 0 };
        let Home { slot, kept_bytes } = current.and(home).unwrap_or_else(anywhere);
        if class != 0 {
            return depot.push_keeping(cache, slot, magazine, kept_bytes);
        }
        while let Some(object) = magazine.pop() {
            // SAFETY: passed on.
            unsafe { self.free_any(object) };
        }
        depot.keep_empty(&depot.lock(cache, slot, here!()), magazine);
    }
}
