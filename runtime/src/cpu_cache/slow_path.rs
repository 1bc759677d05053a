//! The slow paths. Refill: the allocation magazine is empty. Overflow: the free magazine is full.

use super::gap::Gap;
use super::slot_word::{Seen, Side, SlotWord, change_and_push, change_places, push};
use super::tier::CpuCaches;
use crate::central::{CacheRef, HIGHEST_RATE, PINNED, Path, Source};
use crate::depot::{Magazine, View};
use crate::page_heap::{GRANULE, PAGE};
use machine::sync::Ordering::Relaxed;
use machine::{here, slot};

/// Magazines that another slot keeps while our own spans can still give.
const FEW: usize = 4;
/// Refills of a middle class without room, of which one looks at the clock.
const ONE_IN: u32 = 8;
/// From so many objects on, it pays to take a magazine out of its word.
const WORTH_A_MAGAZINE: usize = 8;

impl CpuCaches {
    // ---- refill ----

    /// Pops an object of the slot's allocation magazine.
    #[inline]
    pub fn take(&self, cache: CacheRef) -> Option<*mut u8> {
        // SAFETY: each slot has an area in the chunk.
        let object = unsafe { slot::pop(cache.chunk().base(), cache.index()) };
        (!object.is_null()).then_some(object)
    }

    /// The same, and has the processor fetch the next object: its first line, and the line at an offset.
    #[inline(always)]
    pub fn take_ahead(&self, cache: CacheRef, offset: usize) -> Option<*mut u8> {
        // SAFETY: as above.
        let object = unsafe { slot::pop_ahead(cache.chunk().base(), cache.index(), offset) };
        (!object.is_null()).then_some(object)
    }

    /// Exchanges the slot's two magazines and pops an object, if the free magazine is at least half full and both have
    /// full capacity. Programs that swing by a magazine live here, so it counts no miss and takes no lock.
    #[inline(always)]
    pub fn swap(&self, cache: CacheRef) -> Option<*mut u8> {
        let slot = slot::current_if_given()?;
        let [allocation, free] = Side::BOTH.map(|side| SlotWord::new(cache, slot, side).look());
        let (taken, given) = (allocation.view()?, free.view()?);
        let most = self.depot.central.capacity(cache, slot);
        let worth_it = self.depot.central.miss_rate(cache, slot) == HIGHEST_RATE
            && taken.capacity() == most
            && given.capacity() == most
            && given.room() <= most / 2
            && !self.is_polled();
        if worth_it { change_places(cache, slot, allocation, free) } else { None }
    }

    /// An object by any way left after [`Self::swap`]. None: no memory, or the slot's magazines have no room.
    #[cold]
    pub fn refill(&self, cache: CacheRef) -> Option<*mut u8> {
        self.put_deferred();
        let Some(slot) = slot::current() else { return self.refill_slotless(cache) };
        let mut magazine = match self.take_free_magazine(cache, slot) {
            Some(magazine) => magazine,
            None => match self.take_empty(cache, slot) {
                // It left after we looked, and came back under the same word.
                Some(magazine) if !magazine.is_empty() => magazine,
                mut empty => {
                    let found = self.find_magazine(cache, slot, &mut empty);
                    empty.into_iter().for_each(|empty| self.keep_for_frees(cache, slot, empty));
                    found?
                }
            },
        };
        let object = magazine.pop();
        self.install(cache, slot, magazine);
        object
    }

    /// The slot's allocation magazine, if it looks empty and will not be the free magazine, so that the depot may have
    /// it.
    fn take_empty(&self, cache: CacheRef, slot: u32) -> Option<Magazine> {
        if SlotWord::new(cache, slot, Side::Free).look().is_zero() && !self.examines(cache, slot) {
            return None;
        }
        let word = SlotWord::new(cache, slot, Side::Allocation);
        let seen = word.look();
        if seen.view()?.is_empty() { word.take(seen) } else { None }
    }

    /// An object of a middle class, by any way left after [`Self::swap`]. None: no memory, or the slot's magazines have
    /// no room. A slot that seldom needs a block of the class gets no room.
    pub fn refill_middle(&self, cache: CacheRef) -> Option<*mut u8> {
        let slot = slot::current()?;
        let has_room = cache.level(slot).load(Relaxed) > 0;
        if has_room || !cache.load(slot).counts_without_clock(ONE_IN) { self.refill(cache) } else { None }
    }

