//! Refill: the allocation magazine is empty. Sources: the free magazine, the depot, other depots, and the spans.

use super::slot_word::{Side, SlotWord, change_places, pop};
use super::tier::CpuCaches;
use crate::central::{CacheRef, HIGHEST_RATE, Path, Source};
use crate::depot::Magazine;
use crate::page_heap::{GRANULE, PAGE};
use machine::slot;

/// Magazines that another slot keeps while our own spans can still give.
const FEW: usize = 4;

impl CpuCaches {
    /// Pops an object of the slot's allocation magazine.
    #[inline]
    pub fn take(&self, cache: CacheRef) -> Option<*mut u8> {
        pop(cache)
    }

    /// Exchanges the slot's two magazines and pops an object, if the free magazine is at least half full and both have
    /// full capacity. Programs that swing by a magazine live here, so it counts no miss and takes no lock.
    #[inline(always)]
    pub fn swap(&self, cache: CacheRef) -> Option<*mut u8> {
        let slot = slot::current_if_given()?;
        let [allocation, free] = Side::BOTH.map(|side| SlotWord::new(cache, slot, side).look());
        let (taken, given) = (allocation.view()?, free.view()?);
        let most = self.depot.central.capacity(cache, slot);
        let worth_it = self.depot.central.miss_rate(cache, slot) == HIGHEST_RATE
            && taken.capacity() == most
            && given.capacity() == most
            && given.room() <= most / 2
            && !self.is_polled();
        if worth_it { change_places(cache, allocation, free) } else { None }
    }

    /// An object by any way left after [`Self::swap`].
    #[cold]
    pub fn refill(&self, cache: CacheRef) -> Option<*mut u8> {
        self.put_deferred();
        let Some(slot) = slot::current() else { return self.refill_slotless(cache) };
        let mut magazine = self.take_free_magazine(cache, slot).or_else(|| self.find_magazine(cache, slot))?;
        let object = magazine.pop();
        self.install(cache, slot, magazine);
        object
    }

    fn refill_slotless(&self, cache: CacheRef) -> Option<*mut u8> {
        if let Some(object) = self.depot.take_slotless(cache) {
            return object;
        }
        let slot = self.depot.slot_or_none(None);
        let mut magazine = self.find_magazine(cache, slot)?;
        let object = magazine.pop();
        let kept_bytes = self.depot.central.capacity(cache, slot) * cache.object_bytes();
        self.depot.push_keeping(cache, slot, magazine, kept_bytes);
        object
    }

    /// Takes the slot's free magazine to allocate from, if it is at least half as full as a refill would be.
    fn take_free_magazine(&self, cache: CacheRef, slot: u32) -> Option<Magazine> {
        self.miss(cache, slot, Path::Refill);
        let word = SlotWord::new(cache, slot, Side::Free);
        let seen = word.look();
        let worth_it = seen.view()?.len() >= self.depot.central.capacity(cache, slot).div_ceil(2);
        if worth_it { word.take(seen) } else { None }
    }

    /// Installs a magazine as the allocation magazine if the current one is empty, and keeps the empty one.
    pub(super) fn install(&self, cache: CacheRef, slot: u32, magazine: Magazine) {
        let word = SlotWord::new(cache, slot, Side::Allocation);
        let seen = word.look();
        let is_replaceable = seen.view().is_none_or(|old| old.is_empty()) && !seen.is_draining();
        let old = match if is_replaceable { word.swap(seen, magazine) } else { Err(magazine) } {
            Ok(Some(old)) => old,
            Ok(None) => return,
            Err(magazine) => return self.depot.push(cache, slot, magazine),
        };
        if !old.is_empty() {
            // It left after we looked, and came back with objects under the same word.
            return self.depot.push(cache, slot, old);
        }
        let old = old.sized(self.depot.central.capacity(cache, slot));
        if let Err(old) = SlotWord::new(cache, slot, Side::Free).put(old) {
            self.depot.push(cache, slot, old);
        }
    }

    /// A magazine with objects, from the nearest place.
    pub(super) fn find_magazine(&self, cache: CacheRef, slot: u32) -> Option<Magazine> {
        if cache.account().is_some_and(|account| account.without_room(cache.object_bytes()).is_some()) {
            return None;
        }
        let (depot, capacity) = (&self.depot, || self.depot.central.capacity(cache, slot));
        depot
            .pop(cache, slot)
            .or_else(|| depot.steal(cache, slot, cache.near(slot), FEW))
            .or_else(|| depot.fill(cache, slot, Source::Freed, capacity()))
            .or_else(|| depot.steal(cache, slot, cache.near(slot), 0))
            .or_else(|| depot.fill_from_any_span(cache, slot, capacity()))
            .or_else(|| depot.steal(cache, slot, cache.distant(slot), 0))
            .or_else(|| {
                let stolen = depot.steal_span(cache, slot, cache.distant(slot));
                stolen.and_then(|()| depot.fill(cache, slot, Source::Spans, capacity()))
            })
            .or_else(|| self.fill_before_growth(cache, slot))
            .or_else(|| depot.fill(cache, slot, Source::NewSpan, capacity()))
    }

    /// If a new span would grow the heap: drains caches first, which may empty spans of other caches.
    fn fill_before_growth(&self, cache: CacheRef, slot: u32) -> Option<Magazine> {
        let pages = cache.shape().granules() as usize * GRANULE / PAGE;
        if !self.drain_before_growth(pages, GRANULE / PAGE) {
            return None;
        }
        self.depot.fill_from_any_span(cache, slot, self.depot.central.capacity(cache, slot))
    }
}
