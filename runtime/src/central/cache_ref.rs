//! References to caches, and where a cache's words and shards lie. A chunk holds 127 caches, each with an id.
//!
//! The runtime's own region is the chunk of the size classes. Chunk and id lead to all of a cache; see `layout`.

use super::cache_state::CacheState;
use super::load::Load;
use super::ring::Ring;
use super::shape::Shape;
use crate::counter::Account;
use crate::layout::{self, HEADER, IDS, Region};
use machine::slot;
use machine::sync::{AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Lock, Ordering, compiler_fence};

pub const SHARD_RANK: u8 = 1;
/// Distance between the first cache numbers of two chunks.
pub const STRIDE: u32 = 128;
const _: () = assert!(IDS <= STRIDE as usize);
const _: () = assert!(slot::MAX <= 64 * u32::BITS as usize);

/// The slot whose shards serve threads that have no slot.
pub const NO_SLOT: u32 = slot::MAX as u32 - 1;

/// The head of each chunk. All-zero memory is a chunk without caches.
#[derive(Debug)]
#[repr(C)]
pub struct ChunkHead {
    /// A slot word that names no magazine points here.
    zero: u64,
    number: AtomicU32,
    /// A bit for each word of `used` that has any: most programs have one.
    used_words: AtomicU32,
    /// A bit for each slot that may have magazines or non-zero shards here. A walk over all slots reads only those.
    /// Reading any other area would map a page, and the slot's first write to it would fault and interrupt all CPUs.
    used: [AtomicU64; slot::MAX / 64],
    /// By id; zero where there is no cache, and always zero at id 0.
    shapes: [AtomicU64; IDS],
}

#[derive(Debug)]
#[repr(C)]
pub(super) struct Chunk {
    pub(super) head: ChunkHead,
    pub(super) caches: [AtomicPtr<CacheState>; IDS],
}

const _: () = assert!(size_of::<Chunk>() <= HEADER);

impl ChunkHead {
    /// Initialises a zeroed chunk that only this thread knows.
    pub fn begin(&self, number: u32) {
        // Relaxed, as for all of the head: the chunk or the cache publishes it.
        self.number.store(number, Ordering::Relaxed);
    }

    /// Sets the shapes of the caches from id 1 on, while no other thread runs.
    pub fn begin_shapes(&self, shapes: impl Iterator<Item = Shape>) {
        self.shapes[1..].iter().zip(shapes).for_each(|(word, shape)| word.store(shape.word(), Ordering::Relaxed));
    }

    /// The next used slot after `slot`, or else the first one.
    fn used_after(&self, slot: u32) -> Option<u32> {
        let load = |word: u32| self.used[word as usize].load(Ordering::Relaxed);
        let rest = load(slot / 64) & (!1 << (slot % 64));
        if rest != 0 {
            return Some((slot & !63) + rest.trailing_zeros());
        }
        let words = self.used_words.load(Ordering::Relaxed);
        let later = words & (!1 << (slot / 64));
        let word = if later == 0 { words } else { later }.trailing_zeros();
        // A word is marked before its first bit is. Then its last slot will do, which has nothing.
        (words != 0).then(|| word * 64 + load(word).trailing_zeros().min(63))
    }
}

/// A cache, as slow paths know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheRef {
    chunk: Region,
    /// From 1 on.
    id: u32,
}

/// A slow path searches this many other slots before it grows the heap.
const NEAR: usize = 64;

impl CacheRef {
    /// The cache at an id of a chunk.
    pub fn new(chunk: Region, id: usize) -> Self {
        CacheRef { chunk, id: id as u32 }
    }

    pub fn of(state: &CacheState) -> Self {
        let (chunk, id) = state.place();
        CacheRef::new(chunk, id)
    }

    #[inline]
    pub fn chunk(self) -> Region {
        self.chunk
    }

    /// Its id in the chunk. For a size class, this is the class.
    #[inline]
    pub fn id(self) -> usize {
        self.id as usize
    }

