//! A slot's magazines in the depot. Runs at the same time: any thread, under the shard's lock, which is the central
//! tier's; hints without it.

use super::magazine::{CountedStack, Magazine, Stack, View};
use super::tier::Depot;
use crate::central::{self, CacheRef};
use crate::layout;
use machine::sync::Site;

/// A shard whose lock is held.
#[derive(Debug)]
pub struct Held(pub central::Held);

/// A shard without its lock: all answers may be stale.
#[derive(Clone, Copy, Debug)]
pub struct Hints {
    full: &'static CountedStack,
    empty: &'static CountedStack,
}

impl Hints {
    /// Hints of a slot's shard.
    #[inline]
    pub fn of(cache: CacheRef, slot: u32) -> Self {
        // SAFETY: as `layout` says.
        unsafe { Hints { full: cache.in_shard(slot, layout::FULL), empty: cache.in_shard(slot, layout::EMPTY) } }
    }

    /// Number of full magazines.
    #[inline]
    pub fn full_count(self) -> usize {
        self.full.len()
    }

    /// The topmost full magazine, which another thread may own by now.
    pub fn topmost_full(self) -> Option<View<'static>> {
        self.full.topmost()
    }

    /// Whether there are empty magazines.
    pub fn has_empty(self) -> bool {
        self.empty.topmost().is_some()
    }

    /// The full and the empty magazines. For tests, while no other thread uses the heap.
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

    pub(super) fn try_lock(&self, cache: CacheRef, slot: u32) -> Option<Held> {
        self.central.try_lock(cache, slot).map(Held)
    }
}

impl Held {
    /// Its slot.
    #[inline]
    pub fn slot(&self) -> u32 {
        self.0.slot
    }

    fn stacks(&self) -> Hints {
        Hints::of(self.0.cache, self.0.slot)
    }

    /// Number of full magazines.
    pub fn full_count(&self) -> usize {
        self.stacks().full.len()
    }

    /// Number of empty magazines.
    pub fn empty_count(&self) -> usize {
        self.stacks().empty.len()
    }

    /// Pushes a magazine with objects.
    pub fn push_full(&self, magazine: Magazine) {
        self.stacks().full.push(magazine);
    }

    /// Pops a magazine with objects.
    pub fn pop_full(&self) -> Option<Magazine> {
        self.stacks().full.pop()
    }

    /// Takes all full magazines.
    pub fn take_full(&self) -> Stack {
        self.stacks().full.take()
    }

    /// Keeps an empty magazine.
    pub fn push_empty(&self, magazine: Magazine) {
        self.stacks().empty.push(magazine);
    }

    /// An empty magazine, if the shard keeps one.
    pub fn pop_empty(&self) -> Option<Magazine> {
        self.stacks().empty.pop()
    }

    /// Takes all empty magazines.
    pub fn take_empty(&self) -> Stack {
        self.stacks().empty.take()
    }
}
