//! Giving objects back, beyond the fast path: from the program to the slot's arrays, the depot and the spans.
//!
//! An array that an object does not fit into is exchanged, and goes to the slot's depot; what is too much there goes back into the
//! spans, object by object, under the lock of the shard that owns the span. There misuse is found.

use super::array::{Array, DRAINING};
use super::limits::{MANY_SLOTS, batch, depot_limit};
use super::misuse::{self, Found};
use super::shard::{self, Held};
use super::{General, give_index, take_index};
use crate::page::{PageList, Span};
use crate::percpu;
use core::ptr::null_mut;
use machine::slot;
use machine::sync::Ordering;

impl General<'_> {
    /// Gives an object of a class back, by whatever way is left.
    ///
    /// # Safety
    /// The caller owns the object, and gives it up.
    #[cold]
    pub unsafe fn put_slow(self, class: usize, object: *mut u8) {
        let Some(slot) = slot::current() else {
            return self.put_one(class, object);
        };
        shard::count_visit(self.region, slot, class, false);
        let word = self.word(slot, give_index(class));
        let given = Array::from_give_word(word);
        if given.is_some_and(|given| !given.is_full()) {
            // SAFETY: passed on. The thread migrated since the fast path, or another one made room.
            if unsafe { self.put(object) } {
                return;
            }
            return self.put_one(class, object);
        }
        let Some(mut next) = self.find_roomy(slot, class, given.is_some()) else {
            return self.put_one(class, object);
        };
        next.push(self.region, object);
        if word == DRAINING || !self.replace(slot, give_index(class), word, next.give_word()) {
            return self.stow(slot, class, next);
        }
        let Some(full) = given else { return };
        match self.word(slot, take_index(class)) {
            0 => self.install_to_take(slot, class, full),
            _ => self.stow(slot, class, full),
        }
    }

    /// A private array with room: the slot's own take array if it is empty, or if there is another one to change places with and
    /// that is worth it; else an empty one from the shard, else a new one.
    fn find_roomy(self, slot: u32, class: usize, can_change: bool) -> Option<Array> {
        let word = self.word(slot, take_index(class));
        if let Some(array) = Array::from_take_word(word)
            && (array.is_empty(self.region) || (can_change && self.is_worth_changing(array, slot, class)))
            && self.replace(slot, take_index(class), word, 0)
        {
            return Some(if array.is_empty(self.region) { self.sized(array, slot, class) } else { array });
        }
        self.find_empty(&mut self.lock(slot, class)).map(|array| self.sized(array, slot, class))
    }

    /// Whether a take array has so much room that it should become the one to give to. A quarter: more would send arrays to the
    /// depot and back for programs that swing by little more than an array, less would cost too much per object. An
    /// array that is too small for the class's heat had better be retired.
    fn is_worth_changing(self, array: Array, slot: u32, class: usize) -> bool {
        let capacity = array.capacity(self.region);
        array.room() * 4 >= capacity && capacity >= batch(class, shard::heat(self.region, slot, class))
    }

    /// Puts a private array into the slot's depot; what is too much there goes back to the spans.
    #[cold]
    pub(super) fn stow(self, slot: u32, class: usize, array: Array) {
        percpu::enter();
        let mut own = self.lock(slot, class);
        if array.is_empty(self.region) {
            return self.keep_empty(&mut own, array);
        }
        self.count(class, -(array.len(self.region) as isize));
        own.push_full(self.region, array);
        if own.full_count as usize <= depot_limit(class, shard::heat(self.region, own.slot, class)) {
            return;
        }
        let excess = own.pop_full(self.region);
        drop(own);
        if let Some(excess) = excess {
            self.flush(slot, class, excess);
        }
    }

    /// Puts the objects of a private array that is counted as in the depot back into their spans, and keeps the array.
    pub(super) fn flush(self, slot: u32, class: usize, mut array: Array) {
        let mut held = None;
        let mut deferred = 0;
        while let Some(object) = array.pop(self.region) {
            let StillHeld(shard, is_put) = self.put_into_span(object, held);
            held = shard;
            deferred += isize::from(!is_put);
        }
        drop(held);
        self.keep_empty(&mut self.lock(slot, class), array);
        if deferred > 0 {
            self.count(class, deferred);
        }
    }

    /// The same for an array that was a slot's.
    pub(super) fn flush_out(self, slot: u32, class: usize, array: Array) {
        self.count(class, -(array.len(self.region) as isize));
        self.flush(slot, class, array);
    }

    /// Puts a single object back into its span.
    pub(super) fn put_one(self, class: usize, object: *mut u8) {
        let StillHeld(shard, is_put) = self.put_into_span(object, None);
        drop(shard);
        if is_put {
            self.count(class, -1);
        }
    }

    /// Puts an object back into its span, under the lock of the shard that owns the span; returns that shard, still held.
    pub(super) fn put_into_span(self, object: *mut u8, held: Option<Held>) -> StillHeld {
        let Some(span) = self.slab.zone.span_of(object) else { misuse::die(Found::Foreign, object) };
        // SAFETY: descriptions of spans are never freed, and the span is not either while the object lives.
        let class = unsafe { (*span).class } as usize;
        let mut held = self.lock_owner(span, class, held);
        // SAFETY: as above.
        if held.slot != unsafe { (*span).owner() } {
            // In a signal handler that must not wait for the owner.
            self.defer(object);
            return StillHeld(Some(held), false);
        }
        // SAFETY: we hold the lock of the shard that owns the span.
        unsafe {
            match (*span).put(object) {
                Ok(()) => {}
                Err(crate::page::Misuse::DoubleFree) => misuse::die(Found::DoubleFree, object),
                Err(crate::page::Misuse::NotAnObject) => misuse::die(Found::Interior, object),
            }
            held.link_span(span);
            // The last span stays while the class is warm: a slot that frees and allocates around one span's worth would
            // move it in and out.
            let others = !(*span).next.is_null() || !(*span).previous.is_null();
            let may_stay = slot::in_use() <= MANY_SLOTS && shard::heat(self.region, held.slot, class) > 0;
            if (*span).is_unused() && (others || !may_stay) {
                held.unlink_span(span);
                self.free_span(held.slot, span);
            }
        }
        StillHeld(Some(held), true)
    }

    /// Keeps an object that is free for the next who comes along a slow path.
    #[cold]
    fn defer(self, object: *mut u8) {
        let link = |head| {
            // SAFETY: the object is free, and ours until the exchange.
            unsafe { object.cast::<*mut u8>().write(head) };
            Some(object)
        };
        // Release pairs with the acquire in `put_deferred`: who sees the object sees its link, or does not see the object.
        let _ = self.slab.deferred.fetch_update(Ordering::Release, Ordering::Relaxed, link);
    }

    /// Gives back what signal handlers could not.
    #[inline]
    pub(super) fn put_deferred(self) {
        if !self.slab.deferred.load(Ordering::Relaxed).is_null() {
            let mut object = self.slab.deferred.swap(null_mut(), Ordering::Acquire);
            while !object.is_null() {
                // SAFETY: written by `defer`, and the object is ours since the exchange.
                let next = unsafe { object.cast::<*mut u8>().read() };
                self.put_one(self.class_at(object), object);
                object = next;
            }
        }
    }

    fn lock_owner(self, span: *mut Span, class: usize, mut held: Option<Held>) -> Held {
        loop {
            // SAFETY: descriptions of spans are never freed.
            let owner = unsafe { (*span).owner() };
            let shard = match held.take() {
                Some(shard) if shard.slot == owner => shard,
                other => {
                    drop(other);
                    self.lock(owner, class)
                }
            };
            // SAFETY: as above. The owner changes under the lock that we now hold, or changed before we had it.
            if unsafe { (*span).owner() } == owner {
                return shard;
            }
            held = Some(shard);
        }
    }

    /// # Safety
    /// The span is unused, on no list, and ours by the lock of its shard.
    pub(super) unsafe fn free_span(self, slot: u32, span: *mut Span) {
        let (zone, locks) = (&self.slab.zone, &self.slab.locks);
        // SAFETY: passed on.
        unsafe {
            zone.enter_class(span, 0);
            (*span).class = 0;
            match (*span).granules {
                1 => PageList::put(shard::page_list(self.region, slot), span, zone, locks),
                _ => zone.free_span(locks, span),
            }
        }
    }
}

/// A shard's lock that may be used for the next object too, and whether this one was put back: a signal handler may have to defer it.
pub(super) struct StillHeld(Option<Held>, bool);
