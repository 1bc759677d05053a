//! Draining: takes magazines away from slots, also from those of other CPUs.
//!
//! A drainer cannot compare and swap another CPU's word, because its owner changes it by plain instructions. Instead:
//!
//! 1. Exchange the word for a value that the owner sees as empty (or full). The old value says how full the magazine
//!    is.
//! 2. Restart all slots. Now no operation is in flight that began before the store was visible.
//! 3. Look at the word. If it still has our value, the magazine is ours, unchanged. Otherwise a store of the owner has
//!    overwritten ours, and the magazine still belongs to the slot.
//! 4. If the kernel refused the restart, put the old value back where ours still is, in one step. An operation that
//!    committed before keeps its result; a later one finds the old word.
//!
//! No slow path replaces a draining word. One kick serves many words, of all slots and caches.

use super::gap::{Means, forget_gap, set_means};
use super::slot_word::{Marked, Side, SlotWord};
use super::tier::CpuCaches;
use crate::central::{CacheRef, Caches, CachesBelow, Charged, NO_SLOT, Part, Subreleased, coarse_time};
use crate::depot::Magazine;
use crate::observe::Why;
use crate::page_heap::Occupancy;
use machine::sync::{Acquired, Ordering, Site};
use machine::{here, kick, slot};

/// Most words drained by one kick.
const AT_ONCE: usize = 96;

/// The magazines to take.
#[derive(Clone, Copy, Debug)]
pub enum Which<'a> {
    /// Of all caches.
    All,
    /// Of a part of all caches.
    Part(Part),
    /// Of one cache.
    One(CacheRef),
    /// Of a table's caches, and of those below it.
    Of(&'a Charged),
    /// Of a part's caches that have grown in the slot; see `resize`.
    Grown(Part),
    /// Of a part's caches that, at a coarse time, have not missed in the slot for more than so many units.
    Idle(Part, u32, u32),
}

/// The result of a drain.
#[derive(Clone, Copy, Debug, Default)]
pub struct Drained {
    /// Magazines emptied.
    pub magazines: usize,
    /// Whether the machine refused to restart other CPUs, so that some magazines stay in place.
    pub refused: bool,
}

/// The memory reclaimed from idle caches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reclaimed {
    /// Magazines emptied.
    pub magazines: usize,
    /// Spans moved from the page list to the page heap.
    pub spans: usize,
    /// Whether more work is left.
    pub is_more: bool,
}

/// The chosen caches. Not inlined, as many walks use it; also the next one.
struct Chosen<'a> {
    one: Option<CacheRef>,
    numbered: Option<Caches<'a>>,
    charged: Option<CachesBelow<'a>>,
}

impl Iterator for Chosen<'_> {
    type Item = CacheRef;

    #[inline(never)]
    fn next(&mut self) -> Option<CacheRef> {
        let one = self.one.take().or_else(|| self.numbered.as_mut()?.next());
        one.or_else(|| self.charged.as_mut()?.next())
    }
}

/// The words of chosen caches in a slot.
struct Words<'a> {
    caches: Chosen<'a>,
    which: Which<'a>,
    slot: u32,
    next: Option<SlotWord>,
}

impl Iterator for Words<'_> {
    type Item = SlotWord;

    #[inline(never)]
    fn next(&mut self) -> Option<SlotWord> {
        self.next.take().or_else(|| {
            let (which, slot) = (self.which, self.slot);
            let cache = self.caches.find(|cache| cache.is_used_in(slot) && which.includes(*cache, slot))?;
            let [first, second] = Side::BOTH.map(|side| SlotWord::new(cache, slot, side));
            self.next = Some(second);
            Some(first)
        })
    }
}

impl Which<'_> {
    /// Whether a slot's magazines of a chosen cache are meant.
    fn includes(self, cache: CacheRef, slot: u32) -> bool {
        match self {
            Which::Grown(_) => cache.level(slot).load(Ordering::Relaxed) > 0,
            Which::Idle(_, now, units) => cache.load(slot).is_idle(now, units),
            Which::All | Which::Part(_) | Which::One(_) | Which::Of(_) => true,
        }
    }
}

impl CpuCaches {
    // ---- one drainer at a time ----

    /// Runs `work` as the only thread that drains and walks all caches. None: in a signal handler that must not wait.
    pub fn as_only_drainer<R>(&self, site: Site, work: impl FnOnce() -> R) -> Option<R> {
        let acquired = self.cold.drain_lock.acquire(&self.depot.central.page_heap.locks().drain, site);
        self.as_drainer(acquired, work)
    }

