//! Taking arrays away from slots, also from those of other CPUs.
//!
//! Another CPU's word cannot be compared and swapped: its owner changes it by plain instructions. Instead:
//!
//! 1. Exchange the word for a value that is empty (or full) for the owner. What was there says how full the array is.
//! 2. Restart all slots: now no operation is in flight that began before the store was visible.
//! 3. Look at the word. Still our value: the array is ours, as it was. Anything else: our store was lost under one of the
//!    owner's; the array is still theirs.
//! 4. If the restart was refused: put back what was there, where our value still is, in one step. Whoever has committed
//!    meanwhile keeps what they made of it, and whoever does so later makes it of the same word.
//!
//! Nobody else replaces a draining word: slow paths see it and leave it alone. One kick serves many words, of all slots and caches.

use super::array::{Array, DRAINING};
use super::charged::Charged;
use super::lingering::GivenUp;
use super::panel::Handle;
use super::spans::Spans;
use super::{General, NO_SLOT, shard};
use crate::observe::Why;
use crate::page::{PAGE, PageList};
use core::ptr::null_mut;
use machine::sync::{Acquired, AtomicU64, Ordering, Site};
use machine::{clock, here, kick, slot};

/// Words that are taken away by one kick at most.
const AT_ONCE: usize = 96;

/// A word that says [`DRAINING`].
#[derive(Clone, Copy)]
struct Marked {
    cache: u32,
    slot: u32,
    takes: bool,
    before: usize,
}

/// Whose arrays are taken.
#[derive(Clone, Copy)]
pub(super) enum Which<'a> {
    All,
    One(Handle<'a>),
    /// Those of a table, and of those below it.
    Of(&'a Charged),
    /// Those of caches that have risen in the slot; see `fit`.
    Risen,
    /// Those of caches that nobody came along for in the slot, at a coarse time, since so many units.
    Unvisited(u32, u32),
}

/// When a flush helped nobody, and how many pages were in use then: another one would not help either for some time, unless there are fewer.
#[derive(Debug)]
pub(super) struct VainFlush {
    at_ns: AtomicU64,
    pages: AtomicU64,
}

impl VainFlush {
    const INTERVAL_NS: u64 = 10_000_000;

    pub const fn new() -> Self {
        VainFlush { at_ns: AtomicU64::new(0), pages: AtomicU64::new(0) }
    }

    // Relaxed: a hint. Whoever sees half of it flushes once more, or once less.
    fn tells_against_another(&self, pages: u64) -> bool {
        let at = self.at_ns.load(Ordering::Relaxed);
        at != 0 && pages >= self.pages.load(Ordering::Relaxed) && clock::now_ns() - at < Self::INTERVAL_NS
    }

    fn note(&self, pages: u64) {
        self.pages.store(pages, Ordering::Relaxed);
        self.at_ns.store(clock::now_ns(), Ordering::Relaxed);
    }
}

/// What came of taking arrays away.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Drained {
    /// Arrays that were emptied.
    pub arrays: usize,
    /// Whether the machine refused to restart other CPUs, so that some arrays were left where they are.
    pub refused: bool,
}

impl<'a> General<'a> {
    /// Brings everything that is cached and free back to the zone: arrays, depots, page lists. Slots whose kick the machine
    /// refuses keep their arrays. Then, if told so, unmaps segments that are free as a whole: meanwhile nobody goes over the heap's spans. Returns the number of
    /// arrays that were emptied, and of bytes that went back.
    fn drain_all(self, releases: bool) -> (usize, usize) {
        self.as_only_drainer(here!(), |general| {
            let arrays = general.drain(Which::All, Why::Trim);
            general.page_lists().for_each(|slot| general.drain_page_list(slot));
            let (zone, locks) = (&general.slab.zone, general.slab.locks());
            let of_arrays = general.slab.registry().spare.0.release(general.region, locks);
            (arrays, of_arrays + if releases { zone.release_segments(locks) } else { 0 })
        })
        .unwrap_or_default()
    }

    /// Gives memory that is free back to the kernel: arrays, depots, page lists, and all dirty pages of free runs beyond `keep`
    /// bytes. Returns the number of bytes that went back, and at least 1 if anything that was cached became free.
    pub fn trim(self, keep: usize) -> usize {
        let (arrays, released) = self.drain_all(keep == 0);
        let purged = self.slab.zone.purge(self.slab.locks(), (keep / PAGE) as u64) as usize * PAGE;
        (released + purged).max(usize::from(arrays > 0))
    }

