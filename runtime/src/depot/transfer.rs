//! Transfers objects and magazines: out of the depot and out of spans, and back again.

use super::magazine::Magazine;
use super::spare::Reserve;
use super::tier::{Depot, Held, Hints, taker};
use crate::central::{self, CacheRef, NO_SLOT, Returned, Source};
use crate::page_heap::Span;
use crate::percpu;
use machine::sync::Ordering::Relaxed;
use machine::{here, slot};

/// Most magazines that a slot steals at once.
const STOLEN_AT_ONCE: usize = 8;
/// Most magazines that a shard keeps: half of what its counter can hold.
const MOST_KEPT: usize = 1 << 15;

impl Depot {
    // ---- out of the depot and of spans ----

    /// The topmost full magazine of the slot's shard, which gets an empty one in return, if there is one.
    pub fn pop(&self, cache: CacheRef, slot: u32, empty: &mut Option<Magazine>) -> Option<Magazine> {
        if taker(cache, slot).load(Relaxed) != 0 {
            taker(cache, slot).store(0, Relaxed);
        }
        let own = self.lock(cache, slot, here!());
        let magazine = own.pop_full()?;
        empty.take().into_iter().for_each(|empty| self.keep_empty(&own, empty));
        drop(own);
        magazine.fetch_objects();
        self.leave(cache, slot, magazine)
    }

    /// Steals a quarter of the full magazines that one of `others` keeps beyond `spared`, and gives empty ones in
    /// return. All but one go to the slot's shard. One at a time, the two slots would contend for the other's lock.
    pub fn steal(
        &self, cache: CacheRef, slot: u32, others: impl Iterator<Item = u32>, spared: usize,
    ) -> Option<Magazine> {
        // With a stale count we pass by, or look in vain.
        let mut others = others.filter(|&other| Hints::of(cache, other).full_count() > spared);
        let magazine = others.find_map(|other| self.steal_from(cache, slot, other, spared))?;
        magazine.fetch_objects();
        self.leave(cache, slot, magazine)
    }

    /// The same from one other slot; the magazine's objects still count as in the depot.
    #[inline(never)]
    fn steal_from(&self, cache: CacheRef, slot: u32, other: u32, spared: usize) -> Option<Magazine> {
        let mut stolen = [const { None }; STOLEN_AT_ONCE];
        // A held lock is waited for: its holder moves few objects, and a thread that passes by cuts a new span.
        let held = self.lock(cache, other, here!());
        let most = held.stacks().full.len().saturating_sub(spared).div_ceil(4).min(STOLEN_AT_ONCE);
        stolen[..most].iter_mut().for_each(|place| *place = held.pop_full());
        drop(held);
        let magazine = stolen[0].take()?;
        taker(cache, other).store(slot + 1, Relaxed);
        let own = self.lock(cache, slot, here!());
        // From here on, the empty ones that go back.
        for place in &mut stolen[..most] {
            place.take().into_iter().for_each(|full| own.push_full(full));
            *place = own.pop_empty();
        }
        drop(own);
        let held = self.lock(cache, other, here!());
        stolen.iter_mut().filter_map(Option::take).for_each(|empty| self.keep_empty(&held, empty));
        Some(magazine)
    }

    /// A magazine of the given capacity, filled from spans of the slot's shard.
    pub fn fill(&self, cache: CacheRef, slot: u32, source: Source, capacity: usize) -> Option<Magazine> {
        let own = self.lock(cache, slot, here!());
        if !self.central.can_give(&own.0, source) {
            return None;
        }
        let mut filling = self.find_empty(&own)?.sized(capacity).filling();
        let fresh = own.0.remove_range(source, capacity, |object| filling.put(object));
        let magazine = filling.done();
        drop(own);
        if let Some(state) = cache.state() {
            let objects = magazine.view().objects().rev().enumerate();
            for (_, object) in objects.filter(|(index, _)| fresh & 1 << index != 0) {
                // SAFETY: the object is ours, and was never constructed.
                unsafe { state.begin_object(object) };
            }
        }
        self.leave(cache, slot, magazine)
    }

