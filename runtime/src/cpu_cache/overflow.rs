//! Overflow: frees an object when the free magazine is full. The full magazine goes to the depot.

use super::slot_word::{Side, SlotWord, push};
use super::tier::CpuCaches;
use crate::central::{CacheRef, PINNED, Path};
use crate::depot::{Magazine, View};
use crate::page_heap::PAGE;
use machine::{here, slot};

impl CpuCaches {
    /// Frees an object by any way left.
    ///
    /// # Safety
    /// The caller owns the object, which is one of the cache's, and gives it up.
    #[cold]
    pub unsafe fn overflow(&self, cache: CacheRef, object: *mut u8) {
        let Some(slot) = slot::current() else {
            if !self.depot.put_slotless(cache, object) {
                self.depot.put_one(cache, object);
            }
            return;
        };
        self.miss(cache, slot, Path::Overflow);
        self.shrink();
        let word = SlotWord::new(cache, slot, Side::Free);
        let seen = word.look();
        let given = seen.view();
        if given.is_some_and(|given| !given.is_full()) {
            // SAFETY: passed on. The thread migrated since the fast path, or another one made space.
            if unsafe { push(cache, object) } {
                return;
            }
            return self.depot.put_one(cache, object);
        }
        let Some(mut next) = self.magazine_with_space(cache, slot, given) else {
            return self.depot.put_one(cache, object);
        };
        next.push(object);
        match if seen.is_draining() { Err(next) } else { word.swap(seen, next) } {
            Err(next) => self.depot.push(cache, slot, next),
            Ok(None) => {}
            Ok(Some(full)) if SlotWord::new(cache, slot, Side::Allocation).look().is_zero() => {
                self.install(cache, slot, full);
            }
            Ok(Some(full)) => self.depot.push(cache, slot, full),
        }
    }

    /// Frees an object that no fast path has tried.
    ///
    /// # Safety
    /// As for [`Self::overflow`].
    pub unsafe fn put(&self, cache: CacheRef, object: *mut u8) {
        // SAFETY: passed on.
        unsafe {
            if !push(cache, object) {
                self.overflow(cache, object);
            }
        }
    }

    /// A magazine with space: the allocation magazine, if empty or worth exchanging; else an empty one.
    fn magazine_with_space(&self, cache: CacheRef, slot: u32, given: Option<View<'_>>) -> Option<Magazine> {
        let capacity = || self.depot.central.capacity(cache, slot);
        let word = SlotWord::new(cache, slot, Side::Allocation);
        let seen = word.look();
        if let Some(view) = seen.view()
            && (view.is_empty() || (given.is_some() && is_worth_changing(view, capacity())))
            && let Some(magazine) = word.take(seen)
        {
            return Some(if magazine.is_empty() { magazine.sized(capacity()) } else { magazine });
        }
        let empty = self.depot.find_empty(&self.depot.lock(cache, slot, here!()));
        empty.map(|magazine| magazine.sized(capacity()))
    }

    /// Counts a miss of free towards shrinking, in a process without a background thread; see `central::shrinking`.
    #[inline]
    fn shrink(&self) {
        let heap = &self.depot.central.page_heap;
        let in_use = heap.counts.in_use.get() * PAGE as u64;
        if in_use > PINNED && heap.is_alone() {
            self.shrink_by(in_use);
        }
    }

    #[cold]
    fn shrink_by(&self, in_use: u64) {
        let central = &self.depot.central;
        let held = central.tally().bytes();
        if central.shrinking().count(held, in_use.saturating_sub(held)) {
            self.try_as_only_drainer(|| self.drain_at_hand());
        }
    }
}

/// Whether an allocation magazine has enough space to become the free magazine: a quarter. More would send magazines
/// through the depot when a program swings by little more than a magazine; less would cost too much per object. A
/// magazine smaller than the miss rate asks for should go to the depot.
fn is_worth_changing(view: View<'_>, wanted: usize) -> bool {
    let capacity = view.capacity();
    view.room() * 4 >= capacity && capacity >= wanted
}
