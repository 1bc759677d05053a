//! Gets magazines with objects out of the depot and out of spans.

use super::magazine::Magazine;
use super::shard::Hints;
use super::tier::Depot;
use crate::central::{CacheRef, Source};
use machine::here;

impl Depot {
    /// The topmost full magazine of the slot's shard.
    pub fn pop(&self, cache: CacheRef, slot: u32) -> Option<Magazine> {
        let magazine = self.lock(cache, slot, here!()).pop_full()?;
        self.leave(cache, slot, magazine)
    }

    /// Steals a full magazine from one of `others` that keeps more than `spared`, and gives an empty one in return.
    pub fn steal(
        &self,
        cache: CacheRef,
        slot: u32,
        mut others: impl Iterator<Item = u32>,
        spared: usize,
    ) -> Option<Magazine> {
        let magazine = others.find_map(|other| {
            // With a stale count we pass by, or look in vain.
            if Hints::of(cache, other).full_count() <= spared {
                return None;
            }
            self.try_lock(cache, other)?.pop_full().map(|magazine| (other, magazine))
        });
        let (other, magazine) = magazine?;
        let magazine = self.leave(cache, slot, magazine)?;
        let empty = self.lock(cache, slot, here!()).pop_empty();
        if let Some(empty) = empty {
            self.keep_empty(&self.lock(cache, other, here!()), empty);
        }
        Some(magazine)
    }

    /// A magazine of the given capacity, filled from spans of the slot's shard.
    pub fn fill(&self, cache: CacheRef, slot: u32, source: Source, capacity: usize) -> Option<Magazine> {
        let own = self.lock(cache, slot, here!());
        if !self.central.can_give(&own.0, source) {
            return None;
        }
        let mut filling = self.find_empty(&own)?.sized(capacity).filling();
        let fresh = own.0.remove_range(source, capacity, |object| filling.put(object));
        let magazine = filling.done();
        drop(own);
        if let Some(state) = cache.state() {
            let objects = magazine.view().objects().rev().enumerate();
            for (_, object) in objects.filter(|(index, _)| fresh & 1 << index != 0) {
                // SAFETY: the object is ours, and was never constructed.
                unsafe { state.begin_object(object) };
            }
        }
        self.leave(cache, slot, magazine)
    }

    /// The same, also from a span stolen from a near slot.
    pub fn fill_from_any_span(&self, cache: CacheRef, slot: u32, capacity: usize) -> Option<Magazine> {
        let fill = || self.fill(cache, slot, Source::Spans, capacity);
        fill().or_else(|| self.steal_span(cache, slot, cache.near(slot)).and_then(|()| fill()))
    }

    /// The same, also from a new span.
    pub fn fill_by_all_means(&self, cache: CacheRef, slot: u32, capacity: usize) -> Option<Magazine> {
        let new = || self.fill(cache, slot, Source::NewSpan, capacity);
        self.fill_from_any_span(cache, slot, capacity).or_else(new)
    }

    /// Moves a span with objects to give to the slot's shard; see [`crate::central::Central::steal_span`].
    pub fn steal_span(&self, cache: CacheRef, slot: u32, others: impl Iterator<Item = u32>) -> Option<()> {
        self.central.steal_span(&self.lock(cache, slot, here!()).0, others)
    }

    /// Counts a magazine's objects as having left the depot. Refused ones go back to their spans; none: all were.
    fn leave(&self, cache: CacheRef, slot: u32, mut magazine: Magazine) -> Option<Magazine> {
        let objects = magazine.len();
        let refused = objects - self.central.count_within_limit(cache, objects);
        let mut held = None;
        for object in (0..refused).filter_map(|_| magazine.pop()) {
            held = self.give_back(cache, object, held);
        }
        drop(held);
        if !magazine.is_empty() {
            return Some(magazine);
        }
        self.keep_empty(&self.lock(cache, slot, here!()), magazine);
        None
    }
}
