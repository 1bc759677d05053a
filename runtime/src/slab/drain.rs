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
use super::panel::Handle;
use super::{General, NO_SLOT};
use crate::page::PageList;
use machine::sync::{Acquired, Ordering};
use machine::{kick, slot};

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

impl<'a> General<'a> {
    /// Brings everything that is cached and free back to the zone: arrays, depots, page lists. Slots whose kick the machine
    /// refuses keep their arrays. Returns the number of arrays that were emptied.
    pub fn drain_all(self) -> usize {
        let acquired = self.slab.registry().rare.0.drain_lock.acquire(&self.slab.locks().shards);
        self.as_drainer(acquired, || {
            let depots: usize = self.depots().map(|slot| self.drain_depot(slot)).sum();
            let arrays = depots + self.drain_own() + self.drain_others();
            self.free_all_unused_spans();
            arrays
        })
        .unwrap_or(0)
    }

    /// If a run of `pages`, aligned to `alignment` pages, would make the heap grow: brings depots, page lists and this slot's own arrays back, without a kick.
    /// True if that was done; not while another thread does.
    pub fn drain_before_growth(self, pages: usize, alignment: usize) -> bool {
        if !self.slab.zone.is_about_to_grow(self.slab.locks(), pages, alignment) {
            return false;
        }
        let lock = &self.slab.registry().rare.0.drain_lock;
        let acquired = match lock.try_acquire() {
            true => Acquired::Clean,
            false if lock.try_inherit() => Acquired::Abandoned,
            false => Acquired::WouldDeadlock,
        };
        let drain = || {
            for slot in self.depots() {
                self.drain_depot(slot);
            }
            self.drain_own();
            self.free_all_unused_spans();
        };
        self.as_drainer(acquired, drain).is_some()
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

    /// The slots whose shards may hold anything.
    fn depots(self) -> impl Iterator<Item = u32> {
        let slotless = self.slab.serves_slotless.load(Ordering::Relaxed).then_some(NO_SLOT);
        (0..slot::in_use()).chain(slotless.filter(|&slot| slot >= slot::in_use()))
    }

    fn drain_depot(self, slot: u32) -> usize {
        self.caches().map(|cache| cache.drain_shard(slot)).sum()
    }

    fn free_all_unused_spans(self) {
        for slot in self.depots() {
            self.caches().for_each(|cache| cache.free_unused_spans(slot));
            self.drain_page_list(slot);
        }
    }

    fn drain_page_list(self, slot: u32) {
        let (zone, locks) = (&self.slab.zone, self.slab.locks());
        // SAFETY: the slot's page list.
        unsafe { PageList::drain(super::shard::page_list(self.region, slot), 0, zone, locks) };
    }

    /// Empties the arrays of the slot that the calling thread is in.
    fn drain_own(self) -> usize {
        let Some(slot) = slot::current() else { return 0 };
        self.words().filter(|&(cache, takes)| cache.drain_own(slot, takes)).count()
    }

    /// Empties the arrays of all other slots: a dead thread's by taking its place, those of other CPUs with kicks.
    fn drain_others(self) -> usize {
        let own = slot::current();
        let others = (0..slot::in_use()).filter(|&slot| Some(slot) != own);
        match slot::mode() {
            slot::Mode::PerThread => others.filter_map(|slot| slot::while_dead(slot, || self.drain_quiet(slot))).sum(),
            slot::Mode::ConcurrencyId if kick::register().is_ok() => self.drain_marked(others),
            slot::Mode::ConcurrencyId => 0,
        }
    }

    /// Empties the arrays of a slot that no thread can be in.
    fn drain_quiet(self, slot: u32) -> usize {
        self.words().filter(|&(cache, takes)| cache.drain_quiet(slot, takes)).count()
    }

    /// After a drainer vanished in a fork: what it was taking away is lost, and the words are free again.
    fn unmark_all(self) {
        for slot in 0..slot::in_use() {
            for (cache, takes) in self.words().filter(|&(cache, takes)| cache.word(slot, takes) == DRAINING) {
                // SAFETY: nobody replaces a draining word.
                unsafe { slot::exchange(cache.panel.base(), slot, cache.index(takes), 0) };
            }
        }
    }

    /// Empties the arrays of slots that threads may be in.
    fn drain_marked(self, slots: impl Iterator<Item = u32>) -> usize {
        let mut marked = [Marked { cache: 0, slot: 0, takes: false, before: 0 }; AT_ONCE];
        let mut words = slots.flat_map(|slot| self.words().filter_map(move |(cache, takes)| cache.mark(slot, takes)));
        let mut arrays = 0;
        loop {
            let mut count = 0;
            for word in words.by_ref().take(AT_ONCE) {
                marked[count] = word;
                count += 1;
            }
            if count == 0 {
                return arrays;
            }
            let restarted = kick::restart_all().is_ok();
            let settle = |word: &&Marked| self.cache(word.cache).settle(**word, restarted);
            arrays += marked[..count].iter().filter(settle).count();
        }
    }

    /// All words that a slot has, as caches and whether the word is to take from.
    fn words(self) -> impl Iterator<Item = (Handle<'a>, bool)> {
        self.caches().flat_map(|cache| [(cache, true), (cache, false)])
    }
}

impl Handle<'_> {
    fn drain_shard(self, slot: u32) -> usize {
        let mut arrays = 0;
        loop {
            let full = self.lock(slot).pop_full(self.panel);
            let Some(full) = full else { break };
            self.flush(slot, full);
            arrays += 1;
        }
        arrays
    }

    /// Gives the unused spans back that a shard keeps.
    fn free_unused_spans(self, slot: u32) {
        let mut held = self.lock(slot);
        let spans = held.spans.iter();
        for span in spans {
            // SAFETY: spans in the ring belong to the shard that we hold.
            unsafe {
                if (*span).is_unused() {
                    held.spans.remove(span);
                    self.free_span(slot, span);
                }
            }
        }
    }

    fn drain_own(self, slot: u32, takes: bool) -> bool {
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
