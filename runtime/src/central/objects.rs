//! Takes objects out of spans, and returns them.
//!
//! A shard gives objects of its own spans under its lock. A returned object goes to the span that it lies in, under the
//! lock of the owning shard, which finds misuse.

use super::cache_ref::CacheRef;
use super::shape::MANY_SLOTS;
use super::tier::{Central, Held};
use super::typesafe::{GivenUp, NOBODY};
use crate::misuse::{self, Found};
use crate::page_heap::{Misuse, Span};
use core::ptr::null_mut;
use machine::{here, slot};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Objects that were used before, and so are likely to be resident.
    Freed,
    /// Any objects of the shard's spans.
    Spans,
    /// Also objects of a new span.
    NewSpan,
}

/// The result of returning an object to its span.
#[derive(Debug)]
pub struct Returned {
    /// A lock that is still held and may serve for the next object.
    pub held: Option<Held>,
    /// Whether the object is back. If not, the caller still owns it: a signal handler must not wait.
    pub is_put: bool,
}

fn die(misuse: Misuse, object: *mut u8) -> ! {
    let found = match misuse {
        Misuse::DoubleFree => Found::DoubleFree,
        Misuse::NotAnObject => Found::Interior,
    };
    misuse::die(found, object)
}

impl Central {
    /// Whether the shard can give objects of a source. For [`Source::NewSpan`], this may insert a new span.
    pub fn can_give(&self, held: &Held, source: Source) -> bool {
        match held.ring().giving() {
            Some(first) => source != Source::Freed || first.has_freed(),
            None if source == Source::NewSpan => {
                let span = self.new_span(held.cache(), held.slot);
                span.inspect(|span| held.ring().insert(span)).is_some()
            }
            None => false,
        }
    }

