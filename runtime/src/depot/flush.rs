//! Pushes magazines to the depot, and flushes its surplus into the spans.

use super::magazine::Magazine;
use super::shard::{Held, Hints};
use super::tier::Depot;
use crate::central::{self, CacheRef, Returned};
use crate::percpu;
use machine::here;

/// Most magazines that a shard keeps: half of what its counter can hold.
const MOST_KEPT: usize = 1 << 15;

impl Depot {
    /// Pushes a magazine to the slot's shard. The shard's surplus goes back to the spans.
    pub fn push(&self, cache: CacheRef, slot: u32, magazine: Magazine) {
        self.push_keeping(cache, slot, magazine, 0);
    }

    /// The same, but the shard keeps at least `kept_bytes`.
    #[cold]
    pub fn push_keeping(&self, cache: CacheRef, slot: u32, magazine: Magazine, kept_bytes: usize) {
        percpu::enter();
        let own = self.lock(cache, slot, here!());
        if magazine.is_empty() {
            return self.keep_empty(&own, magazine);
        }
        self.central.count(cache, -(magazine.len() as isize));
        own.push_full(magazine);
        let (capacity, shape) = (self.central.capacity(cache, own.slot()), cache.shape());
        let kept = (kept_bytes / (capacity * shape.object_bytes())).min(MOST_KEPT);
        let limit = shape.depot_limit(self.central.miss_rate(cache, own.slot()), capacity);
        if own.full_count() <= limit.max(kept) {
            return;
        }
        let excess = own.pop_full();
        drop(own);
        if let Some(excess) = excess {
            self.flush(cache, slot, excess);
        }
    }

    /// Returns the objects of a magazine, counted as in the depot, to their spans, and keeps the magazine.
    pub fn flush(&self, cache: CacheRef, slot: u32, mut magazine: Magazine) {
        let mut held = None;
        while let Some(object) = magazine.pop() {
            let returned = self.central.put(cache, object, held);
            held = returned.held;
            if !returned.is_put {
                drop(held);
                magazine.push(object);
                self.central.count(cache, magazine.len() as isize);
                return self.defer(magazine);
            }
        }
        drop(held);
        self.keep_empty(&self.lock(cache, slot, here!()), magazine);
    }

    /// The same for a magazine of a slot.
    pub fn flush_out(&self, cache: CacheRef, slot: u32, magazine: Magazine) {
        self.central.count(cache, -(magazine.len() as isize));
        self.flush(cache, slot, magazine);
    }

    /// Returns a single object to its span.
    pub fn put_one(&self, cache: CacheRef, object: *mut u8) {
        match self.central.put(cache, object, None) {
            Returned { held: Some(held), is_put: false } => self.defer_one(Held(held), object),
            _ => self.central.count(cache, -1),
        }
    }

    /// The same for an object that does not count as outside of its span.
    pub(super) fn give_back(
        &self,
        cache: CacheRef,
        object: *mut u8,
        held: Option<central::Held>,
    ) -> Option<central::Held> {
        let Returned { held, is_put } = self.central.put(cache, object, held);
        if is_put {
            return held;
        }
        self.central.count(cache, 1);
        held.map(|held| self.defer_one(Held(held), object));
        None
    }

    fn defer_one(&self, shard: Held, object: *mut u8) {
        // Without memory for a magazine, the object is lost.
        if let Some(magazine) = self.find_empty(&shard) {
            let mut magazine = magazine.sized(1);
            magazine.push(object);
            self.defer(magazine);
        }
    }

    /// Drains a slot's shard into the spans; returns the number of magazines that had objects.
    pub fn drain_shard(&self, cache: CacheRef, slot: u32) -> usize {
        let (hints, mut magazines) = (Hints::of(cache, slot), 0);
        // Without the lock where nothing is, as in most shards; a magazine pushed meanwhile counts as later.
        while hints.topmost_full().is_some() {
            let full = self.lock(cache, slot, here!()).pop_full();
            let Some(full) = full else { break };
            self.flush(cache, slot, full);
            magazines += 1;
        }
        if hints.has_empty() {
            let empty = self.lock(cache, slot, here!()).take_empty();
            while let Some(magazine) = empty.pop() {
                self.keep_emptied(cache, slot, magazine);
            }
        }
        magazines
    }

    // ---- empty magazines ----

    /// An empty magazine: from the shard, from the spare ones, or new.
    pub fn find_empty(&self, shard: &Held) -> Option<Magazine> {
        shard.pop_empty().or_else(|| self.spare().pop(self.central.page_heap.locks())).or_else(|| {
            let memory = self.arena(shard.slot()).take(&self.central.page_heap.metadata)?;
            self.magazines().count();
            Some(Magazine::new(memory))
        })
    }

    /// Keeps an empty magazine in the shard, up to as many as full ones, else among the spare ones, which all caches
    /// share. A busy cache takes and returns magazines often, and would contend with all others there.
    pub fn keep_empty(&self, shard: &Held, magazine: Magazine) {
        let (cache, slot) = (shard.0.cache, shard.slot());
        let (rate, capacity) = (self.central.miss_rate(cache, slot), self.central.capacity(cache, slot));
        let is_too_much = shard.empty_count() >= cache.shape().depot_limit(rate, capacity).max(1);
        let rest = if is_too_much { self.keep_spare(magazine) } else { Err(magazine) };
        if let Err(magazine) = rest {
            shard.push_empty(magazine);
        }
    }

    /// Keeps a magazine whose objects go with their spans.
    pub fn keep_emptied(&self, cache: CacheRef, slot: u32, magazine: Magazine) {
        if let Err(magazine) = self.keep_spare(magazine.emptied()) {
            self.lock(cache, slot, here!()).push_empty(magazine);
        }
    }

    /// Keeps an empty magazine for all caches. Error: in a signal handler that must not wait.
    fn keep_spare(&self, magazine: Magazine) -> Result<(), Magazine> {
        self.spare().push(self.central.page_heap.locks(), magazine)
    }
}
