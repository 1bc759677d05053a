//! Changes to a whole cache: setting how much slots keep, returning memory, and its end.
//!
//! Tuning replaces the magazines of all slots, in this order. It publishes the new shape, so that new magazines have
//! it. It takes the old magazines away as `drain` does, which restarts operations on other CPUs. Then it empties them.
//! In another order, an operation in flight could put an object into a magazine that has a new owner.
//!
//! At the end, no thread uses the cache. So this takes magazines without a restart, and spans without a look at their
//! objects, unless those have destructors. The drain lock keeps walks over all caches away. It is held for a part of
//! the cache at a time.

use super::errors::{Alive, Untunable};
use super::heap::Heap;
use super::object_cache::ObjectCache;
use crate::central::{CacheRef, Charged, NO_SLOT, NOBODY, Shape};
use crate::cpu_cache::{Side, SlotWord, Which};
use crate::depot::View;
use crate::observe::Why;
use crate::page_heap::Span;
use core::ptr::null_mut;
use machine::here;

/// Most spans that are taken out while the drain lock is held.
const SPANS: usize = 64;

impl Heap {
    pub(crate) fn tune(&self, cache: CacheRef, limit: usize, batch: usize) -> Result<(), Untunable> {
        let shape = cache.shape().tuned(limit, batch).ok_or(Untunable::Numbers)?;
        if !cache.exists() {
            // A size class serves it.
            return Ok(());
        }
        let replace = || {
            cache.set_shape(shape);
            self.cpu.drain_magazines(Which::One(cache), Why::Tune)
        };
        let drained = self.cpu.as_only_drainer(here!(), replace).ok_or(Untunable::Interrupting)?;
        if drained.refused { Err(Untunable::Refused) } else { Ok(()) }
    }

    pub(super) fn shrink(&self, cache: CacheRef) -> usize {
        if !cache.exists() {
            return 0;
        }
        self.cpu.as_only_drainer(here!(), || self.cpu.drain(Which::One(cache), Why::Shrink)).unwrap_or(0)
    }

    /// Objects of a cache that the program has; exact at rest.
    pub(super) fn alive(&self, cache: CacheRef) -> usize {
        (self.central().counted(cache) as usize).saturating_sub(in_words(cache))
    }

    /// Ends a cache if no object of it is alive.
    /// Safety: it is an object cache, which no other thread uses now, and no thread afterwards.
    pub(super) unsafe fn end(&self, cache: CacheRef) -> Result<(), Alive> {
        let alive = || {
            self.cpu.put_deferred_as_drainer();
            self.alive(cache)
        };
        match self.cpu.as_only_drainer(here!(), alive).ok_or(Alive::Interrupting)? {
            0 => self.end_in_parts(cache).ok_or(Alive::Interrupting),
            many => Err(Alive::Objects(many)),
        }
    }

    /// Ends a cache, even with live objects. The drain lock is held for a part at a time, however many spans there are.
    /// In between, the cache is one without magazines that no thread uses. None: a signal handler must not wait.
    fn end_in_parts(&self, cache: CacheRef) -> Option<()> {
        self.cpu.as_only_drainer(here!(), || cache.slots().for_each(|slot| self.take_magazines(cache, slot)))?;
        for slot in cache.slots() {
            while self.free_some_spans(cache, slot)? {}
        }
        self.cpu.as_only_drainer(here!(), || self.forget(cache))
    }

    /// Returns a slot's magazines of a cache, even with live objects.
    fn take_magazines(&self, cache: CacheRef, slot: u32) {
        let depot = &self.cpu.depot;
        for side in Side::BOTH {
            // SAFETY: no thread uses the cache.
            if let Some(magazine) = unsafe { SlotWord::new(cache, slot, side).take_quietly() } {
                depot.keep_emptied(cache, slot, magazine);
            }
        }
        let held = depot.lock(cache, slot, here!());
        let stacks = held.take_all();
        self.cpu.shrink_held(&held);
        cache.load(slot).forget();
        drop(held);
        stacks.iter().flat_map(|stack| stack.drain()).for_each(|magazine| depot.keep_emptied(cache, slot, magazine));
    }

    /// Frees some of a slot's spans, of a cache without magazines, even with live objects. Returns whether there may be
    /// more; none: a signal handler must not wait. Only while it takes them out, it keeps walks over the spans away.
    fn free_some_spans(&self, cache: CacheRef, slot: u32) -> Option<bool> {
        let take = || {
            let held = self.cpu.depot.lock(cache, slot, here!());
            let (mut first, mut count) = (null_mut(), 0);
            for span in held.0.ring().iter().take(SPANS) {
                held.0.ring().remove(span);
                // Spans in the ring belong to the shard that we hold.
                span.set_owner(NOBODY);
                span.set_next(first);
                (first, count) = (span.as_ptr(), count + 1);
            }
            (first, count == SPANS)
        };
        let (first, is_more) = self.cpu.as_only_drainer(here!(), take)?;
        // SAFETY: the spans are ours, and none of their objects is in use.
        unsafe { Span::list(first).for_each(|span| self.central().free_span(cache, slot, span)) };
        Some(is_more)
    }

    /// Forgets a cache without magazines and spans.
    fn forget(&self, cache: CacheRef) {
        let (central, depot) = (self.central(), &self.cpu.depot);
        let Some(object_cache) = ObjectCache::of(cache) else { return };
        while let Some(magazine) = object_cache.reserve.pop(self.locks()) {
            depot.keep_emptied(cache, NO_SLOT, magazine);
        }
        while let Some(span) = central.take_waiting(cache, NO_SLOT) {
            // SAFETY: the span is ours, and no reader looks at it.
            unsafe { central.free_span(cache, NO_SLOT, span) };
        }
        central.count(cache, -(central.counted(cache) as isize));
        cache.set_shape(Shape::NONE);
        object_cache.state.forget();
        object_cache.end_debug();
        central.give_id_back(&object_cache.state);
    }

    // ---- the caches of a group ----

    /// Links a table below its parent's, if it is in no tree; not in a signal handler that interrupted a drain.
    pub(crate) fn link_charged(&self, table: &Charged, parent: &Charged) {
        if table.is_loose() {
            // Of two threads that find it loose, one is first.
            self.cpu.as_only_drainer(here!(), || table.is_loose().then(|| table.link(parent)));
        }
    }

    /// Ends all caches of a table, even with live objects, and unlinks it. False: a signal handler must not wait.
    /// Safety: as for `Self::end`, for each cache; and no thread uses their objects.
    pub(crate) unsafe fn end_charged(&self, table: &Charged) -> bool {
        let leave = || {
            self.cpu.put_deferred_as_drainer();
            table.unlink();
        };
        let end_all = |()| table.caches().try_for_each(|cache| self.end_in_parts(cache));
        self.cpu.as_only_drainer(here!(), leave).and_then(end_all).is_some()
    }

    /// Empties the magazines of all caches of a table and below; returns their number. None: not now.
    pub(crate) fn drain_charged(&self, table: &Charged) -> Option<usize> {
        let (which, why) = (Which::Of(table), Why::Limit);
        self.cpu.as_only_drainer(here!(), || self.cpu.drain_magazines(which, why).magazines)
    }
}

/// Objects in the slots' magazines; exact at rest.
fn in_words(cache: CacheRef) -> usize {
    let words = cache.slots().flat_map(|slot| Side::BOTH.map(|side| SlotWord::new(cache, slot, side)));
    words.filter_map(SlotWord::view).map(View::len).sum()
}