    fn refill_slotless(&self, cache: CacheRef) -> Option<*mut u8> {
        if let Some(object) = self.depot.take_slotless(cache) {
            return object;
        }
        let slot = self.depot.slot_or_none(None);
        let mut magazine = self.find_magazine(cache, slot, &mut None)?;
        let object = magazine.pop();
        let kept_bytes = self.depot.central.capacity(cache, slot) * cache.object_bytes();
        self.depot.push_keeping(cache, slot, magazine, kept_bytes);
        object
    }

    /// Takes the slot's free magazine to allocate from, if it is at least half as full as a refill would be.
    fn take_free_magazine(&self, cache: CacheRef, slot: u32) -> Option<Magazine> {
        self.miss(cache, slot, Path::Refill);
        let word = SlotWord::new(cache, slot, Side::Free);
        let seen = word.look();
        let worth_it = seen.view()?.len() >= self.depot.central.capacity(cache, slot).div_ceil(2).max(1);
        let taken = if worth_it { word.take(seen) } else { None };
        taken.map(|magazine| if self.examines(cache, slot) { self.examine_all(cache, magazine) } else { magazine })
    }

    /// Installs a magazine as the allocation magazine if the current one is empty, and keeps the empty one.
    pub(super) fn install(&self, cache: CacheRef, slot: u32, magazine: Magazine) {
        let capacity = self.depot.central.capacity(cache, slot);
        if capacity == 0 {
            return self.depot.push(cache, slot, magazine);
        }
        let word = SlotWord::new(cache, slot, Side::Allocation);
        let seen = word.look();
        let is_replaceable = seen.view().is_none_or(|old| old.is_empty()) && !seen.is_draining();
        let Some(magazine) = self.cut(cache, slot, magazine) else { return };
        let old = match if is_replaceable { word.swap(seen, magazine) } else { Err(magazine) } {
            Ok(Some(old)) => old,
            Ok(None) => return,
            Err(magazine) => return self.depot.push(cache, slot, magazine),
        };
        self.keep_for_frees(cache, slot, old);
    }

    /// The magazine with as many objects as come before the slot's next sample; the others go to the depot. None: all.
    fn cut(&self, cache: CacheRef, slot: u32, mut magazine: Magazine) -> Option<Magazine> {
        let Some(gap) = Gap::of(cache, slot) else { return Some(magazine) };
        let fitting = gap.fitting(magazine.len());
        if fitting == magazine.len() {
            return Some(magazine);
        }
        let empty = || self.depot.find_empty(&self.depot.lock(cache, slot, here!()));
        let mut part = (fitting > 0).then(empty).flatten().map(|part| part.sized(magazine.view().capacity()));
        if let Some(part) = &mut part {
            (0..fitting).filter_map(|_| magazine.pop()).for_each(|object| part.push(object));
        }
        self.depot.push(cache, slot, magazine);
        part
    }

    /// Makes an empty magazine the slot's free magazine if it has none, and else pushes it to the depot.
    fn keep_for_frees(&self, cache: CacheRef, slot: u32, magazine: Magazine) {
        if !magazine.is_empty() || self.examines(cache, slot) {
            // One with objects left after we looked, and came back under the same word.
            return self.depot.push(cache, slot, magazine);
        }
        let magazine = magazine.sized(self.depot.central.capacity(cache, slot));
        if let Err(magazine) = SlotWord::new(cache, slot, Side::Free).put(magazine) {
            self.depot.push(cache, slot, magazine);
        }
    }

    /// A magazine with objects, from the nearest place. The depot may take the empty one.
    pub(super) fn find_magazine(&self, cache: CacheRef, slot: u32, empty: &mut Option<Magazine>) -> Option<Magazine> {
        if self.depot.central.capacity(cache, slot) == 0 {
            return None;
        }
        if cache.account().is_some_and(|account| account.without_room(cache.object_bytes()).is_some()) {
            return None;
        }
        let (depot, capacity) = (&self.depot, || self.depot.central.capacity(cache, slot));
        depot
            .pop(cache, slot, empty)
            .or_else(|| depot.steal(cache, slot, cache.near(slot), FEW))
            .or_else(|| depot.fill(cache, slot, Source::Freed, capacity()))
            .or_else(|| depot.steal(cache, slot, cache.near(slot), 0))
            .or_else(|| depot.fill_from_any_span(cache, slot, capacity()))
            .or_else(|| depot.steal(cache, slot, cache.distant(slot), 0))
            .or_else(|| {
                let stolen = depot.steal_span(cache, slot, cache.distant(slot));
                stolen.and_then(|()| depot.fill(cache, slot, Source::Spans, capacity()))
            })
            .or_else(|| self.fill_before_growth(cache, slot))
            .or_else(|| {
                let pages = cache.shape().granules() as usize * GRANULE / PAGE;
                let fill = || depot.fill(cache, slot, Source::NewSpan, capacity());
                depot.central.page_heap.within_limit(pages, fill)
            })
    }

