//! Takes objects out of spans, and returns them.
//!
//! A shard gives objects of its own spans under its lock. A returned object goes to the span that it lies in, under the
//! lock of the owning shard, which finds misuse.

use super::cache_ref::CacheRef;
use super::shape::MANY_SLOTS;
use super::tier::{Central, Held};
use super::typesafe::{GivenUp, NOBODY};
use crate::misuse::{self, Call, Found, Object};
use crate::observe::page::Text;
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
    /// Its span, if the lock that is held owns it. Then [`Span::put_near`] may return the next object.
    pub span: Option<&'static Span>,
}

/// The error in a free.
enum Wrong {
    Found(Found),
    OtherCache,
}

impl Wrong {
    #[cold]
    fn tell(self, object: *mut u8) {
        match self {
            Wrong::Found(found) => misuse::report(found, Call::Free, object),
            Wrong::OtherCache => (crate::UPCALLS.report_mixed_caches)(object),
        }
    }
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
        let is_first = cache.ring(slot).seems_empty();
        let span = match if is_first { shape.first_granules() } else { shape.granules() } {
            1 => self.page_heap.page_list(slot).take(&self.page_heap),
            granules => self.page_heap.allocate_span(granules),
        }?;
        // Debug caches and hardened ones look at neighbours.
        let is_shuffled = cache.state().is_none();
        span.begin(cache.number(), shape.object_bytes(), slot, is_shuffled);
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

    /// The slot that owns the span of a freed object. None: the cache has no such object in use. It was reported, and
    /// the program goes on without the free.
    pub fn examine(&self, cache: CacheRef, object: *mut u8) -> Option<u32> {
        let used = self.span_of_freed(cache, object).and_then(|span| {
            let found = |misuse| Wrong::Found(self.found(span, object, misuse));
            span.index_of_used(object).map(|_| span.owner()).map_err(found)
        });
        used.map_err(|wrong| wrong.tell(object)).ok()
    }

    /// Reports a free of an object that is in a magazine already.
    #[cold]
    pub fn report_double_free(&self, object: *mut u8) {
        let of = self.page_heap.span_of(object).and_then(|span| self.object_in(span, object));
        misuse::report(Found::DoubleFree(of), Call::Free, object);
    }

    fn span_of_freed(&self, cache: CacheRef, object: *mut u8) -> Result<&'static Span, Wrong> {
        let span = self.page_heap.span_of(object).ok_or_else(|| Wrong::Found(self.page_heap.found_at(object)))?;
        if span.cache() == cache.number() { Ok(span) } else { Err(Wrong::OtherCache) }
    }

    fn found(&self, span: &Span, object: *mut u8, misuse: Misuse) -> Found {
        let of = self.object_in(span, object);
        if misuse == Misuse::DoubleFree { Found::DoubleFree(of) } else { Found::Interior(of) }
    }

    /// Returns an object to its span, under the owning shard's lock. `held` is the caller's lock of this cache.
    pub fn put(&self, cache: CacheRef, object: *mut u8, held: Option<Held>) -> Returned {
        let span = match self.span_of_freed(cache, object) {
            Ok(span) => span,
            Err(wrong) => {
                drop(held);
                return self.refuse(cache, || wrong.tell(object));
            }
        };
        let Some(held) = self.lock_owner(cache, span, held) else {
            let found = Found::DoubleFree(self.object_in(span, object));
            return self.refuse(cache, || misuse::report(found, Call::Free, object));
        };
        if held.slot != span.owner() {
            // In a signal handler that must not wait for the owner's lock.
            return Returned { held: Some(held), is_put: false, span: None };
        }
        let gave = span.available() > 0;
        if let Err(misuse) = span.put(object) {
            let found = self.found(span, object, misuse);
            drop(held);
            return self.refuse(cache, || misuse::report(found, Call::Free, object));
        }
        if !gave {
            held.ring().remove(span);
            held.ring().insert(span);
        }
        let held = self.give_up_unused(held, span);
        Returned { is_put: true, span: held.as_ref().map(|_| span), held }
    }

    /// Reports an address that cannot go back, without a lock. If the program goes on, the address is dropped. The
    /// caller counts it as back, so it is counted as one that never was outside.
    #[cold]
    fn refuse(&self, cache: CacheRef, report: impl FnOnce()) -> Returned {
        report();
        self.count(cache, 1);
        Returned { held: None, is_put: true, span: None }
    }

    /// The object of a span that an address lies in; none behind the last carved one.
    fn object_in(&self, span: &Span, address: *mut u8) -> Option<Object> {
        let cache = self.cache_at(address).and_then(CacheRef::state).map_or(Text::NONE, |state| Text::of(state.name()));
        Some(Object { start: span.object_at(address)?, bytes: span.object_bytes(), cache })
    }

    /// Tells how a pointer to a small object is wrong; none if an object begins there, in use or free.
    pub(crate) fn found_at(&self, address: *mut u8) -> Option<Found> {
        let Some(span) = self.page_heap.span_of(address) else { return Some(self.page_heap.found_at(address)) };
        let is_start = span.object_at(address) == Some(address);
        (!is_start).then(|| Found::Interior(self.object_in(span, address)))
    }

    /// Gives up a span that has no object in use. A warm cache keeps its last span, because a slot that frees and
    /// allocates around one span's worth would move it in and out. Returns the lock if it is still held.
    fn give_up_unused(&self, held: Held, span: &'static Span) -> Option<Held> {
        let (cache, slot) = (held.cache(), held.slot);
        // Of a middle class, only magazines keep objects, within their budget.
        let is_small = cache.shape().most() > 0;
        let may_stay = || is_small && slot::in_use() <= MANY_SLOTS && self.miss_rate(cache, slot) > 0;
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

    /// The lock of the shard that owns a span. None: all objects of the span are free.
    fn lock_owner(&self, cache: CacheRef, span: &Span, mut held: Option<Held>) -> Option<Held> {
        loop {
            let owner = span.owner();
            if owner == NOBODY {
                // The span waits for readers or is about to be freed.
                return None;
            }
            // `filter` drops, and so unlocks, another shard before this thread waits for the owner's.
            let shard = held.filter(|shard| shard.slot == owner);
            let shard = shard.unwrap_or_else(|| self.lock(cache, owner, here!()));
            // The owner changes only under the lock that we now hold. If it has changed before, try again.
            if span.owner() == owner {
                return Some(shard);
            }
            held = Some(shard);
        }
    }

    /// Gives up the unused spans of a slot's shard.
    pub fn free_unused_spans(&self, cache: CacheRef, slot: u32) {
        if !cache.ring(slot).seems_to_give() {
            return;
        }
        let held = self.lock(cache, slot, here!());
        let (slot, mut unused, mut waits) = (held.slot, null_mut(), false);
        for span in held.ring().giving_spans().filter(|span| span.is_unused()) {
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
        let carve = self.cache().state().and_then(|state| Some((state, state.home().carve_object?)));
        while taken < most
            && let Some(span) = self.ring().giving()
        {
            let places = span.places();
            while taken < most
                && (source != Source::Freed || span.has_freed())
                && let is_fresh = !span.has_freed()
                && let Some(object) = span.take(&places, |object| {
                    if let Some((state, carve)) = carve {
                        // SAFETY: the memory is the shard's.
                        unsafe { carve(state, object) };
                    }
                })
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
