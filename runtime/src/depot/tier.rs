//! The state of the depot, and what a slot has of it: its shards and its magazine arena.
//!
//! Runs at the same time: any thread. A shard changes under its lock, which is the central tier's. Threads look at it
//! without the lock. Threads, also in signal handlers, take memory from an arena without a lock.

use super::magazine::{Magazine, View};
use super::spare::Spare;
use super::stack::{CountedStack, Deferred, Stack};
use crate::central::{self, CacheRef, Central, NO_SLOT, depot_budget};
use crate::layout::{self, Region};
use crate::observe::Events;
use crate::page_heap::Metadata;
use machine::slot::ARRAY;
use machine::sync::{AtomicBool, AtomicU8, AtomicU32, AtomicUsize, Ordering, Site};

/// The tier. Zeroes are one that has not begun.
#[derive(Debug)]
#[repr(C)]
pub struct Depot {
    cold: Cold,
    /// Objects that signal handlers could not return.
    pub deferred: Deferred,
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

    /// The slot whose shard serves a thread: its own, or `NO_SLOT` for threads without one.
    pub fn slot_or_none(&self, slot: Option<u32>) -> u32 {
        slot.unwrap_or_else(|| {
            if !self.serves_slotless.load(Ordering::Relaxed) {
                self.serves_slotless.store(true, Ordering::Relaxed);
            }
            NO_SLOT
        })
    }

    /// Whether any thread has used the shards of `NO_SLOT`.
    pub fn serves_slotless(&self) -> bool {
        self.serves_slotless.load(Ordering::Relaxed)
    }

    /// For tests: what a slot's depots hold is counted.
    #[doc(hidden)]
    pub fn check_bytes(&self, slot: u32) {
        let caches = self.central.caches().filter(|cache| cache.is_used_in(slot));
        let held: usize = caches.map(|cache| Hints::of(cache, slot).bytes_beyond_one(cache)).sum();
        assert_eq!(held, beyond_one(slot).load(Ordering::Relaxed), "bytes in depots of slot {slot}, and counted ones");
    }

    /// Locks a slot's shard; see `central::Central::lock`.
    #[inline]
    pub fn lock(&self, cache: CacheRef, slot: u32, site: Site) -> Held {
        Held(self.central.lock(cache, slot, site))
    }

    /// The same if it is free.
    pub(super) fn try_lock(&self, cache: CacheRef, slot: u32) -> Option<Held> {
        self.central.try_lock(cache, slot).map(Held)
    }
}

/// Bytes of objects in a slot's depots, without the lowest magazine of each. All-zero memory: none.
fn beyond_one(slot: u32) -> &'static AtomicUsize {
    // SAFETY: these bytes of the slot's area serve nothing else.
    unsafe { &*Region::of_process().in_area(slot, layout::DEPOT_BYTES) }
}

/// The slot that last stole full magazines from another one's shard, plus 1. It gets the next ones at once, so that a
/// consumer's magazines go straight to its producer. 0: none, or the slot itself needed one since. Relaxed: a hint.
pub(super) fn taker(cache: CacheRef, slot: u32) -> &'static AtomicU32 {
    // SAFETY: these bytes of the slot's area serve nothing else.
    unsafe { &*cache.chunk().in_area(slot, layout::DEPOT_TAKER + 4 * cache.id()) }
}

/// A shard whose lock is held.
#[derive(Debug)]
pub struct Held(pub central::Held);

/// A shard without its lock: all answers may be stale.
#[derive(Clone, Copy, Debug)]
pub struct Hints {
    pub(super) full: &'static CountedStack,
    pub(super) empty: &'static CountedStack,
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

    /// Bytes of objects in the full magazines, without the lowest one. While no other thread changes them.
    fn bytes_beyond_one(self, cache: CacheRef) -> usize {
        let beyond = self.full.iter().take(self.full.len().saturating_sub(1));
        beyond.map(View::len).sum::<usize>() * cache.object_bytes()
    }

    /// The full and the empty magazines. For tests, while no other thread uses the heap.
    pub fn stacks(self) -> [&'static CountedStack; 2] {
        [self.full, self.empty]
    }
}

impl Held {
    pub(super) fn stacks(&self) -> Hints {
        Hints::of(self.0.cache(), self.0.slot)
    }

    /// Pushes a magazine with objects.
    #[inline(never)]
    pub fn push_full(&self, magazine: Magazine) {
        let full = self.stacks().full;
        if full.len() > 0 {
            // Before it is there: if this thread vanishes in a fork, the count is too high, and never below zero.
            self.beyond_one().fetch_add(magazine.len() * self.0.cache().object_bytes(), Ordering::Relaxed);
        }
        full.push(magazine);
    }