    /// [`Self::as_only_drainer`] without waiting. None: another thread has the drain lock.
    pub fn try_as_only_drainer<R>(&self, work: impl FnOnce() -> R) -> Option<R> {
        let lock = &self.cold.drain_lock;
        let acquired = match lock.try_acquire() {
            true => Acquired::Clean,
            false if lock.try_inherit() => Acquired::Abandoned,
            false => Acquired::WouldDeadlock,
        };
        if acquired != Acquired::WouldDeadlock {
            lock.measure_hold(&self.depot.central.page_heap.locks().drain, here!());
        }
        self.as_drainer(acquired, work)
    }

    /// Runs `work` if the drain lock was acquired. Of two drainers, each could take the other's mark for its own. And a
    /// thread that ends a cache must know that no drainer holds a magazine of it.
    fn as_drainer<R>(&self, acquired: Acquired, work: impl FnOnce() -> R) -> Option<R> {
        match acquired {
            Acquired::WouldDeadlock => return None,
            Acquired::Abandoned => self.unmark_all(),
            Acquired::Clean => {}
        }
        let result = work();
        // SAFETY: acquired by the caller.
        unsafe { self.cold.drain_lock.release() };
        Some(result)
    }

    /// Frees the marked words after a drainer vanished in a fork. The magazines that it had marked are lost.
    fn unmark_all(&self) {
        for slot in 0..slot::in_use() {
            for word in self.words(Which::All, slot).filter(|word| word.look().is_draining()) {
                // SAFETY: we are the only drainer.
                unsafe { word.unmark() };
            }
        }
    }

    // ---- reasons to drain ----

    /// If a run of `pages`, aligned to `alignment` pages, would grow the heap: drains page lists, and depots and this
    /// slot's magazines of the next part of all caches, without a kick. False: not done, perhaps because another thread
    /// drains.
    pub fn drain_before_growth(&self, pages: usize, alignment: usize) -> bool {
        if !self.depot.central.page_heap.is_about_to_grow(pages, alignment) {
            return false;
        }
        let drain = || {
            let part = self.drain_at_hand();
            self.free_unused_spans(part);
            self.drain_page_lists();
        };
        self.try_as_only_drainer(drain).is_some()
    }

    /// Returns deferred magazines to the spans.
    #[inline]
    pub fn put_deferred(&self) {
        if !self.depot.deferred.is_empty() {
            self.put_all_deferred();
        }
    }

    /// As the drainer, so that no thread holds such a magazine while its cache ends.
    #[cold]
    fn put_all_deferred(&self) {
        self.try_as_only_drainer(|| self.put_deferred_as_drainer());
    }

    /// The same under the drain lock.
    pub(crate) fn put_deferred_as_drainer(&self) {
        for magazine in self.depot.deferred.take().drain() {
            if let Some(first) = magazine.view().objects().next() {
                let cache = self.depot.central.cache_at(first).expect("an object of ours lies in a span");
                self.depot.flush_out(cache, slot::current().unwrap_or(NO_SLOT), magazine);
            }
        }
    }

    /// Begins to sample allocations, or changes how often, or ends it. Slots give up magazines that are not reserved.
    pub fn begin_sampling(&self, means: Means) {
        if set_means(means) == means || means == Means::default() {
            return;
        }
        self.as_only_drainer(here!(), || self.forget_gaps());
    }

    /// Changes how often allocations are sampled, unless another thread is draining.
    pub fn try_to_sample(&self, means: Means) {
        self.try_as_only_drainer(|| {
            set_means(means);
            self.forget_gaps();
        });
    }

    fn forget_gaps(&self) {
        self.drain_magazines(Which::All, Why::Trim);
        for cache in self.depot.central.caches() {
            cache.slots().for_each(|slot| forget_gap(cache, slot));
        }
    }

    // ---- caches that are idle in a slot; `upkeep` says when ----

    /// Empties the calling thread's slot of caches that have not missed for `idle` units of coarse time, trims the
    /// depots of others, and decays its page list. Looks at one part of the caches, from number `from` on, where the
    /// last call stopped, and empties about `most` magazines. Skips caches with destructors, which only a background
    /// thread may run. None: not now.
    pub fn reclaim_own(&self, slot: u32, from: u32, most: usize, idle: u32) -> Option<(Reclaimed, u32)> {
        let now = coarse_time();
        self.try_as_only_drainer(|| {
            let mut done = Reclaimed::default();
            if from == 0 {
                done.spans = self.decay_page_list(slot, Occupancy::Occupied);
            }
            let part = self.depot.central.part_from(from);
            done.is_more = !part.is_last;
            for cache in self.depot.central.caches_of(part) {
                let has_destructor = || cache.state().is_some_and(|state| state.destructor().is_some());
                if !cache.is_used_in(slot) || has_destructor() {
                    continue;
                }
                done.magazines += match cache.load(slot).is_idle(now, idle) {
                    true => self.empty_own(cache, slot),
                    false => self.depot.trim_shard(cache, slot),
                };
                if done.magazines >= most {
                    done.is_more = true;
                    return (done, cache.number() + 1);
                }
            }
            (done, part.end)
        })
    }

