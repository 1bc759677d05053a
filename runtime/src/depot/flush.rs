//! Pushing magazines to the depot, and what is too much there back into the spans.

use super::magazine::Magazine;
use super::shard::{Held, Hints};
use super::tier::Depot;
use crate::central::{self, CacheRef, Returned};
use crate::percpu;
use machine::here;

/// Magazines that are kept in a shard at most, whatever is asked for: a half of what it can count.
const MOST_KEPT: usize = 1 << 15;

impl Depot {
    /// Puts a magazine into the slot's shard; what is too much there goes back to the spans.
    pub fn push(&self, cache: CacheRef, slot: u32, magazine: Magazine) {
        self.push_keeping(cache, slot, magazine, 0);
    }

    /// The same, but so many bytes are never too much.
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

    /// Puts the objects of a magazine that is counted as in the depot back into their spans, and keeps the magazine.
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

    /// The same for a magazine that was a slot's.
    pub fn flush_out(&self, cache: CacheRef, slot: u32, magazine: Magazine) {
        self.central.count(cache, -(magazine.len() as isize));
        self.flush(cache, slot, magazine);
    }

    /// Puts a single object back into its span.
    pub fn put_one(&self, cache: CacheRef, object: *mut u8) {
        match self.central.put(cache, object, None) {
            Returned { held: Some(held), is_put: false } => self.defer_one(Held(held), object),
            _ => self.central.count(cache, -1),
        }
    }

    /// The same for one that is not counted as outside of its span.
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
        // Without memory for a magazine the object is lost.
        if let Some(magazine) = self.find_empty(&shard) {
            let mut magazine = magazine.sized(1);
            magazine.push(object);
            self.defer(magazine);
        }
    }

    /// Empties a slot's shard into the spans; returns how many magazines had objects.
    pub fn drain_shard(&self, cache: CacheRef, slot: u32) -> usize {
        let (hints, mut magazines) = (Hints::of(cache, slot), 0);
        // Without a lock where there is nothing, as in most caches of most slots: what comes meanwhile came later.
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

    /// An empty magazine: the shard's, or a spare one, or a new one.
    pub fn find_empty(&self, shard: &Held) -> Option<Magazine> {
        shard.pop_empty().or_else(|| self.spare().pop(self.central.page_heap.locks())).or_else(|| {
            let memory = self.arena(shard.slot()).take(&self.central.page_heap.metadata)?;
            self.magazines().count();
            Some(Magazine::new(memory))
        })
    }

    /// Keeps an empty magazine at the shard, as many as full ones at most; else with the spare ones, where every cache
    /// finds it. A busy cache takes some and gives them back again and again, and would meet all others there.
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

    /// Keeps an empty magazine where every cache finds it. Error: in a signal handler that must not wait.
    fn keep_spare(&self, magazine: Magazine) -> Result<(), Magazine> {
        self.spare().push(self.central.page_heap.locks(), magazine)
    }
}
