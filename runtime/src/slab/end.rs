//! The end of a cache: all of its memory goes back at once.
//!
//! Nobody uses the cache any more, which its owner answers for; so its arrays are taken without restarting anybody, and its spans as they
//! are, without looking at the objects in them, unless those have to be destroyed. The drain lock keeps those away who go over all caches.

use super::array::{Array, Stack};
use super::lingering::NOBODY;
use super::panel::Handle;
use super::shape::Shape;
use super::{General, NO_SLOT};
use core::fmt;
use machine::{here, slot};

/// Why a cache was not destroyed. Nothing happened to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alive {
    /// So many objects of it are alive.
    Objects(usize),
    /// A signal handler interrupted somebody who goes over all caches.
    Interrupting,
}

impl fmt::Display for Alive {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Alive::Objects(1) => out.write_str("an object of the cache is alive: free it first"),
            Alive::Objects(many) => write!(out, "{many} objects of the cache are alive: free them first"),
            Alive::Interrupting => {
                out.write_str("a cache cannot be destroyed by a signal handler that interrupted a drain")
            }
        }
    }
}

impl core::error::Error for Alive {}

impl Handle<'_> {
    /// Objects that the program has: exact at rest.
    pub(super) fn alive(self) -> usize {
        (self.counted() as usize).saturating_sub(self.in_words())
    }

    /// Objects in the arrays of slots: exact at rest.
    fn in_words(self) -> usize {
        let in_word =
            |slot, takes| Self::array_of(self.word(slot, takes), takes).map_or(0, |array| array.len(self.panel));
        self.slots().map(|slot| in_word(slot, true) + in_word(slot, false)).sum()
    }

    /// Ends the cache if no object of it is alive.
    ///
    /// # Safety
    /// It is an object cache, nobody else uses it meanwhile, and nobody at all afterwards.
    pub(super) unsafe fn end(self) -> Result<(), Alive> {
        let end = |general: General<'_>| {
            general.put_deferred_as_drainer();
            match self.alive() {
                0 => {
                    self.end_at_once();
                    Ok(())
                }
                many => Err(Alive::Objects(many)),
            }
        };
        self.general().as_only_drainer(here!(), end).unwrap_or(Err(Alive::Interrupting))
    }

    /// Ends the cache, whatever is alive. Under the drain lock.
    pub(super) fn end_at_once(self) {
        let out = self.counted() as isize;
        for slot in self.slots() {
            self.take_apart(slot);
        }
        if let Some(cache) = self.object_cache() {
            while let Some(array) = cache.reserve.pop(self) {
                self.keep_emptied(NO_SLOT, array);
            }
            while let Some(span) = self.take_lingering(NO_SLOT) {
                // SAFETY: it is ours, and nobody looks at it any more.
                unsafe { self.free_span(NO_SLOT, span) };
            }
            self.count(-out);
            self.set_shape(Shape::NONE);
            cache.forget();
            cache.end_debug();
            self.general().give_place_back(cache);
        }
    }

    /// Gives back what a slot has of the cache, objects in use or not.
    fn take_apart(self, slot: u32) {
        for takes in [true, false] {
            // SAFETY: nobody uses the cache.
            let word = unsafe { slot::exchange(self.panel.base(), slot, self.index(takes), 0) };
            if let Some(array) = Self::array_of(word, takes) {
                self.keep_emptied(slot, array);
            }
        }
        let mut held = self.lock(slot, here!());
        let full = core::mem::replace(&mut held.full, Stack::new());
        let empty = held.take_empty();
        // SAFETY: spans in the ring belong to the shard that we hold.
        held.spans.iter().for_each(|span| unsafe { (*span).set_owner(NOBODY) });
        let spans = held.spans.take_all();
        self.fall_held(&mut held);
        held.forget();
        drop(held);
        for mut stack in [full, empty] {
            while let Some(array) = stack.pop(self.panel) {
                self.keep_emptied(slot, array);
            }
        }
        for span in spans {
            // SAFETY: the span is ours, and no object of it is in use any more.
            unsafe { self.free_span(slot, span) };
        }
    }

    /// Keeps a private array whose objects go with their spans.
    pub(super) fn keep_emptied(self, slot: u32, array: Array) {
        let empty = array.emptied(self.panel);
        if !self.keep_spare(empty) {
            self.lock(slot, here!()).push_empty(self.panel, empty);
        }
    }
}