    /// The same, also from a span stolen from a near slot.
    pub fn fill_from_any_span(&self, cache: CacheRef, slot: u32, capacity: usize) -> Option<Magazine> {
        let fill = || self.fill(cache, slot, Source::Spans, capacity);
        fill().or_else(|| self.steal_span(cache, slot, cache.near(slot)).and_then(|()| fill()))
    }

    /// The same, also from a new span.
    pub fn fill_by_all_means(&self, cache: CacheRef, slot: u32, capacity: usize) -> Option<Magazine> {
        let new = || self.fill(cache, slot, Source::NewSpan, capacity);
        self.fill_from_any_span(cache, slot, capacity).or_else(new)
    }

    /// Moves a span with objects to give to the slot's shard; see `crate::central::Central::steal_span`.
    pub fn steal_span(&self, cache: CacheRef, slot: u32, others: impl Iterator<Item = u32>) -> Option<()> {
        self.central.steal_span(&self.lock(cache, slot, here!()).0, others)
    }

    /// Counts a magazine's objects as having left the depot. Refused ones go back to their spans; none: all were.
    fn leave(&self, cache: CacheRef, slot: u32, mut magazine: Magazine) -> Option<Magazine> {
        let objects = magazine.len();
        let refused = objects - self.central.count_within_limit(cache, objects);
        let mut held = None;
        for object in (0..refused).filter_map(|_| magazine.pop()) {
            held = self.give_back(cache, object, held);
        }
        drop(held);
        if !magazine.is_empty() {
            return Some(magazine);
        }
        self.keep_empty(&self.lock(cache, slot, here!()), magazine);
        None
    }

    // ---- back to the depot and to spans ----

    /// Pushes a magazine to the slot's shard. The shard's surplus goes back to the spans.
    pub fn push(&self, cache: CacheRef, slot: u32, magazine: Magazine) {
        self.push_keeping(cache, slot, magazine, 0);
    }

    /// The same, but the shard keeps at least `kept_bytes`.
    #[cold]
    pub fn push_keeping(&self, cache: CacheRef, slot: u32, magazine: Magazine, kept_bytes: usize) {
        percpu::enter();
        if magazine.is_empty() {
            return self.keep_empty(&self.lock(cache, slot, here!()), magazine);
        }
        self.central.count(cache, -(magazine.len() as isize));
        self.keep_full(self.lock(cache, slot, here!()), magazine, kept_bytes);
    }

    /// Pushes a full magazine to the shard of the slot that takes this slot's magazines, or to its own, and returns an
    /// empty one from there: one lock for both. None: no memory.
    pub fn exchange(&self, cache: CacheRef, slot: u32, full: Magazine) -> Option<Magazine> {
        percpu::enter();
        self.central.count(cache, -(full.len() as isize));
        // A busy lock is not waited for: many consumers would queue at their producer's.
        let taken = taker(cache, slot).load(Relaxed).checked_sub(1).and_then(|taker| self.try_lock(cache, taker));
        let shard = taken.unwrap_or_else(|| self.lock(cache, slot, here!()));
        let empty = self.find_empty(&shard);
        self.keep_full(shard, full, 0);
        empty
    }

    /// Keeps a full magazine, which counts as in the depot, in a shard, and returns what is too much to the spans.
    fn keep_full(&self, own: Held, magazine: Magazine, kept_bytes: usize) {
        let (cache, slot) = (own.0.cache(), own.0.slot);
        own.push_full(magazine);
        let (capacity, shape) = (self.central.capacity(cache, slot), cache.shape());
        let kept = (kept_bytes / (capacity.max(1) * shape.object_bytes())).min(MOST_KEPT);
        let limit = shape.depot_limit(self.central.miss_rate(cache, slot), capacity);
        let full = own.stacks().full.len();
        if full <= kept || full <= limit && (full == 1 || shape.is_tuned() || own.is_within_budget()) {
            return;
        }
        let excess = own.pop_full();
        drop(own);
        if let Some(excess) = excess {
            self.flush(cache, slot, excess);
        }
    }