    /// If a new span would grow the heap: drains caches first, which may empty spans of other caches.
    fn fill_before_growth(&self, cache: CacheRef, slot: u32) -> Option<Magazine> {
        let pages = cache.shape().granules() as usize * GRANULE / PAGE;
        if !self.drain_before_growth(pages, GRANULE / PAGE) {
            return None;
        }
        self.depot.fill_from_any_span(cache, slot, self.depot.central.capacity(cache, slot))
    }

    // ---- overflow ----

    /// Frees an object by any way left.
    ///
    /// # Safety
    /// The caller owns the object, which is one of the cache's, and gives it up.
    #[cold]
    pub unsafe fn overflow(&self, cache: CacheRef, object: *mut u8) {
        let Some(slot) = slot::current() else {
            if !self.depot.put_slotless(cache, object) {
                self.depot.put_one(cache, object);
            }
            return;
        };
        let word = SlotWord::new(cache, slot, Side::Free);
        let mut seen = word.look();
        if !(seen.is_zero() && self.examines(cache, slot)) {
            self.miss(cache, slot, Path::Overflow);
            self.shrink();
        }
        if self.examines(cache, slot) {
            if let Some(magazine) = word.take(seen) {
                self.depot.push(cache, slot, self.examine_all(cache, magazine));
            }
            seen = word.look();
            if seen.is_zero() {
                return self.put_examined(cache, slot, object);
            }
        }
        if self.depot.central.capacity(cache, slot) == 0 {
            let magazine = word.take(seen);
            magazine.into_iter().for_each(|magazine| self.depot.push(cache, slot, magazine));
            return self.depot.put_one(cache, object);
        }
        if let Some(given) = seen.view() {
            let is_full = given.is_full();
            // SAFETY: passed on. If it is not full, the thread migrated since the fast path, or another one made space.
            if unsafe { if is_full { self.exchange_for(cache, slot, seen, object) } else { push(cache, object) } } {
                return;
            }
            if !is_full {
                return self.depot.put_one(cache, object);
            }
        }
        let Some(mut next) = self.magazine_with_space(cache, slot, word.take(seen)) else {
            return self.depot.put_one(cache, object);
        };
        next.fetch();
        next.push(object);
        if let Err(next) = word.put(next) {
            self.depot.push(cache, slot, next);
        }
    }

    /// Frees an object that no fast path has tried.
    ///
    /// # Safety
    /// As for [`Self::overflow`].
    pub unsafe fn put(&self, cache: CacheRef, object: *mut u8) {
        // SAFETY: passed on.
        unsafe {
            if !push(cache, object) {
                self.overflow(cache, object);
            }
        }
    }

    /// Exchanges the slot's magazines and frees an object, if the allocation magazine is worth it; else false. Programs
    /// that swing by a magazine live here.
    ///
    /// # Safety
    /// As for [`Self::overflow`] if the answer is true. The free magazine seen is full.
    unsafe fn exchange_for(&self, cache: CacheRef, slot: u32, free: Seen, object: *mut u8) -> bool {
        let allocation = SlotWord::new(cache, slot, Side::Allocation).look();
        let capacity = self.depot.central.capacity(cache, slot);
        // SAFETY: passed on. A magazine that is worth it has room.
        allocation.view().is_some_and(|view| is_worth_changing(view, capacity))
            && unsafe { change_and_push(cache, slot, allocation, free, object) }
    }

