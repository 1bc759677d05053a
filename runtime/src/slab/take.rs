//! Taking objects, beyond the fast path: from the slot's other array, the depot, other slots' depots, and the spans.
//!
//! An array is first made private, by one committing store that takes it out of a slot's word, and then worked on at leisure; whatever
//! goes wrong afterwards (the thread migrated, another one was faster) ends with the array in a depot. So no path has to undo anything.

use super::NO_SLOT;
use super::array::Array;
use super::panel::Handle;
use super::shard::{self, Held};
use super::spans::Spans;
use crate::page::{GRANULE, PAGE, PageList, Span};
use machine::sync::Ordering;
use machine::{here, slot};

/// Arrays that another slot may keep before we take one from it while our own spans can still give.
const FEW: u16 = 4;

/// So many objects at once are worth making an array private for.
pub(super) const WORTH_AN_ARRAY: usize = 8;

/// Where objects may come from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// Objects that were in use before: likely to be in memory already.
    Freed,
    /// Any objects of the shard's spans.
    Spans,
    /// Also those of a new span.
    NewSpan,
}

impl Handle<'_> {
    /// An object of the slot's array, if it has one.
    #[inline]
    pub fn take(self) -> Option<*mut u8> {
        // SAFETY: a panel in which every slot has an area, and an even index.
        let object = unsafe { slot::pop(self.panel.base(), self.index(true)) };
        (!object.is_null()).then_some(object)
    }

    /// An object from the slot's give array, if that changes places with the empty take array: of a hot cache, where both are as
    /// large as they get, and at least half of one is to be had. Programs that swing by an array live on this path, so it
    /// counts no visit and takes no lock.
    #[inline(always)]
    pub fn take_changed(self) -> Option<*mut u8> {
        self.general().heed();
        let slot = slot::current_if_given()?;
        let (take, give) = (self.take_word(slot), self.give_word(slot));
        let (taken, given) = (Array::from_take_word(take)?, Array::from_give_word(give)?);
        let most = self.capacity(slot);
        let worth_it = self.heat(slot) == shard::HOTTEST
            && taken.capacity(self.panel) == most
            && given.capacity(self.panel) == most
            && given.room() <= most / 2;
        if !worth_it {
            return None;
        }
        // SAFETY: every slot has an area, and both words name arrays.
        let object = unsafe { slot::change_places(self.panel.base(), self.index(true), take, give) };
        (!object.is_null()).then_some(object)
    }

    /// An object, by whatever way is left after [`Self::take_changed`].
    #[cold]
    pub fn take_slow(self) -> Option<*mut u8> {
        self.general().put_deferred();
        let Some(slot) = slot::current() else { return self.take_slotless() };
        let mut array = self.take_given(slot).or_else(|| self.find_array(slot))?;
        let object = array.pop(self.panel);
        self.install_to_take(slot, array);
        object
    }

    /// An object for a thread without a slot: of the topmost array in the depot of all of these.
    fn take_slotless(self) -> Option<*mut u8> {
        let slot = self.slot_for_spans(None);
        let mut own = self.lock(slot, here!());
        let Some(mut array) = own.pop_full(self.panel) else {
            drop(own);
            let mut array = self.find_array(slot)?;
            let object = array.pop(self.panel);
            self.stow_keeping(slot, array, self.capacity(slot) * self.object_bytes());
            return object;
        };
        let object = array.pop(self.panel)?;
        match array.is_empty(self.panel) {
            true => self.keep_empty(&mut own, array),
            false => own.push_full(self.panel, array),
        }
        drop(own);
        if self.count_within_limit(1) == 1 {
            return Some(object);
        }
        drop(self.give_back(object, None));
        None
    }

    /// Puts an object of such a thread where [`Self::take_slotless`] takes it, if there is room. False: it is the caller's still.
    pub(super) fn put_slotless(self, object: *mut u8) -> bool {
        let mut own = self.lock(self.slot_for_spans(None), here!());
        let Some(mut array) = own.pop_full(self.panel) else { return false };
        let has_room = !array.is_full();
        if has_room {
            array.push(self.panel, object);
        }
        own.push_full(self.panel, array);
        drop(own);
        if has_room {
            self.count(-1);
        }
        has_room
    }

    /// The slot whose shard serves: a thread's own, or that of all threads without.
    pub(super) fn slot_for_spans(self, slot: Option<u32>) -> u32 {
        slot.unwrap_or_else(|| {
            if !self.slab().serves_slotless.load(Ordering::Relaxed) {
                self.slab().serves_slotless.store(true, Ordering::Relaxed);
            }
            NO_SLOT
        })
    }

    /// Objects for as many of the places as there are in arrays, and in spans; returns how many.
    pub(super) fn take_many(self, objects: &mut [*mut u8]) -> usize {
        let mut taken = 0;
        while objects.len() - taken >= WORTH_AN_ARRAY
            && let Some(slot) = slot::current()
        {
            self.count_visit(slot, true);
            let word = self.take_word(slot);
            let own = Array::from_take_word(word).filter(|array| !array.is_empty(self.panel));
            let own = own.filter(|_| self.replace(slot, true, word, 0));
            let Some(mut array) = own.or_else(|| self.find_array(slot)) else { break };
            while taken < objects.len()
                && let Some(object) = array.pop(self.panel)
            {
                objects[taken] = object;
                taken += 1;
            }
            match array.is_empty(self.panel) {
                true => self.stow(slot, array),
                false => self.install_to_take(slot, array),
            }
        }
        taken
    }

    /// The slot's give array, if it is at least half as full as a refill would be: it becomes the one to take from.
    fn take_given(self, slot: u32) -> Option<Array> {
        self.count_visit(slot, true);
        let word = self.give_word(slot);
        let array = Array::from_give_word(word)?;
        let worth_it = array.len(self.panel) >= self.capacity(slot).div_ceil(2);
        (worth_it && self.replace(slot, false, word, 0)).then_some(array)
    }

    /// Makes a private array the slot's to take from, if the one there is empty; its empty predecessor is kept.
    pub(super) fn install_to_take(self, slot: u32, array: Array) {
        let word = self.take_word(slot);
        let old = Array::from_take_word(word);
        let replaceable = old.is_none_or(|old| old.is_empty(self.panel)) && !Self::is_drained(word);
        if !replaceable || !self.replace(slot, true, word, array.take_word()) {
            return self.stow(slot, array);
        }
        let Some(old) = old else { return };
        if !old.is_empty(self.panel) {
            // It went away after we had looked, and came back with objects, under the same word.
            return self.stow(slot, old);
        }
        let old = self.sized(old, slot);
        if !self.replace(slot, false, 0, old.give_word()) {
            self.stow(slot, old);
        }
    }

    /// A private array with objects, from the nearest place that has one.
    fn find_array(self, slot: u32) -> Option<Array> {
        if self.account().is_some_and(|account| account.without_room(self.object_bytes()).is_some()) {
            return None;
        }
        self.pop_own(slot)
            .or_else(|| self.steal_array(slot, self.near(slot), FEW))
            .or_else(|| self.fill_from_spans(slot, Source::Freed))
            .or_else(|| self.steal_array(slot, self.near(slot), 0))
            .or_else(|| self.fill_from_any_span(slot, self.capacity(slot)))
            .or_else(|| self.steal_array(slot, self.distant(slot), 0))
            .or_else(|| {
                self.steal_span(slot, self.distant(slot)).and_then(|()| self.fill_from_spans(slot, Source::Spans))
            })
            .or_else(|| self.fill_before_growth(slot))
            .or_else(|| self.fill_from_spans(slot, Source::NewSpan))
    }

    /// If a new span would make the heap grow: brings what is cached back first, which may empty spans of other caches.
    fn fill_before_growth(self, slot: u32) -> Option<Array> {
        let pages = self.shape().granules() as usize * GRANULE / PAGE;
        if !self.general().drain_before_growth(pages, GRANULE / PAGE) {
            return None;
        }
        self.fill_from_any_span(slot, self.capacity(slot))
    }

    fn pop_own(self, slot: u32) -> Option<Array> {
        let array = self.lock(slot, here!()).pop_full(self.panel)?;
        self.leave(slot, array)
    }

    /// Counts the objects of an array that leave the depot, or their spans. Those that a limit refuses go back to their spans; none: all of
    /// them.
    fn leave(self, slot: u32, mut array: Array) -> Option<Array> {
        let objects = array.len(self.panel);
        let refused = objects - self.count_within_limit(objects);
        let mut held = None;
        for object in (0..refused).filter_map(|_| array.pop(self.panel)) {
            held = self.give_back(object, held);
        }
        drop(held);
        if !array.is_empty(self.panel) {
            return Some(array);
        }
        self.keep_empty(&mut self.lock(slot, here!()), array);
        None
    }

    /// Takes a full array from one of `others` that keeps more than `spared`, and gives it an empty one for it.
    fn steal_array(self, slot: u32, mut others: impl Iterator<Item = u32>, spared: u16) -> Option<Array> {
        let array = others.find_map(|other| {
            // A stale count only makes us pass by or look in vain.
            if shard::full_count(self.shard(other)) <= spared {
                return None;
            }
            Held::try_lock(self, other)?.pop_full(self.panel).map(|array| (other, array))
        });
        let (other, array) = array?;
        let array = self.leave(slot, array)?;
        let empty = self.lock(slot, here!()).pop_empty(self.panel);
        if let Some(empty) = empty {
            self.keep_empty(&mut self.lock(other, here!()), empty);
        }
        Some(array)
    }

    /// Moves a span that has objects to give to our shard: from one of `others`, or from those that were given up.
    pub(super) fn steal_span(self, slot: u32, others: impl Iterator<Item = u32>) -> Option<()> {
        let mut own = self.lock(slot, here!());
        let own_slot = own.slot;
        let of_others = others.filter(|&other| other != own_slot).find_map(|other| {
            // SAFETY: a shard of the panel; a hint, as above.
            if !unsafe { Spans::seems_to_give(&raw const (*self.shard(other)).spans) } {
                return None;
            }
            let mut theirs = Held::try_lock(self, other)?;
            let span = theirs.spans.giving()?;
            // SAFETY: the span is in the ring of the shard that we hold. Whoever wants it from now on locks our shard.
            unsafe {
                theirs.spans.remove(span);
                (*span).set_owner(own.slot);
            }
            Some(span)
        });
        let span = of_others.or_else(|| self.take_lingering(own.slot))?;
        // SAFETY: we hold the shard that owns the span.
        unsafe { own.spans.insert(span) };
        Some(())
    }

    /// An array filled from the spans of the slot's shard, as large as the cache is hot there.
    pub(super) fn fill_from_spans(self, slot: u32, source: Source) -> Option<Array> {
        self.fill(slot, source, self.capacity(slot))
    }

    /// An array of a capacity, filled from spans, of whatever slot.
    pub(super) fn fill_by_all_means(self, slot: u32, capacity: usize) -> Option<Array> {
        self.fill_from_any_span(slot, capacity).or_else(|| self.fill(slot, Source::NewSpan, capacity))
    }

    /// An array of a capacity, filled from the spans of the slot's shard, or from one that the shard gets from elsewhere.
    fn fill_from_any_span(self, slot: u32, capacity: usize) -> Option<Array> {
        let fill = || self.fill(slot, Source::Spans, capacity);
        fill().or_else(|| self.steal_span(slot, self.near(slot)).and_then(|()| fill()))
    }

    /// An array of a capacity, filled from the spans of the slot's shard.
    pub(super) fn fill(self, slot: u32, source: Source, capacity: usize) -> Option<Array> {
        let mut own = self.lock(slot, here!());
        if own.spans.giving().is_none() && source == Source::NewSpan {
            let span = self.new_span(own.slot)?;
            // SAFETY: the span is fresh and ours.
            unsafe { own.spans.insert(span) };
        }
        let first = own.spans.giving()?;
        // SAFETY: spans in the ring belong to the shard that we hold.
        if source == Source::Freed && !unsafe { (*first).has_freed() } {
            return None;
        }
        let mut array = self.find_empty(&mut own)?.sized(self.panel, capacity);
        // Bit n: the object that was pushed n-th was never given before.
        let mut fresh = 0_u128;
        while !array.is_full()
            && let Some(span) = own.spans.giving()
        {
            // SAFETY: as above.
            let span = unsafe { &mut *span };
            while !array.is_full()
                && (source != Source::Freed || span.has_freed())
                && let is_fresh = !span.has_freed()
                && let Some(object) = span.take()
            {
                fresh |= u128::from(is_fresh) << (capacity - array.room());
                array.push(self.panel, object);
            }
            if span.available() == 0 {
                own.spans.first_is_used_up();
            } else if source == Source::Freed {
                break;
            }
        }
        drop(own);
        if let Some(cache) = self.object_cache() {
            for (_, object) in array.objects(self.panel).enumerate().filter(|(index, _)| fresh & 1 << index != 0) {
                // SAFETY: the object is ours, and was never constructed.
                unsafe { cache.begin_object(object) };
            }
        }
        array.reverse(self.panel);
        self.leave(slot, array)
    }

    pub(super) fn new_span(self, slot: u32) -> Option<*mut Span> {
        let shape = self.shape();
        let (zone, locks) = (&self.slab().zone, self.slab().locks());
        let span = match shape.granules() {
            // SAFETY: the slot's page list.
            1 => unsafe { PageList::take(self.page_list(slot), zone, locks) },
            granules => zone.allocate_span(locks, granules),
        }?;
        // SAFETY: the span is ours; its map entry is set before any object of it is given away.
        unsafe {
            (*span).begin(self.number(), shape.object_bytes(), slot);
            zone.enter_class(span, self.class_word());
        }
        Some(span)
    }

    /// An empty private array: the shard's, or a spare one, or a new one.
    pub(super) fn find_empty(self, shard: &mut Held) -> Option<Array> {
        let general = self.slab().region();
        let spare =
            || Some(self.slab().registry().spare.0.pop(general, self.slab().locks())?.moved(general, self.panel));
        shard.pop_empty(self.panel).or_else(spare).or_else(|| {
            // SAFETY: the slot's place for it.
            let uncut = unsafe { &*shard::uncut(general, shard.slot) };
            let memory = uncut.take(&self.slab().zone.metadata)?;
            self.slab().registry().rare.0.arrays.count();
            Some(Array::new(self.panel, memory))
        })
    }

    /// Keeps an empty private array at the shard, as many as full ones at most; else with the spare ones, where every cache finds it. A hot cache takes
    /// some and gives them back again and again, and would meet all others there.
    pub(super) fn keep_empty(self, shard: &mut Held, array: Array) {
        let most = self.shape().depot_limit(self.heat(shard.slot), self.capacity(shard.slot)).max(1);
        if !shard.keeps_empty(most) || !self.keep_spare(array) {
            shard.push_empty(self.panel, array);
        }
    }

    /// Keeps an empty private array where every cache finds it. False: in a signal handler that must not wait.
    pub(super) fn keep_spare(self, array: Array) -> bool {
        let general = self.slab().region();
        self.slab().registry().spare.0.push(general, self.slab().locks(), array.moved(self.panel, general))
    }
}