    /// A new span of the cache for a slot's shard, in no ring yet. None: no memory.
    pub fn new_span(&self, cache: CacheRef, slot: u32) -> Option<&'static Span> {
        let shape = cache.shape();
        let span = match shape.granules() {
            1 => self.page_heap.page_list(slot).take(&self.page_heap),
            granules => self.page_heap.allocate_span(granules),
        }?;
        span.begin(cache.number(), shape.object_bytes(), slot);
        // SAFETY: the span is ours, and its map entry is set before any object of it is given.
        unsafe { self.page_heap.enter_class(span, cache.class_word()) };
        Some(span)
    }

    /// Moves a span with objects to give to the held shard: from one of the slots `others`, or from the waiting spans.
    pub fn steal_span(&self, own: &Held, others: impl Iterator<Item = u32>) -> Option<()> {
        let (cache, slot) = (own.cache(), own.slot);
        let of_others = others.filter(|&other| other != slot).find_map(|other| {
            if !cache.ring(other).seems_to_give() {
                return None;
            }
            let theirs = self.try_lock(cache, other)?;
            let span = theirs.ring().giving()?;
            theirs.ring().remove(span);
            // From now on, a thread that wants the span locks our shard.
            span.set_owner(slot);
            Some(span)
        });
        let span = of_others.or_else(|| self.take_waiting(cache, slot))?;
        own.ring().insert(span);
        Some(())
    }

    /// The span of an object that is freed to a cache. Ends the program if it is not the cache's.
    fn span_of_freed(&self, cache: CacheRef, object: *mut u8) -> &'static Span {
        let Some(span) = self.page_heap.span_of(object) else { misuse::die(Found::Foreign, object) };
        if span.cache() != cache.number() {
            (crate::UPCALLS.die_of_mixed_caches)(object);
        }
        span
    }

    /// The slot that owns the span of an object, which a thread frees. Ends the program if no object of the cache
    /// begins there, or if it is free in its span.
    pub fn examine(&self, cache: CacheRef, object: *mut u8) -> u32 {
        let span = self.span_of_freed(cache, object);
        span.index_of_used(object).unwrap_or_else(|misuse| die(misuse, object));
        span.owner()
    }

    /// Returns an object to its span, under the owning shard's lock. `held` is the caller's lock of this cache.
    pub fn put(&self, cache: CacheRef, object: *mut u8, held: Option<Held>) -> Returned {
        let span = self.span_of_freed(cache, object);
        let held = self.lock_owner(cache, span, object, held);
        if held.slot != span.owner() {
            // In a signal handler that must not wait for the owner's lock.
            return Returned { held: Some(held), is_put: false };
        }
        let gave = span.available() > 0;
        span.put(object).unwrap_or_else(|misuse| die(misuse, object));
        if !gave {
            held.ring().remove(span);
            held.ring().insert(span);
        }
        Returned { held: self.give_up_unused(held, span), is_put: true }
    }

    /// Gives up a span that has no object in use. A warm cache keeps its last span, because a slot that frees and
    /// allocates around one span's worth would move it in and out. Returns the lock if it is still held.
    fn give_up_unused(&self, held: Held, span: &'static Span) -> Option<Held> {
        let (cache, slot) = (held.cache(), held.slot);
        let may_stay = || slot::in_use() <= MANY_SLOTS && self.miss_rate(cache, slot) > 0;
        if !span.is_unused() || (may_stay() && !held.ring().another_gives(span)) {
            return Some(held);
        }
        match self.give_up(&held, span) {
            GivenUp::Not => return Some(held),
            GivenUp::Waits => {
                drop(held);
                (crate::UPCALLS.rouse_worker)();
            }
            GivenUp::Ours => {
                drop(held);
                // SAFETY: the span is unused, and ours.
                unsafe { self.free_span(cache, slot, span) };
            }
        }
        None
    }

    fn lock_owner(&self, cache: CacheRef, span: &Span, object: *mut u8, mut held: Option<Held>) -> Held {
        loop {
            let owner = span.owner();
            if owner == NOBODY {
                // The span waits for readers or is about to be freed, so all its objects are free.
                misuse::die(Found::DoubleFree, object);
            }
            // `filter` drops, and so unlocks, another shard before this thread waits for the owner's.
            let shard = held.filter(|shard| shard.slot == owner);
            let shard = shard.unwrap_or_else(|| self.lock(cache, owner, here!()));
            // The owner changes only under the lock that we now hold. If it has changed before, try again.
            if span.owner() == owner {
                return shard;
            }
            held = Some(shard);
        }
    }

    /// Gives up the unused spans of a slot's shard.
    pub fn free_unused_spans(&self, cache: CacheRef, slot: u32) {
        if cache.ring(slot).seems_empty() {
            return;
        }
        let held = self.lock(cache, slot, here!());
        let (slot, mut unused, mut waits) = (held.slot, null_mut(), false);
        for span in held.ring().iter().filter(|span| span.is_unused()) {
            match self.give_up(&held, span) {
                GivenUp::Ours => {
                    span.set_next(unused);
                    unused = span.as_ptr();
                }
                GivenUp::Waits => waits = true,
                GivenUp::Not => {}
            }
        }
        drop(held);
        if waits {
            (crate::UPCALLS.rouse_worker)();
        }
        // SAFETY: we own the spans that the shard gave up.
        unsafe { Span::list(unused).for_each(|span| self.free_span(cache, slot, span)) };
    }

    /// Frees a span. Needs no lock, because destructors run.
    ///
    /// # Safety
    /// The span is unused, and the caller took it out of its shard's ring.
    pub unsafe fn free_span(&self, cache: CacheRef, slot: u32, span: &Span) {
        if let Some(state) = cache.state() {
            // SAFETY: passed on; each carved object was begun.
            unsafe { state.end_objects(span.carved()) };
        }
        // SAFETY: passed on.
        unsafe {
            self.page_heap.enter_class(span, 0);
            span.leave_cache();
            match span.granules() {
                1 => self.page_heap.page_list(slot).put(span, &self.page_heap),
                _ => {
                    span.set_next(null_mut());
                    self.page_heap.free_spans(span.as_ptr());
                }
            }
        }
    }
}

impl Held {
    /// Calls `put` with objects of the shard's spans, `most` times at most. Bit n is set if the n-th is fresh.
    pub fn remove_range(&self, source: Source, most: usize, mut put: impl FnMut(*mut u8)) -> u128 {
        let (mut taken, mut fresh) = (0, 0_u128);
        while taken < most
            && let Some(span) = self.ring().giving()
        {
            while taken < most
                && (source != Source::Freed || span.has_freed())
                && let is_fresh = !span.has_freed()
                && let Some(object) = span.take()
            {
                fresh |= u128::from(is_fresh) << taken;
                put(object);
                taken += 1;
            }
            if span.available() == 0 {
                self.ring().first_is_used_up();
            } else if source == Source::Freed {
                break;
            }
        }
        fresh
    }
}
