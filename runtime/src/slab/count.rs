//! Counting what the slab holds, for reports: without locks, exact at rest.

use super::{General, panel::Handle, shard};
use crate::page::{GRANULE, PageList};
use machine::slot;

impl General<'_> {
    /// Shows each span as (number of its cache, which for general ones is the class; bytes).
    pub fn count_spans(self, mut show: impl FnMut(usize, u64)) {
        self.slab.zone.for_each_span(|span| {
            // SAFETY: descriptions are never freed; a reading may be stale.
            let span = unsafe { &*span };
            show(span.cache as usize, span.granules as u64 * GRANULE as u64);
        });
    }

    /// Bytes of spans on page lists: runs in use as the zone sees it, but empty.
    pub fn listed_bytes(self) -> u64 {
        // SAFETY: the slots' page lists.
        let count = |slot| unsafe { PageList::count(shard::page_list(self.region, slot)) };
        (0..slot::in_use()).map(count).sum::<usize>() as u64 * GRANULE as u64
    }

    /// Shows each slot's share of each cache as (its number, objects in the slot's own arrays, objects in its depot, refills).
    pub fn count_cached(self, mut show: impl FnMut(usize, u64, u64, u64)) {
        for cache in self.caches() {
            for slot in cache.slots() {
                let array = |takes| Handle::array_of(cache.word(slot, takes), takes);
                let in_words: usize =
                    [true, false].into_iter().filter_map(array).map(|array| array.len(cache.panel)).sum();
                // SAFETY: a shard of the panel; at rest nobody changes it.
                let shard = unsafe { &*cache.shard(slot) };
                let in_depot: usize = shard.full.iter(cache.panel).map(|array| array.len(cache.panel)).sum();
                show(cache.number() as usize, in_words as u64, in_depot as u64, shard.refills as u64);
            }
        }
    }
}