    /// A magazine with space: the allocation magazine, if empty, or another empty one. The full one becomes the
    /// allocation magazine if the slot has none, and else goes to the depot.
    fn magazine_with_space(&self, cache: CacheRef, slot: u32, full: Option<Magazine>) -> Option<Magazine> {
        let word = SlotWord::new(cache, slot, Side::Allocation);
        let seen = word.look();
        let is_empty = seen.view().is_some_and(View::is_empty);
        let own = if is_empty { word.take(seen) } else { None };
        let find_empty = || self.depot.find_empty(&self.depot.lock(cache, slot, here!()));
        let found = match (full, own) {
            (Some(full), None) if !word.look().is_zero() => self.depot.exchange(cache, slot, full),
            (full, own) => {
                full.into_iter().for_each(|full| self.install(cache, slot, full));
                own.or_else(find_empty)
            }
        }?;
        // It may have left, and come back larger and with objects under the same word.
        Some(if found.is_empty() { found.sized(self.depot.central.capacity(cache, slot)) } else { found })
    }

    /// Counts a miss of free towards shrinking, in a process without a background thread; see `central::shrinking`.
    #[inline]
    pub(super) fn shrink(&self) {
        let heap = &self.depot.central.page_heap;
        let in_use = heap.counts.in_use.get() * PAGE as u64;
        if in_use > PINNED && heap.is_alone() {
            self.shrink_by(in_use);
        }
    }

    #[cold]
    fn shrink_by(&self, in_use: u64) {
        let central = &self.depot.central;
        let held = central.tally().bytes();
        if central.shrinking().count(held, in_use.saturating_sub(held)) {
            self.try_as_only_drainer(|| self.drain_at_hand());
        }
    }

    // ---- many objects at once ----

    /// Takes objects from magazines and spans; returns how many it got.
    pub fn take_many(&self, cache: CacheRef, objects: &mut [*mut u8]) -> usize {
        let mut taken = 0;
        while objects.len() - taken >= WORTH_A_MAGAZINE
            && let Some(slot) = slot::current()
        {
            self.miss(cache, slot, Path::Refill);
            let word = SlotWord::new(cache, slot, Side::Allocation);
            let seen = word.look();
            let own = if seen.view().is_some_and(|view| !view.is_empty()) { word.take(seen) } else { None };
            let Some(mut magazine) = own.or_else(|| self.find_magazine(cache, slot, &mut None)) else { break };
            while taken < objects.len()
                && let Some(object) = magazine.pop()
            {
                objects[taken] = object;
                taken += 1;
            }
            match magazine.is_empty() {
                true => self.depot.push(cache, slot, magazine),
                false => self.install(cache, slot, magazine),
            }
        }
        taken
    }

    /// Frees many objects.
    ///
    /// # Safety
    /// As for [`Self::overflow`], for each object.
    pub unsafe fn put_many(&self, cache: CacheRef, mut objects: &[*mut u8]) {
        while objects.len() >= WORTH_A_MAGAZINE
            && let Some(slot) = slot::current()
        {
            self.miss(cache, slot, Path::Overflow);
            let word = SlotWord::new(cache, slot, Side::Free);
            let seen = word.look();
            let own = if seen.view().is_some_and(|view| !view.is_full()) { word.take(seen) } else { None };
            let empty = || {
                let magazine = self.depot.find_empty(&self.depot.lock(cache, slot, here!()))?;
                Some(magazine.sized(self.depot.central.capacity(cache, slot)))
            };
            let Some(mut magazine) = own.or_else(empty) else { break };
            let (fitting, rest) = objects.split_at(objects.len().min(magazine.view().room()));
            fitting.iter().for_each(|&object| magazine.push(object));
            objects = rest;
            let is_examined = self.examines(cache, slot);
            if is_examined {
                magazine = self.examine_all(cache, magazine);
            }
            if let Err(magazine) = if is_examined || magazine.is_full() { Err(magazine) } else { word.put(magazine) } {
                self.depot.push(cache, slot, magazine);
            }
        }
        for &object in objects {
            // SAFETY: passed on.
            unsafe { self.put(cache, object) };
        }
    }
}

/// Whether an allocation magazine has enough space to become the free magazine: a quarter, and so room for one. More
/// would send magazines through the depot when a program swings by little more than a magazine; less would cost too
/// much per object. A magazine smaller than the miss rate asks for should go to the depot.
fn is_worth_changing(view: View<'_>, wanted: usize) -> bool {
    let capacity = view.capacity();
    view.room() * 4 >= capacity && capacity >= wanted
}
