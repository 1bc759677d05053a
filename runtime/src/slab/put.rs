//! Giving objects back, beyond the fast path: from the program to the slot's arrays, the depot and the spans.
//!
//! An array that an object does not fit into is exchanged, and goes to the slot's depot; what is too much there goes back into the
//! spans, object by object, under the lock of the shard that owns the span. There misuse is found.

use super::array::Array;
use super::lingering::{GivenUp, NOBODY};
use super::misuse::{self, Found};
use super::panel::Handle;
use super::shape::MANY_SLOTS;
use super::shard::Held;
use super::take::WORTH_AN_ARRAY;
use super::{General, NO_SLOT};
use crate::page::{PageList, Span};
use crate::percpu;
use machine::sync::Ordering;
use machine::{here, slot};

/// Arrays that are kept in a shard at most, whatever is asked for: a half of what it can count.
const MOST_KEPT: usize = 1 << 15;

impl Handle<'_> {
    /// Gives an object back, by whatever way is left.
    ///
    /// # Safety
    /// The caller owns the object, which is one of the cache's, and gives it up.
    #[cold]
    pub unsafe fn put_slow(self, object: *mut u8) {
        let Some(slot) = slot::current() else {
            if !self.put_slotless(object) {
                self.put_one(object);
            }
            return;
        };
        self.general().heed();
        self.count_visit(slot, false);
        self.reclaim();
        let word = self.give_word(slot);
        let given = Array::from_give_word(word);
        if given.is_some_and(|given| !given.is_full()) {
            // SAFETY: passed on. The thread migrated since the fast path, or another one made room.
            if unsafe { slot::push(self.panel.base(), self.index(true), object) } {
                return;
            }
            return self.put_one(object);
        }
        let Some(mut next) = self.find_roomy(slot, given.is_some()) else {
            return self.put_one(object);
        };
        next.push(self.panel, object);
        if Self::is_drained(word) || !self.replace(slot, false, word, next.give_word()) {
            return self.stow(slot, next);
        }
        let Some(full) = given else { return };
        match self.take_word(slot) {
            0 => self.install_to_take(slot, full),
            _ => self.stow(slot, full),
        }
    }

    /// Gives an object back that no fast path has tried to.
    ///
    /// # Safety
    /// As for [`Self::put_slow`].
    pub unsafe fn put_again(self, object: *mut u8) {
        // SAFETY: passed on; every slot has an area.
        unsafe {
            if !slot::push(self.panel.base(), self.index(true), object) {
                self.put_slow(object);
            }
        }
    }

    /// Gives many objects back.
    ///
    /// # Safety
    /// As for [`Self::put_slow`], for each of them.
    pub(super) unsafe fn put_many(self, mut objects: &[*mut u8]) {
        while objects.len() >= WORTH_AN_ARRAY
            && let Some(slot) = slot::current()
        {
            self.count_visit(slot, false);
            let word = self.give_word(slot);
            let own = Array::from_give_word(word).filter(|array| !array.is_full());
            let own = own.filter(|_| self.replace(slot, false, word, 0));
            let empty = || Some(self.sized(self.find_empty(&mut self.lock(slot, here!()))?, slot));
            let Some(mut array) = own.or_else(empty) else { break };
            let (fitting, rest) = objects.split_at(objects.len().min(array.room()));
            fitting.iter().for_each(|&object| array.push(self.panel, object));
            objects = rest;
            if array.is_full() || !self.replace(slot, false, 0, array.give_word()) {
                self.stow(slot, array);
            }
        }
        for &object in objects {
            // SAFETY: passed on; every slot has an area.
            unsafe {
                if !slot::push(self.panel.base(), self.index(true), object) {
                    self.put_slow(object);
                }
            }
        }
    }

    /// A private array with room: the slot's own take array if it is empty, or if there is another one to change places with and
    /// that is worth it; else an empty one from the shard, else a new one.
    fn find_roomy(self, slot: u32, can_change: bool) -> Option<Array> {
        let word = self.take_word(slot);
        if let Some(array) = Array::from_take_word(word)
            && (array.is_empty(self.panel) || (can_change && self.is_worth_changing(array, slot)))
            && self.replace(slot, true, word, 0)
        {
            return Some(if array.is_empty(self.panel) { self.sized(array, slot) } else { array });
        }
        self.find_empty(&mut self.lock(slot, here!())).map(|array| self.sized(array, slot))
    }

    /// Whether a take array has so much room that it should become the one to give to. A quarter: more would send arrays to the
    /// depot and back for programs that swing by little more than an array, less would cost too much per object. An
    /// array that is too small for the cache's heat had better be retired.
    fn is_worth_changing(self, array: Array, slot: u32) -> bool {
        let capacity = array.capacity(self.panel);
        array.room() * 4 >= capacity && capacity >= self.capacity(slot)
    }

    /// Puts a private array into the slot's depot; what is too much there goes back to the spans.
    pub(super) fn stow(self, slot: u32, array: Array) {
        self.stow_keeping(slot, array, 0);
    }

    /// The same, but so many bytes are never too much.
    #[cold]
    pub(super) fn stow_keeping(self, slot: u32, array: Array, kept_bytes: usize) {
        percpu::enter();
        let mut own = self.lock(slot, here!());
        if array.is_empty(self.panel) {
            return self.keep_empty(&mut own, array);
        }
        self.count(-(array.len(self.panel) as isize));
        own.push_full(self.panel, array);
        let capacity = self.capacity(own.slot);
        let kept = (kept_bytes / (capacity * self.object_bytes())).min(MOST_KEPT);
        if own.full_count as usize <= self.shape().depot_limit(self.heat(own.slot), capacity).max(kept) {
            return;
        }
        let excess = own.pop_full(self.panel);
        drop(own);
        if let Some(excess) = excess {
            self.flush(slot, excess);
        }
    }

    /// Puts the objects of a private array that is counted as in the depot back into their spans, and keeps the array.
    pub(super) fn flush(self, slot: u32, mut array: Array) {
        let mut held = None;
        while let Some(object) = array.pop(self.panel) {
            let StillHeld(shard, is_put) = self.put_into_span(object, held);
            held = shard;
            if !is_put {
                array.push(self.panel, object);
                self.count(array.len(self.panel) as isize);
                return self.defer(array);
            }
        }
        drop(held);
        self.keep_empty(&mut self.lock(slot, here!()), array);
    }

    /// The same for an array that was a slot's.
    pub(super) fn flush_out(self, slot: u32, array: Array) {
        self.count(-(array.len(self.panel) as isize));
        self.flush(slot, array);
    }

    /// Puts a single object back into its span.
    pub(super) fn put_one(self, object: *mut u8) {
        let StillHeld(shard, is_put) = self.put_into_span(object, None);
        match shard.filter(|_| !is_put) {
            Some(shard) => self.defer_one(shard, object),
            None => self.count(-1),
        }
    }

    /// The same for one that is not counted as outside of its span.
    pub(super) fn give_back(self, object: *mut u8, held: Option<Held>) -> Option<Held> {
        let StillHeld(shard, is_put) = self.put_into_span(object, held);
        if is_put {
            return shard;
        }
        self.count(1);
        if let Some(shard) = shard {
            self.defer_one(shard, object);
        }
        None
    }

    fn defer_one(self, mut shard: Held, object: *mut u8) {
        // Without memory for an array the object is lost.
        if let Some(array) = self.find_empty(&mut shard) {
            let mut array = array.sized(self.panel, 1);
            array.push(self.panel, object);
            self.defer(array);
        }
    }

    /// Keeps a private array, whose objects count as outside of the depot, for the next who comes along a slow path: a signal handler
    /// must not wait for the shard that owns their span.
    #[cold]
    fn defer(self, array: Array) {
        let general = self.slab().region();
        let array = array.moved(self.panel, general);
        let link = |first| {
            // SAFETY: a word of our array until the exchange.
            unsafe { array.link(general).write(first) };
            Some(array.take_word())
        };
        // Release pairs with the acquire in `put_deferred`: who sees the array sees its link and its objects, or does not see the array.
        let _ = self.slab().deferred.fetch_update(Ordering::Release, Ordering::Relaxed, link);
    }

    /// Puts an object back into its span, under the lock of the shard that owns the span; returns that shard, still held.
    pub(super) fn put_into_span(self, object: *mut u8, held: Option<Held>) -> StillHeld {
        let Some(span) = self.slab().zone.span_of(object) else { misuse::die(Found::Foreign, object) };
        // SAFETY: descriptions of spans are never freed, and the span is not either while the object lives.
        if unsafe { (*span).cache } != self.number() {
            self.general().die_of_mixed_caches(object);
        }
        let mut held = self.lock_owner(span, object, held);
        // SAFETY: as above.
        if held.slot != unsafe { (*span).owner() } {
            // In a signal handler that must not wait for the owner.
            return StillHeld(Some(held), false);
        }
        // SAFETY: we hold the lock of the shard that owns the span.
        unsafe {
            let gave = (*span).available() > 0;
            match (*span).put(object) {
                Ok(()) => {}
                Err(crate::page::Misuse::DoubleFree) => misuse::die(Found::DoubleFree, object),
                Err(crate::page::Misuse::NotAnObject) => misuse::die(Found::Interior, object),
            }
            if !gave {
                held.spans.remove(span);
                held.spans.insert(span);
            }
            // The last span stays while the cache is warm: a slot that frees and allocates around one span's worth would
            // move it in and out.
            let may_stay = slot::in_use() <= MANY_SLOTS && self.heat(held.slot) > 0;
            if (*span).is_unused() && (!may_stay || held.spans.another_gives(span)) {
                let (slot, given_up) = (held.slot, self.give_up(&mut held, span));
                if matches!(given_up, GivenUp::Not) {
                    return StillHeld(Some(held), true);
                }
                drop(held);
                match given_up {
                    GivenUp::Lingers(readers) => (readers.rouse)(),
                    GivenUp::Ours | GivenUp::Not => self.free_span(slot, span),
                }
                return StillHeld(None, true);
            }
        }
        StillHeld(Some(held), true)
    }

    fn lock_owner(self, span: *mut Span, object: *mut u8, mut held: Option<Held>) -> Held {
        loop {
            // SAFETY: descriptions of spans are never freed.
            let owner = unsafe { (*span).owner() };
            if owner == NOBODY {
                // It lingers, or is about to be freed, and all of its objects are free.
                misuse::die(Found::DoubleFree, object);
            }
            let shard = match held.take() {
                Some(shard) if shard.slot == owner => shard,
                other => {
                    drop(other);
                    self.lock(owner, here!())
                }
            };
            // SAFETY: as above. The owner changes under the lock that we now hold, or changed before we had it.
            if unsafe { (*span).owner() } == owner {
                return shard;
            }
            held = Some(shard);
        }
    }

    /// Gives a span back, without a lock: destructors run.
    ///
    /// # Safety
    /// The span is unused, and ours since it was taken out of its shard's ring.
    pub(super) unsafe fn free_span(self, slot: u32, span: *mut Span) {
        if let Some(cache) = self.object_cache() {
            // SAFETY: passed on; what was carved was begun.
            unsafe { cache.end_objects((*span).carved()) };
        }
        let (zone, locks) = (&self.slab().zone, self.slab().locks());
        // SAFETY: passed on.
        unsafe {
            zone.enter_class(span, 0);
            (*span).cache = 0;
            match (*span).granules {
                1 => PageList::put(self.page_list(slot), span, zone, locks),
                _ => zone.free_span(locks, span),
            }
        }
    }
}

impl General<'_> {
    /// Gives back what signal handlers could not.
    #[inline]
    pub(super) fn put_deferred(self) {
        if self.slab.deferred.load(Ordering::Relaxed) != 0 {
            self.put_all_deferred();
        }
    }

    /// Only by whoever drains: so nobody has such an array in hands while its cache ends.
    #[cold]
    fn put_all_deferred(self) {
        self.try_as_only_drainer(Self::put_deferred_as_drainer);
    }

    /// The same under the drain lock.
    pub(super) fn put_deferred_as_drainer(self) {
        let mut next = Array::from_take_word(self.slab.deferred.swap(0, Ordering::Acquire));
        while let Some(array) = next {
            // SAFETY: written by `defer`; the array is ours since the exchange.
            next = Array::from_take_word(unsafe { array.link(self.region).read() });
            if let Some(object) = array.objects(self.region).next() {
                let cache = self.cache_at(object).expect("an object of ours lies in a span");
                cache.flush_out(slot::current().unwrap_or(NO_SLOT), array.moved(self.region, cache.panel));
            }
        }
    }
}

/// A shard's lock that may be used for the next object too, and whether this one was put back: a signal handler may have to defer it.
pub(super) struct StillHeld(pub(super) Option<Held>, bool);
