//! Taking arrays away from slots, also from those of other CPUs.
//!
//! Another CPU's word cannot be compared and swapped: its owner changes it by plain instructions. Instead:
//!
//! 1. Exchange the word for a value that is empty (or full) for the owner. What was there says how full the array is.
//! 2. Restart the slot: now no operation is in flight that began before the store was visible.
//! 3. Look at the word. Still our value: the array is ours, as it was. Anything else: our store was lost under one of the
//!    owner's; the array is still theirs.
//! 4. If the restart was refused: put back what was there, where our value still is, in one step. Whoever has committed
//!    meanwhile keeps what they made of it, and whoever does so later makes it of the same word.
//!
//! Nobody else replaces a draining word: slow paths see it and leave it alone.

use super::array::{Array, DRAINING};
use super::shard::{self};
use super::{General, NO_SLOT, class, give_index, take_index};
use crate::page::PageList;
use machine::sync::{Acquired, Ordering};
use machine::{kick, slot};

impl General<'_> {
    /// Brings everything that is cached and free back to the zone: arrays, depots, page lists. Slots whose kick the machine
    /// refuses keep their arrays. Returns the number of arrays that were emptied.
    pub fn drain_all(self) -> usize {
        let depots: usize = self.depots().map(|slot| self.drain_depot(slot)).sum();
        let arrays = depots + (0..slot::in_use()).map(|slot| self.drain_slot(slot)).sum::<usize>();
        self.free_all_unused_spans();
        arrays
    }

    /// If a run of `pages`, aligned to `alignment` pages, would make the heap grow: brings depots, page lists and this slot's own arrays back, without a kick.
    /// True if that was done.
    pub fn drain_before_growth(self, pages: usize, alignment: usize) -> bool {
        if !self.slab.zone.is_about_to_grow(&self.slab.locks, pages, alignment) {
            return false;
        }
        for slot in self.depots() {
            self.drain_depot(slot);
        }
        if let Some(own) = slot::current() {
            self.drain_slot(own);
        }
        self.free_all_unused_spans();
        true
    }

    /// The slots whose shards may hold anything.
    fn depots(self) -> impl Iterator<Item = u32> {
        let slotless = self.slab.serves_slotless.load(Ordering::Relaxed).then_some(NO_SLOT);
        (0..slot::in_use()).chain(slotless.filter(|&slot| slot >= slot::in_use()))
    }

    fn drain_depot(self, slot: u32) -> usize {
        (1..class::CLASSES).map(|class| self.drain_shard(slot, class)).sum()
    }

    fn free_all_unused_spans(self) {
        for slot in self.depots() {
            (1..class::CLASSES).for_each(|class| self.free_unused_spans(slot, class));
            self.drain_page_list(slot);
        }
    }

    fn drain_page_list(self, slot: u32) {
        let (zone, locks) = (&self.slab.zone, &self.slab.locks);
        // SAFETY: the slot's page list.
        unsafe { PageList::drain(shard::page_list(self.region, slot), 0, zone, locks) };
    }

    fn drain_shard(self, slot: u32, class: usize) -> usize {
        let mut arrays = 0;
        loop {
            let full = self.lock(slot, class).pop_full(self.region);
            let Some(full) = full else { break };
            self.flush(slot, class, full);
            arrays += 1;
        }
        arrays
    }

    /// Gives the one unused span back that a shard may keep.
    fn free_unused_spans(self, slot: u32, class: usize) {
        let mut held = self.lock(slot, class);
        let mut span = held.spans;
        while !span.is_null() {
            // SAFETY: spans on the list belong to the shard that we hold.
            unsafe {
                let next = (*span).next;
                if (*span).is_unused() {
                    held.unlink_span(span);
                    self.free_span(slot, span);
                }
                span = next;
            }
        }
    }

    /// Empties the arrays of a slot: the calling thread's own without further ado, a dead thread's by taking its place, another
    /// CPU's with a kick.
    fn drain_slot(self, slot: u32) -> usize {
        if slot::current() == Some(slot) {
            return words().filter(|&(class, takes)| self.drain_own(slot, class, takes)).count();
        }
        match slot::mode() {
            slot::Mode::PerThread => slot::while_dead(slot, || self.drain_quiet(slot)).unwrap_or(0),
            slot::Mode::ConcurrencyId if kick::register().is_ok() => self.drain_other(slot),
            slot::Mode::ConcurrencyId => 0,
        }
    }

    /// Empties the arrays of a slot that no thread can be in.
    fn drain_quiet(self, slot: u32) -> usize {
        let drain = |&(class, takes): &(usize, bool)| {
            // SAFETY: nobody is in the slot.
            let word = unsafe { slot::exchange(self.region.base(), slot, index(class, takes), 0) };
            let array = array_of(word, takes);
            if let Some(array) = array {
                self.flush_out(slot, class, array);
            }
            array.is_some()
        };
        words().filter(drain).count()
    }

    fn drain_own(self, slot: u32, class: usize, takes: bool) -> bool {
        let word = self.word(slot, index(class, takes));
        let found = self.names_objects(word, takes);
        match found {
            Some(array) if self.replace(slot, index(class, takes), word, 0) => self.flush_out(slot, class, array),
            _ => return false,
        }
        true
    }

    /// One drainer at a time: of two, each could take the other's mark for its own.
    fn drain_other(self, slot: u32) -> usize {
        match self.slab.drain_lock.acquire(&self.slab.locks.shards) {
            Acquired::WouldDeadlock => return 0,
            Acquired::Abandoned => self.unmark_all(),
            Acquired::Clean => {}
        }
        let arrays = self.drain_marked(slot);
        // SAFETY: acquired above.
        unsafe { self.slab.drain_lock.release() };
        arrays
    }

    /// After a drainer vanished in a fork: what it was taking away is lost, and the words are free again.
    fn unmark_all(self) {
        for slot in 0..slot::in_use() {
            for (class, takes) in words().filter(|&(class, takes)| self.word(slot, index(class, takes)) == DRAINING) {
                // SAFETY: nobody replaces a draining word.
                unsafe { slot::exchange(self.region.base(), slot, index(class, takes), 0) };
            }
        }
    }

    fn drain_marked(self, slot: u32) -> usize {
        let mut marked = [None; 2 * class::CLASSES];
        let mut any = false;
        for (class, takes) in words() {
            let index = index(class, takes);
            if self.names_objects(self.word(slot, index), takes).is_some() {
                // SAFETY: the protocol above.
                marked[index] = Some(unsafe { slot::exchange(self.region.base(), slot, index, DRAINING) });
                any = true;
            }
        }
        if !any {
            return 0;
        }
        let restarted = kick::restart(slot).is_ok();
        let mut arrays = 0;
        for (class, takes) in words() {
            let index = index(class, takes);
            if let Some(before) = marked[index] {
                arrays += self.settle(slot, class, takes, before, restarted) as usize;
            }
        }
        arrays
    }

    /// The array that a word names, if it holds any object.
    fn names_objects(self, word: usize, takes: bool) -> Option<Array> {
        array_of(word, takes).filter(|array| !array.is_empty(self.region))
    }

    /// Steps 3 and 4 for one word.
    fn settle(self, slot: u32, class: usize, takes: bool, before: usize, restarted: bool) -> bool {
        let next = if restarted { 0 } else { before };
        // SAFETY: the array is ours if the word is still draining, and goes back or becomes private.
        let kept = unsafe { slot::compare_exchange(self.region.base(), slot, index(class, takes), DRAINING, next) };
        match array_of(before, takes) {
            Some(array) if kept && restarted => self.flush_out(slot, class, array),
            _ => return false,
        }
        true
    }
}

fn index(class: usize, takes: bool) -> usize {
    if takes { take_index(class) } else { give_index(class) }
}

/// All take and give words of a slot.
fn words() -> impl Iterator<Item = (usize, bool)> {
    (1..class::CLASSES).flat_map(|class| [(class, true), (class, false)])
}

fn array_of(word: usize, takes: bool) -> Option<Array> {
    if takes { Array::from_take_word(word) } else { Array::from_give_word(word) }
}
