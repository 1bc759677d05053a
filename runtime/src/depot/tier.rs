//! What the depot has for itself.

use super::arena::Arena;
use super::deferred::Deferred;
use super::magazine::Magazine;
use super::spare::Spare;
use crate::central::{Central, NO_SLOT};
use crate::layout::{self, Region};
use crate::observe::Events;
use machine::sync::{AtomicBool, Ordering};

/// The tier. Zeroes are one that has not begun.
#[derive(Debug)]
#[repr(C)]
pub struct Depot {
    cold: Cold,
    /// Magazines of objects that signal handlers could not give back.
    deferred: Deferred,
    /// Whether the shards of [`NO_SLOT`] were ever used.
    serves_slotless: AtomicBool,
    /// The tier below.
    pub central: Central,
}

/// What is used seldom, in lines of its own.
#[derive(Debug)]
#[repr(C, align(64))]
struct Cold {
    /// Empty magazines that no shard keeps.
    spare: Spare,
    /// Magazines that exist.
    magazines: Events,
}

impl Depot {
    /// Empty magazines that no shard keeps.
    #[inline]
    pub fn spare(&self) -> &Spare {
        &self.cold.spare
    }

    /// Magazines that exist.
    #[inline]
    pub fn magazines(&self) -> &Events {
        &self.cold.magazines
    }

    /// Memory for new magazines that a slot has cut.
    pub(super) fn arena(&self, slot: u32) -> &Arena {
        // SAFETY: nobody else uses these bytes of the slot's area.
        unsafe { &*Region::of_process().in_area(slot, layout::ARENA) }
    }

    /// The slot whose shard serves: a thread's own, or that of all threads without.
    pub fn slot_or_none(&self, slot: Option<u32>) -> u32 {
        slot.unwrap_or_else(|| {
            if !self.serves_slotless.load(Ordering::Relaxed) {
                self.serves_slotless.store(true, Ordering::Relaxed);
            }
            NO_SLOT
        })
    }

    /// Whether the shards of [`NO_SLOT`] were ever used.
    pub fn serves_slotless(&self) -> bool {
        self.serves_slotless.load(Ordering::Relaxed)
    }

    // ---- what signal handlers could not give back ----

    /// Keeps a magazine, whose objects count as outside of the depot, for the next thread that drains: a signal handler
    /// must not wait for the shard that owns a span.
    #[cold]
    pub(super) fn defer(&self, magazine: Magazine) {
        self.deferred.push(magazine);
    }

    /// Whether there is any.
    #[inline]
    pub fn has_deferred(&self) -> bool {
        !self.deferred.is_empty()
    }

    /// Takes all of them.
    pub fn take_deferred(&self) -> impl Iterator<Item = Magazine> {
        self.deferred.take()
    }
}