    /// Empties a slot, even if threads are there on fast paths, of caches that have not missed for `idle` units:
    /// magazines, depots, unused spans and the page list. More work is left where a cache has missed. None: not now.
    pub fn reclaim_idle(&self, slot: u32, now: u32, idle: u32) -> Option<Reclaimed> {
        let mut done = Reclaimed::default();
        for part in self.depot.central.parts() {
            self.as_only_drainer(here!(), || self.reclaim_part(part, slot, (now, idle), &mut done))?;
        }
        let occupancy = if done.is_more { Occupancy::Occupied } else { Occupancy::Deserted };
        done.spans = self.as_only_drainer(here!(), || self.decay_page_list(slot, occupancy))?;
        Some(done)
    }

    fn reclaim_part(&self, part: Part, slot: u32, (now, idle): (u32, u32), done: &mut Reclaimed) {
        self.put_deferred_as_drainer();
        let which = Which::Idle(part, now, idle);
        done.magazines += self.drain_slots(which, core::iter::once(slot), Why::Upkeep).magazines;
        for cache in self.depot.central.caches_of(part).filter(|cache| cache.is_used_in(slot)) {
            if !cache.load(slot).is_idle(now, idle) {
                done.is_more = true;
                continue;
            }
            self.shrink_magazines(cache, slot);
            done.magazines += self.depot.drain_shard(cache, slot);
            self.depot.central.free_unused_spans(cache, slot);
        }
    }

    /// Returns free pages to the kernel; see `crate::central::Central::subrelease`.
    pub fn subrelease(&self, from: u64, idle: u32, done: &mut Subreleased) -> Option<u64> {
        let now = coarse_time();
        // As the only drainer, so that no cache ends and no segment is released.
        self.try_as_only_drainer(|| self.depot.central.subrelease(from, now, idle, done)).unwrap_or(Some(from))
    }

    fn decay_page_list(&self, slot: u32, occupancy: Occupancy) -> usize {
        let heap = &self.depot.central.page_heap;
        heap.page_list(slot).decay(occupancy, heap)
    }

    /// Empties the calling thread's slot of the cache.
    pub(super) fn empty_own(&self, cache: CacheRef, slot: u32) -> usize {
        let words = Side::BOTH.map(|side| SlotWord::new(cache, slot, side));
        let emptied = words.into_iter().filter(|&word| self.drain_own_word(word)).count();
        if cache.level(slot).load(Ordering::Relaxed) > 0 {
            self.shrink_magazines(cache, slot);
        }
        let magazines = emptied + self.depot.drain_shard(cache, slot);
        self.depot.central.free_unused_spans(cache, slot);
        magazines
    }

    // ---- under the drain lock ----

