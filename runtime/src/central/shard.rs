//! Shards: a slot's part of a cache, under one lock.
//!
//! The lock guards the spans that the slot owns, and for the tier above the slot's magazines in the depot. Sharding by
//! slot keeps a producer's and a consumer's lines apart. All-zero memory is a shard that holds nothing.
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
    /// Of which cache.
    pub cache: CacheRef,
    /// The slot that it belongs to.
    pub slot: u32,
}

impl Central {
    /// Locks a slot's shard; a signal handler that must not wait gets the nearest neighbour's that is free.
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

    /// Locks a slot's shard if nobody holds it.
    pub fn try_lock(&self, cache: CacheRef, slot: u32) -> Option<Held> {
        // (Made only when the lock is ours: dropping it releases the lock.)
        cache.lock(slot).try_acquire().then(|| Held { cache, slot })
    }

    /// Puts the shard in order after its holder vanished in a fork: the ring of spans and the spans themselves may be
    /// half-changed. The depot's magazines change by single stores.
    #[cold]
    fn repair(&self, held: &Held) {
        held.ring().forget();
        self.page_heap.for_each_span(|span| {
            // Spans of this cache that this slot owns are guarded by the lock that we hold.
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
