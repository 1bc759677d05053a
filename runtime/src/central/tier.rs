//! The state of the central tier, and operations on all of its caches.

use super::cache_ref::{CacheRef, STRIDE};
use super::cache_state::CacheState;
use super::chunk::{Chunks, Descriptor};
use super::shrinking::Shrinking;
use super::tally::Tally;
use crate::layout::{IDS, Region};
use crate::page_heap::PageHeap;
use machine::sync::{AtomicPtr, Ordering};

/// The tier. Zeroes are one that has not begun.
#[derive(Debug)]
#[repr(C)]
pub struct Central {
    cold: Cold,
    /// The tier below.
    pub page_heap: PageHeap,
}

#[derive(Debug)]
#[repr(C, align(64))]
struct Cold {
    tally: Tally,
    chunks: Chunks,
    shrinking: Shrinking,
    /// The first cache whose spans may wait for a grace period.
    waiting: AtomicPtr<CacheState>,
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

    /// The cache of a number, which need not exist.
    pub fn cache(&self, number: u32) -> CacheRef {
        let (chunk, id) = (number / STRIDE, (number % STRIDE) as usize);
        CacheRef::new(if chunk == 0 { Region::of_process() } else { self.cold.chunks.base(chunk) }, id)
    }

    /// All caches that exist, the size classes first. Without the drain lock, a cache may end while it is shown.
    pub fn caches(&self) -> impl Iterator<Item = CacheRef> {
        let numbers = |chunk: u32| chunk * STRIDE + 1..chunk * STRIDE + IDS as u32;
        let chunks = 0..=self.cold.chunks.count();
        chunks.flat_map(numbers).map(|number| self.cache(number)).filter(|cache| cache.exists())
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

    pub(super) fn first_waiting(&self) -> &AtomicPtr<CacheState> {
        &self.cold.waiting
    }

    /// The cache's miss rate in a slot, as [`super::Load::rate`]. Zero while the process shrinks.
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
}