    /// Drains depots and this slot's own magazines into the spans, without a kick: of the next part of all caches,
    /// which it returns.
    pub(super) fn drain_at_hand(&self) -> Which<'static> {
        let part = Which::Part(self.depot.central.next_part());
        self.drain_own(part);
        self.drain_depots(part);
        part
    }

    /// Drains magazines of all slots, depots, deferred magazines and unused spans. Returns the magazines emptied.
    pub fn drain(&self, which: Which<'_>, why: Why) -> usize {
        self.put_deferred_as_drainer();
        let magazines = self.drain_magazines(which, why).magazines;
        // After the magazines, because shards keep the emptied ones.
        let magazines = magazines + self.drain_depots(which);
        self.free_unused_spans(which);
        magazines
    }

    /// Drains the magazines of all slots.
    pub fn drain_magazines(&self, which: Which<'_>, why: Why) -> Drained {
        let own = self.drain_own(which);
        // All slots, because the thread may be in another one by now.
        let others = self.drain_slots(which, 0..slot::in_use(), why);
        Drained { magazines: own + others.magazines, ..others }
    }

    pub(super) fn drain_page_lists(&self) {
        let heap = &self.depot.central.page_heap;
        let slotless = self.depot.serves_slotless().then_some(NO_SLOT);
        for slot in (0..slot::in_use()).chain(slotless.filter(|&slot| slot >= slot::in_use())) {
            heap.page_list(slot).drain(0, heap);
        }
    }

    fn drain_depots(&self, which: Which<'_>) -> usize {
        let slots = self.chosen(which).flat_map(|cache| cache.slots().map(move |slot| (cache, slot)));
        slots.map(|(cache, slot)| self.depot.drain_shard(cache, slot)).sum()
    }

    fn free_unused_spans(&self, which: Which<'_>) {
        for cache in self.chosen(which) {
            cache.slots().for_each(|slot| self.depot.central.free_unused_spans(cache, slot));
        }
    }

    /// Drains the magazines of the calling thread's slot.
    fn drain_own(&self, which: Which<'_>) -> usize {
        let Some(slot) = slot::current() else { return 0 };
        self.words(which, slot).filter(|&word| self.drain_own_word(word)).count()
    }

    /// Drains the magazines of slots that other threads may use: a dead thread's by taking its place, those of other
    /// CPUs by kicks.
    pub(super) fn drain_slots(&self, which: Which<'_>, slots: impl Iterator<Item = u32>, why: Why) -> Drained {
        let quiet = |slot| slot::while_dead(slot, || self.drain_quiet(which, slot));
        match slot::mode() {
            slot::Mode::PerThread => Drained { magazines: slots.filter_map(quiet).sum(), refused: false },
            slot::Mode::ConcurrencyId if kick::register().is_ok() => self.drain_marked(which, slots, why),
            slot::Mode::ConcurrencyId => Drained { magazines: 0, refused: true },
        }
    }

    /// Drains the magazines of a slot that no thread can use.
    fn drain_quiet(&self, which: Which<'_>, slot: u32) -> usize {
        let is_emptied = |word: &SlotWord| {
            // SAFETY: no thread is in the slot.
            let magazine = unsafe { word.take_quietly() };
            magazine.map(|magazine| self.depot.flush_out(word.cache, slot, magazine)).is_some()
        };
        self.words(which, slot).filter(is_emptied).count()
    }

    /// Drains the magazines of slots that threads may use.
    fn drain_marked(&self, which: Which<'_>, slots: impl Iterator<Item = u32>, why: Why) -> Drained {
        let mut drained = Drained::default();
        let words = slots.flat_map(|slot| self.words(which, slot));
        let holds_objects = |word: &SlotWord| word.view().is_some_and(|view| !view.is_empty());
        drained.refused = !self.take_away::<AT_ONCE>(words.filter(holds_objects), why, |word, magazine| {
            self.depot.flush_out(word.cache, word.slot, magazine);
            drained.magazines += 1;
        });
        drained
    }

    /// Steps 1 to 4 for these words, up to `MANY` for each kick. `keep` gets the magazines. False: the machine refused.
    pub(super) fn take_away<const MANY: usize>(
        &self, mut words: impl Iterator<Item = SlotWord>, why: Why, mut keep: impl FnMut(SlotWord, Magazine),
    ) -> bool {
        let mut is_done = true;
        loop {
            let mut marked: [Option<Marked>; MANY] = [None; MANY];
            let mut count = 0;
            for word in words.by_ref().take(MANY) {
                // SAFETY: the protocol above; we are the only drainer.
                marked[count] = Some(unsafe { word.mark() });
                count += 1;
            }
            if count == 0 {
                return is_done;
            }
            let is_restarted = kick::restart_all().is_ok();
            if is_restarted {
                self.kicks().count(why);
            }
            for mark in marked.into_iter().flatten() {
                if !is_restarted {
                    // SAFETY: marked above.
                    unsafe { mark.put_back() };
                // SAFETY: marked above, and the slot was restarted since.
                } else if let Some(magazine) = unsafe { mark.take() } {
                    keep(mark.word, magazine);
                }
            }
            is_done &= is_restarted;
        }
    }

    fn chosen<'a>(&'a self, which: Which<'a>) -> Chosen<'a> {
        let central = &self.depot.central;
        let (numbered, charged, one) = match which {
            Which::One(cache) => (None, None, Some(cache)),
            Which::Of(table) => (None, Some(table.caches_below()), None),
            Which::Part(part) | Which::Grown(part) | Which::Idle(part, ..) => {
                (Some(central.caches_of(part)), None, None)
            }
            Which::All => (Some(central.caches()), None, None),
        };
        Chosen { one, numbered, charged }
    }

    /// All words of a slot that may name chosen magazines.
    fn words<'a>(&'a self, which: Which<'a>, slot: u32) -> Words<'a> {
        Words { caches: self.chosen(which), which, slot, next: None }
    }

    pub(super) fn drain_own_word(&self, word: SlotWord) -> bool {
        let seen = word.look();
        let holds_objects = seen.view().is_some_and(|view| !view.is_empty());
        let magazine = if holds_objects { word.take(seen) } else { None };
        magazine.map(|magazine| self.depot.flush_out(word.cache, word.slot, magazine)).is_some()
    }
}
