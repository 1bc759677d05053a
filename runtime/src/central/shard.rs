//! Shards: a slot's part of a cache, under one lock.
//!
//! The lock guards the spans that the slot owns and, for the tier above, the depot's magazines. Shards by slot keep a
//! producer's and a consumer's cache lines apart. All-zero memory is an empty shard.
//!
//! Runs at the same time: any thread, under the shard's lock.

use super::cache_ref::CacheRef;
use super::ring::Ring;
use super::tier::Central;
use machine::slot;
use machine::sync::{Acquired, Site};

/// A shard whose lock is held.
#[derive(Debug)]
pub struct Held {
    /// Its cache.
    pub cache: CacheRef,
    /// Its slot.
    pub slot: u32,
}

impl Central {
    /// Locks a slot's shard. A signal handler that must not wait gets the nearest free neighbour's.
    pub fn lock(&self, cache: CacheRef, slot: u32, site: Site) -> Held {
        let mut other = 0;
        loop {
            let slot = slot ^ other;
            cache.mark_used_in(slot);
            match cache.lock(slot).acquire(&self.page_heap.locks().shards, site) {
                Acquired::WouldDeadlock => other = (other + 1) % slot::MAX as u32,
                acquired => {
                    if other != 0 {
                        slot::count_as_used(slot);
                    }
                    let held = Held { cache, slot };
                    if acquired == Acquired::Abandoned {
                        self.repair(&held);
                    }
                    return held;
                }
            }
        }
    }

    /// Locks a slot's shard if it is free.
    pub fn try_lock(&self, cache: CacheRef, slot: u32) -> Option<Held> {
        // `then`, not `then_some`: dropping a `Held` releases the lock.
        cache.lock(slot).try_acquire().then(|| Held { cache, slot })
    }

    /// Repairs the shard after its holder vanished in a fork. Ring and spans may be half-changed.
    #[cold]
    fn repair(&self, held: &Held) {
        held.ring().forget();
        self.page_heap.for_each_span(|span| {
            // The lock that we hold guards spans of this cache that this slot owns.
            if span.cache() == held.cache.number() && span.owner() == held.slot {
                span.recount();
                // SAFETY: as above.
                unsafe { self.page_heap.enter_class(span, held.cache.class_word()) };
                held.ring().insert(span);
            }
        });
    }
}

impl Held {
    /// The spans that the slot owns.
    #[inline]
    pub fn ring(&self) -> &'static Ring {
        self.cache.ring(self.slot)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: we hold the lock.
        unsafe { self.cache.lock(self.slot).release() };
    }
}