    /// For an allocation of so many bytes that the kernel refused: brings back everything that is cached, and tries again. None: that does not help; nothing is done
    /// where it could not, as more is asked for than all segments have, or where it was in vain a moment ago.
    #[cold]
    pub fn flush_and_retry<R>(self, bytes: usize, attempt: impl FnOnce() -> Option<R>) -> Option<R> {
        let (counts, vain) = (&self.slab.zone.counts, &self.slab.registry().rare.0.vain_flush);
        if bytes as u64 / PAGE as u64 > counts.reserved.get() || vain.tells_against_another(counts.in_use.get()) {
            return None;
        }
        let got = (self.trim(0) > 0).then(attempt).flatten();
        if got.is_none() {
            vain.note(counts.in_use.get());
        }
        got
    }

    /// If a run of `pages`, aligned to `alignment` pages, would make the heap grow: brings depots, page lists and this slot's own arrays back, without a kick.
    /// True if that was done; not while another thread does.
    pub fn drain_before_growth(self, pages: usize, alignment: usize) -> bool {
        if !self.slab.zone.is_about_to_grow(self.slab.locks(), pages, alignment) {
            return false;
        }
        let drain = |general: Self| {
            general.drain_at_hand();
            general.free_unused_spans(Which::All);
            general.page_lists().for_each(|slot| general.drain_page_list(slot));
        };
        self.try_as_only_drainer(drain).is_some()
    }

    /// Brings depots and this slot's own arrays back to the spans, without a kick.
    pub(super) fn drain_at_hand(self) {
        self.drain_own(Which::All);
        self.drain_depots(Which::All);
    }

    /// [`Self::as_only_drainer`], but that it does not wait. None: another one is at it.
    pub(super) fn try_as_only_drainer<R>(self, work: impl FnOnce(Self) -> R) -> Option<R> {
        let lock = &self.slab.registry().rare.0.drain_lock;
        let acquired = match lock.try_acquire() {
            true => Acquired::Clean,
            false if lock.try_inherit() => Acquired::Abandoned,
            false => Acquired::WouldDeadlock,
        };
        self.as_drainer(acquired, || work(self))
    }

    /// Empties the arrays of all caches that an account is charged for, by its table. Returns their number; none: not now.
    pub fn drain_charged(self, table: &'a Charged) -> Option<usize> {
        self.as_only_drainer(here!(), |general| general.drain_arrays(Which::Of(table), Why::Limit).arrays)
    }

    /// Runs `work` as the only one who takes arrays from others and goes over all caches. None: in a signal handler that must not wait.
    pub(super) fn as_only_drainer<R>(self, site: Site, work: impl FnOnce(Self) -> R) -> Option<R> {
        let acquired = self.slab.registry().rare.0.drain_lock.acquire(&self.slab.locks().drain, site);
        self.as_drainer(acquired, || work(self))
    }

    /// Runs `work` if the drain lock was acquired. One drainer at a time: of two, each could take the other's mark for its own; and
    /// whoever ends a cache has to know that nobody has an array of it in his hands.
    fn as_drainer<R>(self, acquired: Acquired, work: impl FnOnce() -> R) -> Option<R> {
        match acquired {
            Acquired::WouldDeadlock => return None,
            Acquired::Abandoned => self.unmark_all(),
            Acquired::Clean => {}
        }
        let result = work();
        // SAFETY: acquired by the caller.
        unsafe { self.slab.registry().rare.0.drain_lock.release() };
        Some(result)
    }

    /// Empties depots and arrays of all slots, puts back what signal handlers could not, and gives back spans without objects in use. Returns the number of arrays.
    pub(super) fn drain(self, which: Which<'a>, why: Why) -> usize {
        self.put_deferred_as_drainer();
        let arrays = self.drain_arrays(which, why).arrays;
        // After them, as shards keep the emptied ones.
        let arrays = arrays + self.drain_depots(which);
        self.free_unused_spans(which);
        arrays
    }

    /// Empties the arrays of all slots.
    pub(super) fn drain_arrays(self, which: Which<'a>, why: Why) -> Drained {
        let own = self.drain_own(which);
        let others = self.drain_others(which, why);
        Drained { arrays: own + others.arrays, ..others }
    }

    /// The slots whose page lists may hold anything.
    fn page_lists(self) -> impl Iterator<Item = u32> {
        let slotless = self.slab.serves_slotless.load(Ordering::Relaxed).then_some(NO_SLOT);
        (0..slot::in_use()).chain(slotless.filter(|&slot| slot >= slot::in_use()))
    }