    /// Returns the objects of a magazine, counted as in the depot, to their spans, and keeps the magazine.
    pub fn flush(&self, cache: CacheRef, slot: u32, mut magazine: Magazine) {
        let (mut held, mut near) = (None, None::<&Span>);
        while let Some(object) = magazine.pop() {
            if near.is_some_and(|span| span.put_near(object)) {
                continue;
            }
            let returned = self.central.put(cache, object, held);
            (held, near) = (returned.held, returned.span);
            if !returned.is_put {
                drop(held);
                magazine.push(object);
                self.central.count(cache, magazine.len() as isize);
                return self.deferred.push(magazine);
            }
        }
        drop(held);
        self.keep_empty(&self.lock(cache, slot, here!()), magazine);
    }

    /// The same for a magazine of a slot.
    pub fn flush_out(&self, cache: CacheRef, slot: u32, magazine: Magazine) {
        self.central.count(cache, -(magazine.len() as isize));
        self.flush(cache, slot, magazine);
    }

    /// Returns a single object to its span.
    pub fn put_one(&self, cache: CacheRef, object: *mut u8) {
        match self.central.put(cache, object, None) {
            Returned { held: Some(held), is_put: false, .. } => self.defer_one(Held(held), object),
            _ => self.central.count(cache, -1),
        }
    }

    /// The same for an object that does not count as outside of its span.
    pub(super) fn give_back(
        &self, cache: CacheRef, object: *mut u8, held: Option<central::Held>,
    ) -> Option<central::Held> {
        let Returned { held, is_put, .. } = self.central.put(cache, object, held);
        if is_put {
            return held;
        }
        self.central.count(cache, 1);
        self.defer_one(Held(held?), object);
        None
    }

    fn defer_one(&self, shard: Held, object: *mut u8) {
        // Without memory for a magazine, the object is lost.
        if let Some(magazine) = self.find_empty(&shard) {
            let mut magazine = magazine.sized(1);
            magazine.push(object);
            self.deferred.push(magazine);
        }
    }

    /// Returns to the spans what a slot's shard did not need since the last call; returns the number of magazines.
    pub fn trim_shard(&self, cache: CacheRef, slot: u32) -> usize {
        // Without the lock, as in most shards there is nothing to return.
        if Hints::of(cache, slot).full_count() <= 1 {
            return 0;
        }
        let unneeded = self.lock(cache, slot, here!()).end_interval();
        let pop = || self.lock(cache, slot, here!()).pop_full();
        (0..unneeded).map_while(|_| pop()).map(|full| self.flush(cache, slot, full)).count()
    }

    /// Drains a slot's shard into the spans; returns the number of magazines that had objects.
    pub fn drain_shard(&self, cache: CacheRef, slot: u32) -> usize {
        let (hints, mut magazines) = (Hints::of(cache, slot), 0);
        // Without the lock where nothing is, as in most shards; a magazine pushed meanwhile counts as later.
        while hints.topmost_full().is_some() {
            let Some(full) = self.lock(cache, slot, here!()).pop_full() else { break };
            self.flush(cache, slot, full);
            magazines += 1;
        }
        if hints.has_empty() {
            let empty = self.lock(cache, slot, here!()).stacks().empty.take();
            empty.drain().for_each(|magazine| self.keep_emptied(cache, slot, magazine));
        }
        magazines
    }

    // ---- empty magazines ----

    /// An empty magazine: from the shard, from the spare ones, or new.
    pub fn find_empty(&self, shard: &Held) -> Option<Magazine> {
        shard.pop_empty().or_else(|| self.spare().pop(self.central.page_heap.locks())).or_else(|| {
            let memory = self.arena(shard.0.slot).take(&self.central.page_heap.metadata)?;
            self.magazines().count();
            Some(Magazine::new(memory))
        })
    }

