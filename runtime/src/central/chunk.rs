//! The chunks of object caches: ids are handed out, and taken back when a cache is destroyed.
//!
//! A chunk is address space for 72 caches in all possible slots; a page of it is committed when a slot first uses one
//! of them. Chunks, and the descriptions of their caches, are made when needed and kept for ever.
//!
//! **Creation interrupts nobody.** A new cache has no magazine that another CPU could be working on, so nothing is
//! restarted and nothing fenced: its words are zero, which is "empty and full", and threads that get to know the cache
//! get to know them. Destroying one restarts nobody either: its users are through with it, which only they can know.
//!
//! Runs at the same time: a thread that creates a cache, or gives back an id, holds the chunks' lock; any thread reads
//! the table.

use super::cache_ref::Chunk;
use super::cache_state::CacheState;
use crate::layout::{AREAS_END, IDS, Region, SLACK};
use crate::page_heap::PageHeap;
use core::cell::UnsafeCell;
use core::ptr::null_mut;
use machine::sync::{Acquired, AtomicPtr, AtomicU32, AtomicUsize, Lock, Ordering, Site};
use machine::{here, slot, vm};

/// The lock's rank: the drain lock's holder gives ids back.
const CHUNKS_RANK: u8 = 1;
/// Chunks that there can be: ids for some four million caches.
const MOST: usize = 1 << 16;

/// What the tier of caches describes a cache by.
///
/// # Safety
/// All-zero memory is a valid one.
pub unsafe trait Descriptor: 'static {
    /// The part that this tier uses.
    fn state(&self) -> &CacheState;
}

/// All chunks but the first, which is that of the size classes. Zeroes: there is none.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Chunks {
    lock: Lock<CHUNKS_RANK>,
    /// Chunks in the table, from 1 on.
    count: AtomicU32,
    table: AtomicPtr<AtomicPtr<Chunk>>,
    /// Under the lock: ids given out of the last chunk.
    ids: AtomicUsize,
    /// Caches that were destroyed.
    free: UnsafeCell<*mut CacheState>,
}

// SAFETY: `free` is used under the lock.
unsafe impl Sync for Chunks {}

/// Bytes that a chunk takes.
const BYTES: usize = SLACK + AREAS_END;

/// Address space for a chunk, zeroed. None: no memory.
pub fn reserve_chunk() -> Option<Region> {
    let start = vm::reserve(null_mut(), BYTES, vm::Access::ReadWrite)?;
    // SAFETY: the mapping is fresh and ours. A huge page would make many slots' areas resident.
    unsafe {
        vm::advise_huge(start, BYTES, vm::Huge::Avoid);
        Some(Region::at(start.wrapping_add(SLACK)))
    }
}

/// Gives back a chunk that nobody has seen.
pub fn release_chunk(chunk: Region) {
    // SAFETY: reserved above.
    unsafe { vm::release(chunk.base().wrapping_sub(SLACK), BYTES) };
}

/// Writes to what this slot will use of a fresh chunk. It would read it first, and a page that is read before it is
/// written faults twice, the second time interrupting all CPUs that run a thread of the process.
fn touch_area(chunk: Region) {
    let Some(slot) = slot::current_if_given() else { return };
    // SAFETY: a word of the slot's area, which is zero: that of id 0, which is no cache's.
    unsafe { (*chunk.in_area::<AtomicUsize>(slot, 0)).store(0, Ordering::Relaxed) };
}

impl Chunks {
    /// The base of a chunk that there is, by its number from 1 on.
    pub(super) fn base(&self, number: u32) -> Region {
        // Relaxed: whoever knows the number knows it from the chunk, or from a count that was read with acquire.
        let table = self.table.load(Ordering::Relaxed);
        // SAFETY: the table has an entry for the chunk, which is never unmapped.
        unsafe { Region::at((*table.add(number as usize)).load(Ordering::Relaxed).cast()) }
    }

    /// Chunks in the table.
    pub(super) fn count(&self) -> u32 {
        // Acquire pairs with the release in `add`: who counts a chunk finds it in the table.
        self.count.load(Ordering::Acquire)
    }

    /// A description, of the kind `D`, with an id where no cache exists. None: no memory.
    pub(super) fn claim<D: Descriptor>(&self, heap: &PageHeap) -> Option<&'static CacheState> {
        self.locked(heap, here!(), |free| {
            // SAFETY: descriptions are never unmapped.
            if let Some(state) = unsafe { free.as_ref() } {
                *free = state.next.load(Ordering::Relaxed);
                return Some(state);
            }
            self.cut_id::<D>(heap)
        })?
    }

    /// Takes the id of a cache back that does not exist any more.
    pub(super) fn give_back(&self, heap: &PageHeap, state: &CacheState) {
        // In a signal handler that must not wait, the id is lost.
        self.locked(heap, here!(), |free| {
            state.next.store(*free, Ordering::Relaxed);
            *free = (&raw const *state).cast_mut();
        });
    }

    /// Under the lock: a new description, at the next id. None: no memory.
    fn cut_id<D: Descriptor>(&self, heap: &PageHeap) -> Option<&'static CacheState> {
        let mut id = self.ids.load(Ordering::Relaxed);
        if id == 0 || id == IDS {
            self.add(heap)?;
            id = 1;
            self.ids.store(id, Ordering::Relaxed);
        }
        let made = heap.metadata.cut(size_of::<D>(), align_of::<D>())?.cast::<D>();
        // SAFETY: fresh metadata is zero, which is valid, and is never taken back.
        let state = unsafe { &*made }.state();
        let chunk = self.base(self.count.load(Ordering::Relaxed));
        state.begin_at(chunk, id);
        // SAFETY: a chunk begins there.
        let known = unsafe { &(&(*chunk.base().cast::<Chunk>()).caches)[id] };
        known.store((&raw const *state).cast_mut(), Ordering::Relaxed);
        self.ids.store(id + 1, Ordering::Relaxed);
        Some(state)
    }

    /// Makes another chunk; under the lock. None: no memory.
    fn add(&self, heap: &PageHeap) -> Option<()> {
        let count = self.count.load(Ordering::Relaxed);
        if self.table.load(Ordering::Relaxed).is_null() {
            let table = heap.metadata.cut(MOST * size_of::<*mut Chunk>(), vm::PAGE)?;
            self.table.store(table.cast(), Ordering::Relaxed);
        }
        if count as usize + 1 == MOST {
            return None;
        }
        let chunk = reserve_chunk()?;
        // SAFETY: the chunk is ours, zeroes are a valid one, and the table has room.
        unsafe {
            (*chunk.base().cast::<Chunk>()).head.begin(count + 1);
            let table = self.table.load(Ordering::Relaxed);
            (*table.add(count as usize + 1)).store(chunk.base().cast(), Ordering::Relaxed);
        }
        touch_area(chunk);
        // Release pairs with the acquire in `count`.
        self.count.store(count + 1, Ordering::Release);
        Some(())
    }

    /// None in a signal handler that must not wait.
    fn locked<R>(&self, heap: &PageHeap, site: Site, work: impl FnOnce(&mut *mut CacheState) -> R) -> Option<R> {
        // A holder that vanished in a fork leaves the state in order: it changes by single stores, and at worst an id
        // is lost.
        if self.lock.acquire(&heap.locks().caches, site) == Acquired::WouldDeadlock {
            return None;
        }
        // SAFETY: we hold the lock.
        let result = work(unsafe { &mut *self.free.get() });
        // SAFETY: acquired above.
        unsafe { self.lock.release() };
        Some(result)
    }
}
