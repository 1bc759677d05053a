//! Typesafe caches: their spans return to the page heap only after a grace period. `waiting` keeps the waiting spans of
//! each cache; this file moves spans in and out.

use super::cache_ref::{CacheRef, NO_SLOT};
use super::cache_state::CacheState;
use super::tier::{Central, Held};
use super::waiting::Waiting;
use crate::page_heap::Span;
use machine::sync::{Ordering, Ordering::Relaxed};
use machine::{here, slot};

/// The owner of a span in no ring, which waits or is about to be freed. Repair after a fork never claims such a span.
pub const NOBODY: u32 = u32::MAX;

/// Spans freed in one step, during which no other thread can walk all caches.
const AT_ONCE: usize = 16;

pub(super) enum GivenUp {
    /// The caller owns the span and frees it.
    Ours,
    /// The span waits. The caller wakes the worker once it holds no lock.
    Waits,
    /// The span stays in its ring.
    Not,
}

impl Central {
    /// Removes a span without objects in use from the held shard's ring.
    pub(super) fn give_up(&self, held: &Held, span: &Span) -> GivenUp {
        let owner = span.owner();
        held.ring().remove(span);
        span.set_owner(NOBODY);
        let typesafe = held.cache().state().filter(|state| state.home().typesafe);
        let Some(state) = typesafe.filter(|_| !(crate::UPCALLS.readers_are_absent)()) else { return GivenUp::Ours };
        if state.waiting.locked(self.page_heap.locks(), here!(), |lists| lists.push(span)).is_none() {
            span.set_owner(owner);
            held.ring().insert(span);
            return GivenUp::Not;
        }
        GivenUp::Waits
    }

    /// Takes a waiting span for the shard of `owner`: the cache needs one, or the grace period is over.
    pub fn take_waiting(&self, cache: CacheRef, owner: u32) -> Option<&'static Span> {
        let waiting = &cache.state()?.waiting;
        if waiting.is_empty() {
            return None;
        }
        let span = waiting.locked(self.page_heap.locks(), here!(), Waiting::pop_any)??;
        // The span is in no list and none of its objects is in use, so no other thread reads the owner.
        span.set_owner(owner);
        Some(span)
    }

    pub fn for_each_waiting(&self, state: &CacheState, see: impl FnMut(&'static Span)) {
        let waiting = &state.waiting;
        if !waiting.is_empty() {
            waiting.locked(self.page_heap.locks(), here!(), |lists| lists.spans().for_each(see));
        }
    }

    /// Lists the cache among those whose spans may wait.
    pub fn list_waiting(&self, state: &CacheState) {
        if state.is_listed.swap(true, Relaxed) {
            return;
        }
        let ours = (&raw const *state).cast_mut();
        let link = |first| {
            state.next_waiting.store(first, Relaxed);
            Some(ours)
        };
        // Release pairs with the acquire in `listed`: a thread that finds the cache finds its link.
        let _ = self.cold.waiting.fetch_update(Ordering::Release, Relaxed, link);
    }

    fn listed(&self) -> impl Iterator<Item = &'static CacheState> {
        // SAFETY: states are never unmapped; null ends the list.
        let at = |state: *mut CacheState| unsafe { state.as_ref() };
        let first = at(self.cold.waiting.load(Ordering::Acquire));
        core::iter::successors(first, move |state| at(state.next_waiting.load(Relaxed)))
    }

    pub fn has_waiting(&self) -> bool {
        self.listed().any(|state| !state.waiting.is_empty())
    }

    /// Seals the spans that wait so far: they wait for the grace period whose number `start` returns.
    pub fn seal_waiting(&self, start: fn() -> u64) {
        for state in self.listed().filter(|state| !state.waiting.is_empty()) {
            state.waiting.locked(self.page_heap.locks(), here!(), |lists| lists.seal(start));
        }
    }

    /// Frees spans that have waited long enough. `alone` runs a step while no other thread can walk all caches. Before
    /// it returns, walks that had begun have ended, so no cache ends during a step.
    pub fn free_waiting(&self, is_over: impl Fn(u64) -> bool, alone: impl Fn(&dyn Fn() -> usize) -> Option<usize>) {
        for state in self.listed() {
            let take = |lists: &Waiting| lists.pop_sealed(&is_over);
            let free = || {
                let slot = slot::current().unwrap_or(NO_SLOT);
                let spans = core::iter::from_fn(|| state.waiting.locked(self.page_heap.locks(), here!(), take)?);
                // SAFETY: we took it out of the list.
                spans.take(AT_ONCE).map(|span| unsafe { self.free_span(CacheRef::of(state), slot, span) }).count()
            };
            while alone(&free) == Some(AT_ONCE) {}
        }
    }
}
