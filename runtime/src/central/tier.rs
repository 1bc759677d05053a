//! The state of the central tier, operations on all of its caches, and the locks of their shards.
//!
//! A *shard* is a slot's part of a cache, under one lock. It guards the spans that the slot owns and, for the tier
//! above, the depot's magazines. Shards by slot keep a producer's and a consumer's cache lines apart. Zeroes are an
//! empty shard.
//!
//! Runs at the same time: any thread.

use super::cache_ref::{CacheRef, STRIDE};
use super::cache_state::CacheState;
use super::chunk::{Chunks, Descriptor};
use super::ring::Ring;
use super::shrinking::Shrinking;
use super::tally::Tally;
use crate::layout::Region;
use crate::page_heap::PageHeap;
use machine::sync::{Acquired, AtomicPtr, AtomicU32, Ordering, Site};
use machine::{here, slot};

/// The tier. Zeroes are one that has not begun.
#[derive(Debug)]
#[repr(C)]
pub struct Central {
    pub(super) cold: Cold,
    pub page_heap: PageHeap,
}

#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Cold {
    tally: Tally,
    chunks: Chunks,
    shrinking: Shrinking,
    /// The number at which the next part of a drain begins; see `part`.
    turn: AtomicU32,
    /// The first cache whose spans may wait for a grace period.
    pub(super) waiting: AtomicPtr<CacheState>,
}

/// A shard whose lock is held. 16 bytes; with a `CacheRef` they would be 24.
#[derive(Debug)]
pub struct Held {
    chunk: Region,
    id: u32,
    pub slot: u32,
}

impl Central {
    /// Initialises the tier while no other thread runs.
    pub fn begin(&mut self) {
        self.cold.tally = Tally::new();
    }

    /// How much the program holds.
    #[inline]
    pub fn tally(&self) -> &Tally {
        &self.cold.tally
    }

    /// Whether and how the process shrinks.
    #[inline]
    pub fn shrinking(&self) -> &Shrinking {
        &self.cold.shrinking
    }

    // ---- which caches there are ----

    /// One more than the highest number that a cache may have.
    pub(super) fn numbers(&self) -> u32 {
        (self.cold.chunks.count() + 1) * STRIDE
    }

    pub(super) fn turn(&self) -> &AtomicU32 {
        &self.cold.turn
    }

    /// The cache of a number, which need not exist.
    pub fn cache(&self, number: u32) -> CacheRef {
        let (chunk, id) = (number / STRIDE, (number % STRIDE) as usize);
        CacheRef::new(if chunk == 0 { Region::of_process() } else { self.cold.chunks.base(chunk) }, id)
    }

    /// The cache of the span at an address, if there is one.
    pub fn cache_at(&self, address: *mut u8) -> Option<CacheRef> {
        self.page_heap.span_of(address).map(|span| self.cache(span.cache()))
    }