    fn drain_depots(self, which: Which<'a>) -> usize {
        self.chosen(which).flat_map(|cache| cache.slots().map(move |slot| cache.drain_shard(slot))).sum()
    }

    fn free_unused_spans(self, which: Which<'a>) {
        for cache in self.chosen(which) {
            cache.slots().for_each(|slot| cache.free_unused_spans(slot));
        }
    }

    fn drain_page_list(self, slot: u32) {
        let (zone, locks) = (&self.slab.zone, self.slab.locks());
        // SAFETY: the slot's page list.
        unsafe { PageList::drain(shard::page_list(self.region, slot), 0, zone, locks) };
    }

    /// Empties the arrays of the slot that the calling thread is in.
    fn drain_own(self, which: Which<'a>) -> usize {
        let Some(slot) = slot::current() else { return 0 };
        self.words(which, slot).filter(|&(cache, takes)| cache.drain_own(slot, takes)).count()
    }

    /// Empties the arrays that there are still, after [`Self::drain_own`]: a dead thread's by taking its place, those of other CPUs with kicks. No slot
    /// is left out: the thread may be in another one by now.
    fn drain_others(self, which: Which<'a>, why: Why) -> Drained {
        let others = 0..slot::in_use();
        let quiet = |slot| slot::while_dead(slot, || self.drain_quiet(which, slot));
        match slot::mode() {
            slot::Mode::PerThread => Drained { arrays: others.filter_map(quiet).sum(), refused: false },
            slot::Mode::ConcurrencyId if kick::register().is_ok() => self.drain_marked(which, others, why),
            slot::Mode::ConcurrencyId => Drained { arrays: 0, refused: true },
        }
    }

    /// Empties the arrays of a slot whose thread is dead; none of others.
    pub(super) fn drain_if_dead(self, which: Which<'a>, slot: u32) -> Drained {
        let arrays = slot::while_dead(slot, || self.drain_quiet(which, slot)).unwrap_or(0);
        Drained { arrays, refused: false }
    }

    /// Empties the arrays of one slot, which a thread may be in.
    pub(super) fn drain_slot(self, which: Which<'a>, slot: u32, why: Why) -> Drained {
        let is_possible = slot::mode() == slot::Mode::ConcurrencyId && kick::register().is_ok();
        let refused = || Drained { arrays: 0, refused: true };
        if is_possible { self.drain_marked(which, core::iter::once(slot), why) } else { refused() }
    }

    /// Empties the arrays of a slot that no thread can be in.
    fn drain_quiet(self, which: Which<'a>, slot: u32) -> usize {
        self.words(which, slot).filter(|&(cache, takes)| cache.drain_quiet(slot, takes)).count()
    }

    /// After a drainer vanished in a fork: what it was taking away is lost, and the words are free again.
    fn unmark_all(self) {
        for slot in 0..slot::in_use() {
            for (cache, takes) in
                self.words(Which::All, slot).filter(|&(cache, takes)| cache.word(slot, takes) == DRAINING)
            {
                // SAFETY: nobody replaces a draining word.
                unsafe { slot::exchange(cache.panel.base(), slot, cache.index(takes), 0) };
            }
        }
    }

    /// Empties the arrays of slots that threads may be in.
    fn drain_marked(self, which: Which<'a>, slots: impl Iterator<Item = u32>, why: Why) -> Drained {
        let mut marked = [Marked { cache: 0, slot: 0, takes: false, before: 0 }; AT_ONCE];
        let mark = |slot| self.words(which, slot).filter_map(move |(cache, takes)| cache.mark(slot, takes));
        let mut words = slots.flat_map(mark);
        let mut drained = Drained::default();
        loop {
            let mut count = 0;
            for word in words.by_ref().take(AT_ONCE) {
                marked[count] = word;
                count += 1;
            }
            if count == 0 {
                return drained;
            }
            let restarted = kick::restart_all().is_ok();
            if restarted {
                self.slab.registry().rare.0.kicks.count(why);
            }
            let settle = |word: &&Marked| self.cache(word.cache).settle(**word, restarted);
            drained.arrays += marked[..count].iter().filter(settle).count();
            drained.refused |= !restarted;
        }
    }