    /// Pops a magazine with objects.
    #[inline(never)]
    pub fn pop_full(&self) -> Option<Magazine> {
        let full = self.stacks().full;
        let magazine = full.pop()?;
        let left = full.len();
        if left > 0 {
            self.beyond_one().fetch_sub(magazine.len() * self.0.cache().object_bytes(), Ordering::Relaxed);
            if left < usize::from(self.least().load(Ordering::Relaxed)) {
                self.least().store(left as u8, Ordering::Relaxed);
            }
        }
        Some(magazine)
    }

    /// Takes all magazines, the full ones and the empty ones.
    pub fn take_all(&self) -> [Stack; 2] {
        let beyond = self.stacks().bytes_beyond_one(self.0.cache());
        if beyond > 0 {
            self.beyond_one().fetch_sub(beyond, Ordering::Relaxed);
        }
        self.stacks().stacks().map(CountedStack::take)
    }

    /// Whether the slot's depots keep no more than their budget.
    pub(super) fn is_within_budget(&self) -> bool {
        self.beyond_one().load(Ordering::Relaxed) <= depot_budget()
    }

    /// Number of full magazines that were not needed since the last call: the shard never had fewer, but for one.
    /// Its present number counts as the least of the next interval.
    pub(super) fn end_interval(&self) -> usize {
        let full = self.stacks().full.len();
        let unneeded = full.min(self.least().load(Ordering::Relaxed).into()).saturating_sub(1);
        self.least().store((full - unneeded).min(u8::MAX.into()) as u8, Ordering::Relaxed);
        unneeded
    }

    /// Other shards' holders change it, too.
    fn beyond_one(&self) -> &'static AtomicUsize {
        beyond_one(self.0.slot)
    }

    /// Fewest full magazines since the last turn of upkeep, if there was more than one.
    fn least(&self) -> &'static AtomicU8 {
        let cache = self.0.cache();
        // SAFETY: as above; there is a byte for each id.
        unsafe { &*cache.chunk().in_area(self.0.slot, layout::DEPOT_LEAST + cache.id()) }
    }

    /// Keeps an empty magazine.
    pub fn push_empty(&self, magazine: Magazine) {
        debug_assert!(magazine.is_empty(), "{} objects in an empty magazine", magazine.len());
        self.stacks().empty.push(magazine);
    }

    /// An empty magazine, if the shard keeps one.
    pub fn pop_empty(&self) -> Option<Magazine> {
        self.stacks().empty.pop()
    }
}

/// Magazines cut at once. The unused part is only address space.
const AT_ONCE: usize = 16;
/// Bits of the word that count the magazines left; above them lies the address of the next one.
const LEFT: usize = ARRAY - 1;
const _: () = assert!(AT_ONCE <= LEFT);

/// A slot's cut but unused memory, so that threads that grow at once do not queue. All-zero memory: none. The word has
/// each value once in a process's life, as memory is never cut twice. So a successful exchange saw no other value in
/// between. Relaxed: no thread has written to this memory.
#[derive(Debug)]
#[repr(transparent)]
pub struct Arena(AtomicUsize);

impl Arena {
    /// Memory for a magazine. None: out of memory.
    pub fn take(&self, metadata: &Metadata) -> Option<*mut u8> {
        let mut word = self.0.load(Ordering::Relaxed);
        while word & LEFT != 0 {
            match self.0.compare_exchange_weak(word, word + ARRAY - 1, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some((word & !LEFT) as *mut u8),
                Err(seen) => word = seen,
            }
        }
        let Some(memory) = metadata.cut(AT_ONCE * ARRAY, ARRAY) else { return metadata.cut(ARRAY, ARRAY) };
        // If another thread was faster, the rest of ours stays unused, which costs only address space.
        let rest = (memory as usize + ARRAY) | (AT_ONCE - 1);
        let _ = self.0.compare_exchange(word, rest, Ordering::Relaxed, Ordering::Relaxed);
        Some(memory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::vm;
    use std::collections::BTreeSet;
    use std::vec::Vec;

    #[test]
    fn memory_that_two_threads_take_is_taken_once() {
        const BYTES: usize = 64 << 20;
        let space = vm::reserve(core::ptr::null_mut(), BYTES, vm::Access::ReadWrite).expect("there is memory");
        // SAFETY: zeroes are valid metadata that has not begun.
        let metadata: Metadata = unsafe { core::mem::zeroed() };
        // SAFETY: within the mapping, or its end.
        metadata.begin(space, unsafe { space.add(BYTES) });
        let arena = Arena(AtomicUsize::new(0));
        let take = || (0..20_000).map(|_| arena.take(&metadata).expect("there is room") as usize).collect::<Vec<_>>();
        let taken: Vec<usize> = std::thread::scope(|scope| {
            let threads = [scope.spawn(take), scope.spawn(take)];
            threads.into_iter().flat_map(|thread| thread.join().expect("it took")).collect()
        });
        assert!(
            taken.iter().all(|at| at.is_multiple_of(ARRAY) && (space as usize..space as usize + BYTES).contains(at))
        );
        assert_eq!(BTreeSet::from_iter(&taken).len(), taken.len());
    }
}
