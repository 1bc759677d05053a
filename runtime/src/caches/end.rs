//! The end of a cache: all of its memory goes back at once.
//!
//! Nobody uses the cache any more, which its owner answers for; so its magazines are taken without restarting anybody,
//! and its spans as they are, without looking at the objects in them, unless those have to be destroyed. The drain lock
//! keeps threads away that go over all caches.

use super::errors::Alive;
use super::heap::Heap;
use super::object_cache::ObjectCache;
use crate::central::{CacheRef, Charged, NO_SLOT, NOBODY, Shape};
use crate::cpu_cache::{Side, SlotWord, Which};
use crate::depot::View;
use crate::observe::Why;
use machine::here;

impl Heap {
    /// Objects of a cache that the program has: exact at rest.
    pub(super) fn alive(&self, cache: CacheRef) -> usize {
        (self.central().counted(cache) as usize).saturating_sub(in_words(cache))
    }

    /// Ends a cache if no object of it is alive.
    ///
    /// # Safety
    /// It is an object cache, nobody else uses it meanwhile, and nobody at all afterwards.
    pub(super) unsafe fn end(&self, cache: CacheRef) -> Result<(), Alive> {
        let end = || {
            self.cpu.put_deferred_as_drainer();
            match self.alive(cache) {
                0 => {
                    self.end_at_once(cache);
                    Ok(())
                }
                many => Err(Alive::Objects(many)),
            }
        };
        self.cpu.as_only_drainer(here!(), end).unwrap_or(Err(Alive::Interrupting))
    }

    /// Ends a cache, whatever is alive. Under the drain lock.
    fn end_at_once(&self, cache: CacheRef) {
        let (central, depot) = (self.central(), &self.cpu.depot);
        let out = central.counted(cache) as isize;
        for slot in cache.slots() {
            self.take_apart(cache, slot);
        }
        let Some(object_cache) = ObjectCache::of(cache) else { return };
        while let Some(magazine) = object_cache.reserve.pop(self.locks()) {
            depot.keep_emptied(cache, NO_SLOT, magazine);
        }
        while let Some(span) = central.take_waiting(cache, NO_SLOT) {
            // SAFETY: it is ours, and nobody looks at it any more.
            unsafe { central.free_span(cache, NO_SLOT, span) };
        }
        central.count(cache, -out);
        cache.set_shape(Shape::NONE);
        object_cache.forget();
        central.give_id_back(object_cache.state());
    }

    /// Gives back what a slot has of a cache, objects in use or not.
    fn take_apart(&self, cache: CacheRef, slot: u32) {
        let (central, depot) = (self.central(), &self.cpu.depot);
        for side in Side::BOTH {
            // SAFETY: nobody uses the cache.
            if let Some(magazine) = unsafe { SlotWord::new(cache, slot, side).take_quietly() } {
                depot.keep_emptied(cache, slot, magazine);
            }
        }
        let held = depot.lock(cache, slot, here!());
        let stacks = [held.take_full(), held.take_empty()];
        // Spans in the ring belong to the shard that we hold.
        held.0.ring().iter().for_each(|span| span.set_owner(NOBODY));
        let spans = held.0.ring().take_all();
        self.cpu.shrink_held(&held);
        cache.load(slot).forget();
        drop(held);
        for stack in stacks {
            while let Some(magazine) = stack.pop() {
                depot.keep_emptied(cache, slot, magazine);
            }
        }
        for span in spans {
            // SAFETY: the span is ours, and no object of it is in use any more.
            unsafe { central.free_span(cache, slot, span) };
        }
    }

    // ---- the caches of a group ----

    /// Puts a table below that of the parent's account, if it is in no tree yet; but not in a signal handler that
    /// interrupted a drain.
    pub fn link_charged(&self, table: &Charged, parent: &Charged) {
        if table.is_loose() {
            // Of two threads that have found it loose, one is first.
            self.cpu.as_only_drainer(here!(), || table.is_loose().then(|| table.link(parent)));
        }
    }

    /// Ends all caches of a table, whatever is alive, and takes it out of its tree. False: not in a signal handler that
    /// interrupted a drain, and nothing happened.
    ///
    /// # Safety
    /// As for [`Self::end`], for each of them; nor does anybody use their objects.
    pub unsafe fn end_charged(&self, table: &Charged) -> bool {
        let end = || {
            self.cpu.put_deferred_as_drainer();
            table.caches().for_each(|cache| self.end_at_once(cache));
            table.unlink();
        };
        self.cpu.as_only_drainer(here!(), end).is_some()
    }

    /// Empties the magazines of all caches that an account is charged for, by its table. Returns their number; none:
    /// not now.
    pub fn drain_charged(&self, table: &Charged) -> Option<usize> {
        let (which, why) = (Which::Of(table), Why::Limit);
        self.cpu.as_only_drainer(here!(), || self.cpu.drain_magazines(which, why).magazines)
    }
}

/// Objects in the magazines of slots: exact at rest.
fn in_words(cache: CacheRef) -> usize {
    let words = cache.slots().flat_map(|slot| Side::BOTH.map(|side| SlotWord::new(cache, slot, side)));
    words.filter_map(SlotWord::view).map(View::len).sum()
}