    fn chosen(self, which: Which<'a>) -> impl Iterator<Item = Handle<'a>> {
        let (all, charged, one) = match which {
            Which::One(cache) => (None, None, Some(cache)),
            Which::Of(table) => (None, Some(table.caches_below()), None),
            Which::All | Which::Risen | Which::Unvisited(..) => (Some(self.caches()), None, None),
        };
        all.into_iter().flatten().chain(charged.into_iter().flatten()).chain(one)
    }

    /// All words of a slot that may name arrays, as caches and whether the word is to take from.
    fn words(self, which: Which<'a>, slot: u32) -> impl Iterator<Item = (Handle<'a>, bool)> {
        let is_asked = move |cache: &Handle<'_>| match which {
            Which::Risen => shard::level(cache.shard(slot)) > 0,
            Which::Unvisited(now, units) => cache.is_unvisited(slot, now, units),
            Which::All | Which::One(_) | Which::Of(_) => true,
        };
        let used = self.chosen(which).filter(move |cache| cache.is_used_in(slot)).filter(is_asked);
        used.flat_map(|cache| [(cache, true), (cache, false)])
    }
}

impl Handle<'_> {
    pub(super) fn drain_shard(self, slot: u32) -> usize {
        let mut arrays = 0;
        // Without a lock where there is nothing, as in most caches of most slots: what comes meanwhile came later.
        while shard::seems_to_hold(self.shard(slot)) {
            let full = self.lock(slot, here!()).pop_full(self.panel);
            let Some(full) = full else { break };
            self.flush(slot, full);
            arrays += 1;
        }
        if shard::seems_to_keep(self.shard(slot)) {
            let mut empty = self.lock(slot, here!()).take_empty();
            while let Some(array) = empty.pop(self.panel) {
                self.keep_emptied(slot, array);
            }
        }
        arrays
    }

    /// Gives the unused spans back that a shard keeps.
    pub(super) fn free_unused_spans(self, slot: u32) {
        // SAFETY: a shard of the panel.
        if unsafe { Spans::seems_empty(&raw const (*self.shard(slot)).spans) } {
            return;
        }
        let mut held = self.lock(slot, here!());
        let (mut unused, mut lingers) = (null_mut(), None);
        for span in held.spans.iter() {
            // SAFETY: spans in the ring belong to the shard that we hold; those that are taken out are ours.
            unsafe {
                if (*span).is_unused() {
                    match self.give_up(&mut held, span) {
                        GivenUp::Ours => ((*span).next, unused) = (unused, span),
                        GivenUp::Lingers(readers) => lingers = Some(readers),
                        GivenUp::Not => {}
                    }
                }
            }
        }
        let slot = held.slot;
        drop(held);
        lingers.inspect(|readers| (readers.rouse)());
        while !unused.is_null() {
            // SAFETY: as above.
            unsafe {
                let next = (*unused).next;
                self.free_span(slot, unused);
                unused = next;
            }
        }
    }

    pub(super) fn drain_own(self, slot: u32, takes: bool) -> bool {
        let word = self.word(slot, takes);
        match self.names_objects(word, takes) {
            Some(array) if self.replace(slot, takes, word, 0) => self.flush_out(slot, array),
            _ => return false,
        }
        true
    }

    /// Nobody is in the slot.
    fn drain_quiet(self, slot: u32, takes: bool) -> bool {
        // SAFETY: nobody is in the slot.
        let word = unsafe { slot::exchange(self.panel.base(), slot, self.index(takes), 0) };
        let array = Self::array_of(word, takes);
        if let Some(array) = array {
            self.flush_out(slot, array);
        }
        array.is_some()
    }

    /// Step 1 for one word, if its array holds objects.
    fn mark(self, slot: u32, takes: bool) -> Option<Marked> {
        self.names_objects(self.word(slot, takes), takes)?;
        // SAFETY: the protocol above.
        let before = unsafe { slot::exchange(self.panel.base(), slot, self.index(takes), DRAINING) };
        Some(Marked { cache: self.number(), slot, takes, before })
    }

    /// The array that a word names, if it holds any object.
    fn names_objects(self, word: usize, takes: bool) -> Option<Array> {
        Self::array_of(word, takes).filter(|array| !array.is_empty(self.panel))
    }

    /// Steps 3 and 4 for one word. True if its array was emptied.
    fn settle(self, word: Marked, restarted: bool) -> bool {
        let Marked { slot, takes, before, .. } = word;
        let next = if restarted { 0 } else { before };
        // SAFETY: the array is ours if the word is still draining, and goes back or becomes private.
        let kept = unsafe { slot::compare_exchange(self.panel.base(), slot, self.index(takes), DRAINING, next) };
        match Self::array_of(before, takes) {
            Some(array) if kept && restarted => self.flush_out(slot, array),
            _ => return false,
        }
        true
    }
}
