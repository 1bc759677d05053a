//! Counting what the slab holds, for reports: without locks, exact at rest.

use super::array::Array;
use super::{General, class, give_index, shard, take_index};
use crate::page::{GRANULE, PageList};
use machine::slot;
use machine::sync::{AtomicU32, Ordering};

/// How many spans a class has, and the most that it had.
#[derive(Debug, Default)]
#[repr(C)]
pub struct SpanCount {
    now: AtomicU32,
    peak: AtomicU32,
}

impl SpanCount {
    /// A span begins to serve the class.
    pub fn add_one(&self) {
        // Relaxed here and below: a statistic, ordered with nothing.
        let now = self.now.fetch_add(1, Ordering::Relaxed) + 1;
        if self.peak.load(Ordering::Relaxed) < now {
            self.peak.fetch_max(now, Ordering::Relaxed);
        }
    }

    /// A span no longer serves it.
    pub fn subtract_one(&self) {
        self.now.fetch_sub(1, Ordering::Relaxed);
    }

    /// Spans at some moment.
    pub fn now(&self) -> u64 {
        self.now.load(Ordering::Relaxed).into()
    }

    /// The most that there were at a time.
    pub fn peak(&self) -> u64 {
        self.peak.load(Ordering::Relaxed).into()
    }
}

impl General<'_> {
    /// Shows each span as (class, 1, bytes, objects outside of the span).
    pub fn count_classes(self, mut show: impl FnMut(usize, u64, u64, u64)) {
        self.slab.zone.for_each_span(|span| {
            // SAFETY: descriptions are never freed; a reading may be stale.
            let span = unsafe { &*span };
            let bytes = span.granules as u64 * GRANULE as u64;
            show(span.class as usize, 1, bytes, span.in_use() as u64);
        });
    }

    /// Bytes of spans on page lists: runs in use as the zone sees it, but empty.
    pub fn listed_bytes(self) -> u64 {
        // SAFETY: the slots' page lists.
        let count = |slot| unsafe { PageList::count(shard::page_list(self.region, slot)) };
        (0..slot::in_use()).map(count).sum::<usize>() as u64 * GRANULE as u64
    }

    /// Shows each slot's share of each class as (class, objects in arrays, refills).
    pub fn count_cached(self, mut show: impl FnMut(usize, u64, u64)) {
        for slot in 0..slot::in_use() {
            for class in 1..class::CLASSES {
                let take = Array::from_take_word(self.word(slot, take_index(class)));
                let give = Array::from_give_word(self.word(slot, give_index(class)));
                let in_words: usize = [take, give].into_iter().flatten().map(|array| array.len(self.region)).sum();
                // SAFETY: a shard of the region; at rest nobody changes it.
                let shard = unsafe { &*shard::of(self.region, slot, class) };
                let in_depot: usize = shard.full.iter(self.region).map(|array| array.len(self.region)).sum();
                show(class, (in_words + in_depot) as u64, shard.refills as u64);
            }
        }
    }
}
