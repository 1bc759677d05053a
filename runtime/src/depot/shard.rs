//! A slot's magazines in the depot.
//!
//! Runs at the same time: any thread, under the shard's lock, which is the central tier's; hints without it.

use super::magazine::{CountedStack, Magazine, Stack, View};
use super::tier::Depot;
use crate::central::{self, CacheRef};
use crate::layout;
use machine::sync::Site;

/// A shard whose lock is held.
#[derive(Debug)]
pub struct Held(pub central::Held);

/// A shard that other threads may change: what is said of it may be stale.
#[derive(Clone, Copy, Debug)]
pub struct Hints {
    full: &'static CountedStack,
    empty: &'static CountedStack,
}

impl Hints {
    /// Of a slot's shard.
    #[inline]
    pub fn of(cache: CacheRef, slot: u32) -> Self {
        // SAFETY: as `layout` says.
        unsafe { Hints { full: cache.in_shard(slot, layout::FULL), empty: cache.in_shard(slot, layout::EMPTY) } }
    }

    /// Magazines with objects.
    #[inline]
    pub fn full_count(self) -> usize {
        self.full.len()
    }

    /// The topmost of them: it may be somebody else's by now.
    pub fn topmost_full(self) -> Option<View<'static>> {
        self.full.topmost()
    }

    /// Whether there are magazines without objects.
    pub fn has_empty(self) -> bool {
        self.empty.topmost().is_some()
    }

    /// The magazines with objects, and those without. For tests: nobody else may be in the heap.
    pub fn stacks(self) -> [&'static CountedStack; 2] {
        [self.full, self.empty]
    }
}

impl Depot {
    /// Locks a slot's shard; see [`central::Central::lock`].
    #[inline]
    pub fn lock(&self, cache: CacheRef, slot: u32, site: Site) -> Held {
        Held(self.central.lock(cache, slot, site))
    }

    /// Locks a slot's shard if nobody holds it.
    pub(super) fn try_lock(&self, cache: CacheRef, slot: u32) -> Option<Held> {
        self.central.try_lock(cache, slot).map(Held)
    }
}

impl Held {
    /// The slot that it belongs to.
    #[inline]
    pub fn slot(&self) -> u32 {
        self.0.slot
    }

    fn stacks(&self) -> Hints {
        Hints::of(self.0.cache, self.0.slot)
    }

    /// Magazines with objects.
    pub fn full_count(&self) -> usize {
        self.stacks().full.len()
    }

    /// Magazines without objects.
    pub fn empty_count(&self) -> usize {
        self.stacks().empty.len()
    }

    /// Puts a magazine that holds objects on top.
    pub fn push_full(&self, magazine: Magazine) {
        self.stacks().full.push(magazine);
    }

    /// Takes a magazine that holds objects.
    pub fn pop_full(&self) -> Option<Magazine> {
        self.stacks().full.pop()
    }

    /// All of them.
    pub fn take_full(&self) -> Stack {
        self.stacks().full.take()
    }

    /// Keeps a magazine that holds no object.
    pub fn push_empty(&self, magazine: Magazine) {
        self.stacks().empty.push(magazine);
    }

    /// A magazine that holds no object, if one is kept.
    pub fn pop_empty(&self) -> Option<Magazine> {
        self.stacks().empty.pop()
    }

    /// All of them.
    pub fn take_empty(&self) -> Stack {
        self.stacks().empty.take()
    }
}
