//! Chunks of object caches. This file hands out ids, and takes them back when a cache is destroyed.
//!
//! A chunk is address space for 127 caches in all possible slots. A slot's first use of one of them commits a page.
//! Chunks and cache descriptions are made on demand and kept for ever.
//!
//! **Creating a cache interrupts no CPU.** A new cache has no magazine that another CPU could work on, so no thread
//! restarts and no CPU needs a fence. Its words are zero, which means "empty and full". Threads learn of the cache from
//! the program. Destroying a cache restarts no thread either: the program guarantees that its users are done.
//!
//! Runs at the same time: a thread that claims or gives back an id holds the chunks' lock. Any thread reads the table.

use super::cache_ref::Chunk;
use super::cache_state::CacheState;
use crate::layout::{AREAS_END, IDS, Region, SLACK};
use crate::page_heap::PageHeap;
use core::cell::UnsafeCell;
use core::ptr::null_mut;
use machine::sync::{Acquired, AtomicPtr, AtomicU32, AtomicUsize, Lock, Ordering, Site};
use machine::{here, slot, vm};

/// Rank 1, because the drain lock's holder gives ids back.
const CHUNKS_RANK: u8 = 1;
/// Most chunks: ids for some four million caches.
const MOST: usize = 1 << 16;

/// The upper tier's description of a cache.
///
/// # Safety
/// All-zero memory is a valid one.
pub unsafe trait Descriptor: 'static {
    /// This tier's part of it.
    fn state(&self) -> &CacheState;
}

/// All chunks but the first, which holds the size classes. Zeroes: none.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Chunks {
    lock: Lock<CHUNKS_RANK>,
    /// Chunks in the table, from 1 on.
    count: AtomicU32,
    table: AtomicPtr<AtomicPtr<Chunk>>,
    /// Ids given out of the last chunk; under the lock.
    ids: AtomicUsize,
    /// Destroyed caches.
    free: UnsafeCell<*mut CacheState>,
}

// SAFETY: `free` is used under the lock.
unsafe impl Sync for Chunks {}

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

/// Releases a chunk that was never published.
pub fn release_chunk(chunk: Region) {
    // SAFETY: reserved above.
    unsafe { vm::release(chunk.base().wrapping_sub(SLACK), BYTES) };
}

/// Writes to this slot's area of a fresh chunk. The slot would read it first, and a page that is read before it is
/// written faults twice. The second fault interrupts all CPUs that run a thread of the process.
fn touch_area(chunk: Region) {
    let Some(slot) = slot::current_if_given() else { return };
    // SAFETY: a word of the slot's zeroed area, at id 0, which no cache has.
    unsafe { (*chunk.in_area::<AtomicUsize>(slot, 0)).store(0, Ordering::Relaxed) };
}

impl Chunks {
    /// The base of an existing chunk, by its number from 1 on.
    pub(super) fn base(&self, number: u32) -> Region {
        // Relaxed: the caller has the number from the chunk itself, or from a count read with acquire.
        let table = self.table.load(Ordering::Relaxed);
        // SAFETY: the table has an entry for the chunk, which is never unmapped.
        unsafe { Region::at((*table.add(number as usize)).load(Ordering::Relaxed).cast()) }
    }

    pub(super) fn count(&self) -> u32 {
        // Acquire pairs with the release in `add`: a thread that counts a chunk finds it in the table.
        self.count.load(Ordering::Acquire)
    }

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

    pub(super) fn give_back(&self, heap: &PageHeap, state: &CacheState) {
        // In a signal handler that must not wait, the id is lost.
        self.locked(heap, here!(), |free| {
            state.next.store(*free, Ordering::Relaxed);
            *free = (&raw const *state).cast_mut();
        });
    }

    /// A new description at the next id, under the lock. None: no memory.
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

    /// Adds a chunk, under the lock. None: no memory.
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
        // SAFETY: the chunk is ours, zeroes are valid, and the table has room.
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

    fn locked<R>(&self, heap: &PageHeap, site: Site, work: impl FnOnce(&mut *mut CacheState) -> R) -> Option<R> {
        // Single stores change the state. So after the holder vanished in a fork, at worst an id is lost.
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