    /// Keeps an empty magazine in the shard, up to as many as full ones, else among the spare ones, which all caches
    /// share. A busy cache takes and returns magazines often, and would contend with all others there.
    pub fn keep_empty(&self, shard: &Held, magazine: Magazine) {
        let (cache, slot) = (shard.0.cache(), shard.0.slot);
        let (rate, capacity) = (self.central.miss_rate(cache, slot), self.central.capacity(cache, slot));
        let is_too_much = shard.stacks().empty.len() >= cache.shape().depot_limit(rate, capacity).max(1);
        let rest = if is_too_much { self.keep_spare(magazine) } else { Err(magazine) };
        if let Err(magazine) = rest {
            shard.push_empty(magazine);
        }
    }

    /// Keeps a magazine whose objects go with their spans.
    pub fn keep_emptied(&self, cache: CacheRef, slot: u32, magazine: Magazine) {
        if let Err(magazine) = self.keep_spare(magazine.emptied()) {
            self.lock(cache, slot, here!()).push_empty(magazine);
        }
    }

    /// Keeps an empty magazine for all caches. Error: in a signal handler that must not wait.
    fn keep_spare(&self, magazine: Magazine) -> Result<(), Magazine> {
        self.spare().push(self.central.page_heap.locks(), magazine)
    }

    // ---- objects of threads without a slot, which all share one shard ----

    /// An object of the shared shard's topmost magazine. Some(none): a limit refuses it. None: there is no magazine.
    pub fn take_slotless(&self, cache: CacheRef) -> Option<Option<*mut u8>> {
        let own = self.lock(cache, self.slot_or_none(None), here!());
        let mut magazine = own.pop_full()?;
        let object = magazine.pop();
        match magazine.is_empty() {
            true => self.keep_empty(&own, magazine),
            false => own.push_full(magazine),
        }
        drop(own);
        let object = object?;
        if self.central.count_within_limit(cache, 1) == 1 {
            return Some(Some(object));
        }
        drop(self.give_back(cache, object, None));
        Some(None)
    }

    /// Frees an object to the same magazine. False: no space; the caller still owns the object.
    pub fn put_slotless(&self, cache: CacheRef, object: *mut u8) -> bool {
        let own = self.lock(cache, self.slot_or_none(None), here!());
        let Some(mut magazine) = own.pop_full() else { return false };
        let has_room = !magazine.is_full();
        if has_room {
            magazine.push(object);
        }
        own.push_full(magazine);
        drop(own);
        if has_room {
            self.central.count(cache, -1);
        }
        has_room
    }

    // ---- objects set aside ----

    /// Fills the reserve up to `objects`. False: no memory; the reserve keeps what it had.
    pub fn prefill(&self, cache: CacheRef, reserve: &Reserve, objects: usize) -> bool {
        let (slot, locks) = (self.slot_or_none(slot::current()), self.central.page_heap.locks());
        while reserve.objects(locks) < objects {
            let Some(magazine) = self.fill_by_all_means(cache, slot, cache.shape().most()) else { return false };
            // The tally counts the reserve as in the depot.
            self.central.count(cache, -(magazine.len() as isize));
            if let Err(magazine) = reserve.push(locks, magazine) {
                self.flush(cache, slot, magazine);
                return false;
            }
        }
        true
    }

    /// Takes an object from the reserve.
    pub fn take_reserved(&self, cache: CacheRef, reserve: &Reserve) -> Option<*mut u8> {
        let locks = self.central.page_heap.locks();
        let mut magazine = reserve.pop(locks)?;
        let object = magazine.pop();
        self.central.count(cache, 1);
        let rest = if magazine.is_empty() { Err(magazine) } else { reserve.push(locks, magazine) };
        if let Err(magazine) = rest {
            self.central.count(cache, magazine.len() as isize);
            self.push(cache, slot::current().unwrap_or(NO_SLOT), magazine);
        }
        object
    }

    /// Returns the reserve's objects to their spans.
    pub fn end_reserve(&self, cache: CacheRef, reserve: &Reserve) {
        while let Some(magazine) = reserve.pop(self.central.page_heap.locks()) {
            self.flush(cache, slot::current().unwrap_or(NO_SLOT), magazine);
        }
    }
}
