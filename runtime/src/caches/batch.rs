//! Batches of objects that wait for a grace period: making them, and freeing their objects.

use super::heap::Heap;
use crate::central::{MOST_POINTERS, size_class};
use crate::depot::{Batch, View};
use machine::{here, slot};

/// The depot that gets a batch's objects.
#[derive(Clone, Copy, Debug)]
pub struct Home {
    /// Its slot.
    pub slot: u32,
    /// Bytes of the class that the depot keeps at least.
    pub kept_bytes: usize,
}

impl Heap {
    /// An empty batch for at most `most` objects of a class; class 0: of no class. None: no memory.
    pub fn begin_batch(&self, class: usize, most: usize) -> Option<Batch> {
        let (cache, depot) = (self.class(class.max(1)), &self.cpu.depot);
        let capacity = if class == 0 { MOST_POINTERS } else { cache.shape().most() };
        let magazine = depot.find_empty(&depot.lock(cache, depot.slot_or_none(slot::current()), here!()))?;
        Some(Batch::new(magazine.sized(capacity.min(most).max(1))))
    }

    /// Bytes of a batch's objects.
    pub fn batch_bytes(&self, batch: View<'_>) -> usize {
        let mut objects = batch.objects();
        let Some(first) = objects.next() else { return 0 };
        match self.class_at(first) {
            0 => self.bytes_of_special(first) + objects.map(|object| self.bytes_of_special(object)).sum::<usize>(),
            class => size_class::size(class) * batch.len(),
        }
    }

    /// Bytes of an object of no size class.
    pub fn bytes_of_special(&self, object: *mut u8) -> usize {
        self.central().cache_at(object).map_or_else(
            || self.page_heap().large_pages(object).map_or(0, |pages| pages * crate::page_heap::PAGE),
            |cache| cache.object_bytes(),
        )
    }

    /// Frees a batch's objects, to the depot of `home`, if given and the thread has a slot.
    ///
    /// # Safety
    /// The caller owns the objects and gives them up.
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