    /// A description of kind `D`, with an id that is free. None: no memory.
    pub fn claim_id<D: Descriptor>(&self) -> Option<&'static CacheState> {
        self.cold.chunks.claim::<D>(&self.page_heap)
    }

    /// Takes back the id of a destroyed cache.
    pub fn give_id_back(&self, state: &CacheState) {
        self.cold.chunks.give_back(&self.page_heap, state);
    }

    // ---- how much of them a slot has ----

    /// The cache's miss rate in a slot, as `Load::rate`. Zero while the process shrinks.
    #[inline]
    pub fn miss_rate(&self, cache: CacheRef, slot: u32) -> u32 {
        if self.shrinking().is_on() { 0 } else { cache.load(slot).rate() }
    }

    /// Capacity of the slot's magazines, in pointers.
    #[inline]
    pub fn capacity(&self, cache: CacheRef, slot: u32) -> usize {
        let (shape, rate) = (cache.shape(), self.miss_rate(cache, slot));
        match cache.level(slot).load(Ordering::Relaxed) {
            level if level > 0 && rate > 0 => shape.at_level(level),
            _ => shape.batch(rate),
        }
    }

    /// Counts objects that left the depot or a span (positive), or came back (negative).
    pub fn count(&self, cache: CacheRef, objects: isize) {
        self.count_only(cache, objects);
        if let Some(account) = cache.account() {
            account.charge_anyway(cache.object_bytes() as isize * objects);
        }
    }

    /// Counts objects that left, up to the limit of the cache's account. Returns how many fit.
    pub fn count_within_limit(&self, cache: CacheRef, objects: usize) -> usize {
        let most = cache.account().map_or(objects, |account| {
            let bytes = cache.object_bytes();
            // By halves: the next request may use what this leaves of the limit.
            let tries = core::iter::successors(Some(objects), |&tried| (tried > 1).then_some(tried / 2));
            let charged = tries.filter(|&tried| tried > 0).find(|&tried| account.charge(bytes * tried));
            account.note_peaks();
            charged.unwrap_or(0)
        });
        self.count_only(cache, most as isize);
        most
    }

    fn count_only(&self, cache: CacheRef, objects: isize) {
        let bytes = cache.object_bytes() as isize * objects;
        match cache.state() {
            None => self.tally().count(cache.id(), objects, bytes),
            Some(state) => {
                state.count(objects);
                self.tally().count_bytes(bytes);
            }
        }
    }

    /// Objects outside of spans and depots; exact at rest.
    pub fn counted(&self, cache: CacheRef) -> u64 {
        cache.state().map_or_else(|| self.tally().objects(cache.id()), CacheState::counted)
    }

    // ---- the locks of shards ----

    /// Locks a slot's shard. A signal handler that must not wait gets the nearest free neighbour's.
    pub fn lock(&self, cache: CacheRef, slot: u32, site: Site) -> Held {
        cache.mark_used_in(slot);
        if !cache.lock(slot).try_in_order() {
            return self.lock_slowly(cache, slot, site);
        }
        cache.lock(slot).measure_hold(&self.page_heap.locks().shards, site);
        Held::new(cache, slot)
    }

    #[cold]
    fn lock_slowly(&self, cache: CacheRef, own: u32, site: Site) -> Held {
        let mut other = 0;
        loop {
            let slot = own ^ other;
            cache.mark_used_in(slot);
            match cache.lock(slot).acquire(&self.page_heap.locks().shards, site) {
                Acquired::WouldDeadlock => other = (other + 1) % slot::MAX as u32,
                acquired => {
                    if other != 0 {
                        slot::count_as_used(slot);
                    }
                    let held = Held::new(cache, slot);
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
        cache.lock(slot).try_acquire().then(|| {
            cache.lock(slot).measure_hold(&self.page_heap.locks().shards, here!());
            Held::new(cache, slot)
        })
    }

    /// Repairs the shard after its holder vanished in a fork. Ring and spans may be half-changed.
    #[cold]
    fn repair(&self, held: &Held) {
        held.ring().forget();
        self.page_heap.for_each_span(|span, number| {
            // The lock that we hold guards spans of this cache that this slot owns.
            if number == held.cache().number() && span.owner() == held.slot {
                span.recount();
                // SAFETY: as above.
                unsafe { self.page_heap.enter_class(span, held.cache().class_word()) };
                held.ring().insert(span);
            }
        });
    }
}

impl Held {
    #[inline]
    fn new(cache: CacheRef, slot: u32) -> Self {
        Held { chunk: cache.chunk(), id: cache.id() as u32, slot }
    }

    /// The cache that the shard belongs to.
    #[inline]
    pub fn cache(&self) -> CacheRef {
        CacheRef::new(self.chunk, self.id as usize)
    }

    pub fn ring(&self) -> &'static Ring {
        self.cache().ring(self.slot)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: we hold the lock.
        unsafe { self.cache().lock(self.slot).release() };
    }
}
