//! The state of the depot.

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
    deferred: Deferred,
    serves_slotless: AtomicBool,
    /// The tier below.
    pub central: Central,
}

/// State off the fast path, in cache lines of its own.
#[derive(Debug)]
#[repr(C, align(64))]
struct Cold {
    spare: Spare,
    magazines: Events,
}

impl Depot {
    /// Empty magazines that no shard keeps.
    #[inline]
    pub fn spare(&self) -> &Spare {
        &self.cold.spare
    }

    /// Number of magazines that exist.
    #[inline]
    pub fn magazines(&self) -> &Events {
        &self.cold.magazines
    }

    /// The slot's magazine arena.
    pub(super) fn arena(&self, slot: u32) -> &Arena {
        // SAFETY: these bytes of the slot's area serve nothing else.
        unsafe { &*Region::of_process().in_area(slot, layout::ARENA) }
    }

    /// The slot whose shard serves a thread: its own, or [`NO_SLOT`] for threads without one.
    pub fn slot_or_none(&self, slot: Option<u32>) -> u32 {
        slot.unwrap_or_else(|| {
            if !self.serves_slotless.load(Ordering::Relaxed) {
                self.serves_slotless.store(true, Ordering::Relaxed);
            }
            NO_SLOT
        })
    }

    /// Whether any thread has used the shards of [`NO_SLOT`].
    pub fn serves_slotless(&self) -> bool {
        self.serves_slotless.load(Ordering::Relaxed)
    }

    // ---- deferred magazines ----

    /// Defers a magazine, whose objects count as outside of the depot, to the next drain.
    #[cold]
    pub(super) fn defer(&self, magazine: Magazine) {
        self.deferred.push(magazine);
    }

    /// Whether a magazine is deferred.
    #[inline]
    pub fn has_deferred(&self) -> bool {
        !self.deferred.is_empty()
    }

    /// Takes all deferred magazines.
    pub fn take_deferred(&self) -> impl Iterator<Item = Magazine> {
        self.deferred.take()
    }
}