    fn head(self) -> &'static ChunkHead {
        // SAFETY: every chunk begins with its head, and is never unmapped.
        unsafe { &*self.chunk.base().cast::<ChunkHead>() }
    }

    /// The slots that may have something of the cache, among them [`NO_SLOT`].
    pub fn slots(self) -> impl Iterator<Item = u32> + use<> {
        self.slots_after(NO_SLOT)
    }

    /// The same slots without `slot`, from its next neighbour on.
    fn others(self, slot: u32) -> impl Iterator<Item = u32> + use<> {
        self.slots_after(slot).take_while(move |&other| other != slot)
    }

    /// The same slots, each once, from the next neighbour of `start` on.
    fn slots_after(self, start: u32) -> impl Iterator<Item = u32> + use<> {
        let (head, mut at, mut distances) = (self.head(), start, 0..slot::MAX as u32);
        core::iter::from_fn(move || {
            at = head.used_after(at)?;
            let distance = at.wrapping_sub(start + 1) % slot::MAX as u32;
            distances.contains(&distance).then(|| {
                distances.start = distance + 1;
                at
            })
        })
    }

    /// The first `NEAR` of the other slots.
    pub fn near(self, slot: u32) -> impl Iterator<Item = u32> + use<> {
        self.others(slot).take(NEAR)
    }

    /// The other slots after those.
    pub fn distant(self, slot: u32) -> impl Iterator<Item = u32> + use<> {
        self.others(slot).skip(NEAR)
    }

    /// Whether the slot may have something of the cache.
    pub fn is_used_in(self, slot: u32) -> bool {
        self.head().used[slot as usize / 64].load(Ordering::Relaxed) >> (slot % 64) & 1 == 1
    }

    /// Marks the slot before it gets something of the cache.
    #[inline]
    pub fn mark_used_in(self, slot: u32) {
        let (word, bit) = (&self.head().used[slot as usize / 64], 1 << (slot % 64));
        // Relaxed: a walk that misses a slot marked meanwhile counts as earlier, when the slot had nothing.
        if word.load(Ordering::Relaxed) & bit == 0 {
            // First: so a fork in between leaves no slot that walks miss.
            self.head().used_words.fetch_or(1 << (slot / 64), Ordering::Relaxed);
            compiler_fence(Ordering::SeqCst);
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// The cache's number in the process, from 1 on. For a size class, this is the class.
    pub fn number(self) -> u32 {
        self.head().number.load(Ordering::Relaxed) * STRIDE + self.id
    }

    #[inline]
    pub fn shape(self) -> Shape {
        Shape::from_word(self.head().shapes[self.id()].load(Ordering::Relaxed))
    }

    #[inline]
    pub fn object_bytes(self) -> usize {
        self.shape().object_bytes()
    }

    /// Sets the shape, for a new cache or to change it.
    pub fn set_shape(self, shape: Shape) {
        // Release pairs with the acquire in `exists`: a walk over all caches finds this one complete.
        self.head().shapes[self.id()].store(shape.word(), Ordering::Release);
    }

    /// Whether there is a cache at the id.
    pub fn exists(self) -> bool {
        Shape::from_word(self.head().shapes[self.id()].load(Ordering::Acquire)) != Shape::NONE
    }

    fn is_size_class(self) -> bool {
        self.head().number.load(Ordering::Relaxed) == 0
    }

    /// The page map's class for the cache's objects, which free reads. Zero for most caches that are not size classes.
    pub fn class_word(self) -> u8 {
        self.state().map_or(self.index() as u8, |state| state.home().class_word)
    }

    /// Its state, if a program made the cache.
    #[inline]
    pub fn state(self) -> Option<&'static CacheState> {
        if self.is_size_class() {
            return None;
        }
        // SAFETY: this is a chunk of object caches, whose states are never unmapped.
        unsafe { (&(*self.chunk.base().cast::<Chunk>()).caches)[self.id()].load(Ordering::Relaxed).as_ref() }
    }

    /// The account that pays for the cache's objects.
    #[inline]
    pub fn account(self) -> Option<&'static Account> {
        self.state()?.account()
    }

    /// The index of its allocation magazine's word in a slot's area. The word of the free magazine follows.
    #[inline(always)]
    pub fn index(self) -> usize {
        self.id() * 2
    }

    /// Chunk and index in one word, for tables on hot paths.
    pub fn word(self) -> usize {
        self.chunk.base() as usize | self.index()
    }

    /// The cache that [`Self::word`] encoded.
    ///
    /// # Safety
    /// `word` comes from [`Self::word`], and the cache still exists.
    pub unsafe fn from_word(word: usize) -> Self {
        const INDEX: usize = machine::vm::PAGE - 1;
        // SAFETY: chunks are page-aligned, and an index is smaller than a page.
        let chunk = unsafe { Region::at((word & !INDEX) as *mut u8) };
        CacheRef { chunk, id: ((word & INDEX) / 2) as u32 }
    }

    // ---- its shard in a slot ----

    /// The field of the slot's shard at an offset of `layout`.
    ///
    /// # Safety
    /// The field is a `T`, and all of `T` is atomic.
    #[inline]
    pub unsafe fn in_shard<T>(self, slot: u32, offset: usize) -> &'static T {
        // SAFETY: each slot has an area, which is never unmapped, and zeroes are valid.
        unsafe { &*self.chunk.in_shard(slot, self.id(), offset) }
    }

    #[inline]
    pub(super) fn lock(self, slot: u32) -> &'static Lock<SHARD_RANK> {
        // SAFETY: as `layout` says.
        unsafe { self.in_shard(slot, layout::LOCK) }
    }

    #[inline]
    pub fn ring(self, slot: u32) -> &'static Ring {
        // SAFETY: as `layout` says.
        unsafe { self.in_shard(slot, layout::RING) }
    }

    /// The miss rate there.
    #[inline]
    pub fn load(self, slot: u32) -> &'static Load {
        // SAFETY: as `layout` says.
        unsafe { self.in_shard(slot, layout::LOAD) }
    }

    /// Levels of magazine capacity above the shape's; see `cpu_cache::resize`. Under the shard's lock.
    #[inline]
    pub fn level(self, slot: u32) -> &'static AtomicU8 {
        // SAFETY: as `layout` says.
        unsafe { self.in_shard(slot, layout::LEVEL) }
    }

    /// Whether a thread holds the shard's lock now.
    pub fn is_held(self, slot: u32) -> bool {
        self.lock(slot).is_held()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    /// Planted bugs that were seen here: the first word after a wrap left out; the start twice.
    #[test]
    fn used_slots_are_walked_once_in_order_from_any_start() {
        // SAFETY: all-zero memory is a chunk without caches.
        let chunk: Chunk = unsafe { core::mem::zeroed() };
        // SAFETY: the chunk's head is all that is used.
        let cache = CacheRef::new(unsafe { Region::at((&raw const chunk).cast_mut().cast()) }, 1);
        assert_eq!(cache.slots().count() + cache.others(7).count(), 0);
        let mut used = Vec::new();
        for slot in [70, 0, 63, 64, NO_SLOT, 500, 5] {
            cache.mark_used_in(slot);
            used.push(slot);
            used.sort();
            assert_eq!(cache.slots().collect::<Vec<_>>(), used);
            for start in [0, 1, 5, 63, 64, 69, 70, 499, 501, NO_SLOT] {
                let (before, after): (Vec<_>, Vec<_>) =
                    used.iter().filter(|&&used| used != start).partition(|&&used| used < start);
                assert_eq!(cache.others(start).collect::<Vec<_>>(), [after, before].concat(), "from {start}");
            }
        }
    }
}
