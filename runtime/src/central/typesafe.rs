//! Typesafe caches: their spans go to the page heap only after a grace period.
//!
//! What waits for that, `waiting` keeps for each cache. Here spans come and go.

use super::cache_ref::{CacheRef, NO_SLOT};
use super::cache_state::CacheState;
use super::shard::Held;
use super::tier::Central;
use super::waiting::Waiting;
use crate::page_heap::Span;
use machine::sync::{Ordering, Ordering::Relaxed};
use machine::{here, slot};

/// The owner of a span that is in no ring, as it waits or is about to be freed: no slot is, so that none takes it for
/// its own when it puts itself in order after a fork.
pub const NOBODY: u32 = u32::MAX;

/// Spans that are freed in one go, while no other thread can go over all caches.
const AT_ONCE: usize = 16;

/// What became of a span without objects in use.
pub(super) enum GivenUp {
    /// It is the caller's, to be freed.
    Ours,
    /// It waits; the caller says so, once it has no lock.
    Waits,
    /// It stays where it is.
    Not,
}

impl Central {
    /// Takes a span without objects in use out of the ring of the shard that is held.
    pub(super) fn give_up(&self, held: &Held, span: &Span) -> GivenUp {
        let owner = span.owner();
        held.ring().remove(span);
        span.set_owner(NOBODY);
        let typesafe = held.cache.state().filter(|state| state.home().typesafe);
        let Some(state) = typesafe.filter(|_| !(crate::UPCALLS.readers_are_absent)()) else { return GivenUp::Ours };
        if state.waiting.locked(self.page_heap.locks(), here!(), |lists| lists.push(span)).is_none() {
            span.set_owner(owner);
            held.ring().insert(span);
            return GivenUp::Not;
        }
        GivenUp::Waits
    }

    /// A span that waits, which is the owner's from now on: the cache needs one, or no thread can be looking any more.
    pub fn take_waiting(&self, cache: CacheRef, owner: u32) -> Option<&'static Span> {
        let waiting = &cache.state()?.waiting;
        if waiting.is_empty() {
            return None;
        }
        let span = waiting.locked(self.page_heap.locks(), here!(), Waiting::pop_any)??;
        // It is in no list any more, and none of its objects is in use, so nobody else looks who owns it.
        span.set_owner(owner);
        Some(span)
    }

    /// How many spans of a cache wait, at some moment.
    pub fn count_waiting(&self, state: &CacheState) -> usize {
        let count = |lists: &Waiting| lists.spans().count();
        let waiting = &state.waiting;
        if waiting.is_empty() { 0 } else { waiting.locked(self.page_heap.locks(), here!(), count).unwrap_or(0) }
    }

    /// From now on the cache is among those whose spans may wait.
    pub fn list_waiting(&self, state: &CacheState) {
        if state.is_listed.swap(true, Relaxed) {
            return;
        }
        let ours = (&raw const *state).cast_mut();
        let link = |first| {
            state.next_waiting.store(first, Relaxed);
            Some(ours)
        };
        // Release pairs with the acquire below: who finds the cache finds its link.
        let _ = self.first_waiting().fetch_update(Ordering::Release, Relaxed, link);
    }

    fn listed(&self) -> impl Iterator<Item = &'static CacheState> {
        // SAFETY: descriptions of caches are never unmapped; null ends the list.
        let at = |state: *mut CacheState| unsafe { state.as_ref() };
        let first = at(self.first_waiting().load(Ordering::Acquire));
        core::iter::successors(first, move |state| at(state.next_waiting.load(Relaxed)))
    }

    /// Whether any span waits.
    pub fn has_waiting(&self) -> bool {
        self.listed().any(|state| !state.waiting.is_empty())
    }

    /// Has what waits so far wait for the grace period whose number `start` says.
    pub fn seal_waiting(&self, start: fn() -> u64) {
        for state in self.listed().filter(|state| !state.waiting.is_empty()) {
            state.waiting.locked(self.page_heap.locks(), here!(), |lists| lists.seal(start));
        }
    }

    /// Frees some spans of each cache that have waited for long enough. `alone` runs a part of that while no other
    /// thread can go over all caches, and does not return before others have that do: so no cache ends meanwhile.
    pub fn free_waiting(&self, is_over: impl Fn(u64) -> bool, alone: impl Fn(&dyn Fn() -> usize) -> Option<usize>) {
        for state in self.listed() {
            let take = |lists: &Waiting| lists.pop_sealed(&is_over);
            let free = || {
                let slot = slot::current().unwrap_or(NO_SLOT);
                let spans = core::iter::from_fn(|| state.waiting.locked(self.page_heap.locks(), here!(), take)?);
                // SAFETY: taken out by us.
                spans.take(AT_ONCE).map(|span| unsafe { self.free_span(CacheRef::of(state), slot, span) }).count()
            };
            while alone(&free) == Some(AT_ONCE) {}
        }
    }
}
