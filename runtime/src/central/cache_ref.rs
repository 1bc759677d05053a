//! References to caches, and where the words and shards of a cache lie: 72 caches to a chunk, each with an id there.
//!
//! The runtime's own region begins as a chunk does: it is the chunk of the size classes, which are caches like others.
//! All that slow paths ask about a cache is found from its chunk and its id; `layout` has the drawing.

use super::cache_state::CacheState;
use super::load::Load;
use super::ring::Ring;
use super::shape::Shape;
use crate::counter::Account;
use crate::layout::{self, HEADER, IDS, Region};
use machine::slot;
use machine::sync::{AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Lock, Ordering};

/// Rank of a shard's lock.
pub const SHARD_RANK: u8 = 1;
/// Numbers of caches from one chunk's first to the next one's.
pub const STRIDE: u32 = 128;
const _: () = assert!(IDS <= STRIDE as usize);

/// The slot whose shards serve threads that have no slot.
pub const NO_SLOT: u32 = slot::MAX as u32 - 1;

/// What every chunk begins with. All-zero memory is a chunk without caches.
#[derive(Debug)]
#[repr(C)]
pub struct ChunkHead {
    /// Where a word that names no magazine points to.
    zero: u64,
    number: AtomicU32,
    /// A bit for each slot that may have anything here, magazines or shards that are not zero. A thread that goes over
    /// all slots looks at those only: a page of an area that is read would be mapped, and its slot's first write to it
    /// would fault and interrupt all CPUs.
    used: [AtomicU64; slot::MAX / 64],
    /// By id; zero where there is no cache, as at id 0 always.
    shapes: [AtomicU64; IDS],
}

/// A chunk of object caches begins so.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Chunk {
    pub(super) head: ChunkHead,
    /// What is known of its caches, by id.
    pub(super) caches: [AtomicPtr<CacheState>; IDS],
}

const _: () = assert!(size_of::<Chunk>() <= HEADER);

impl ChunkHead {
    /// Begins a chunk that is zeroed. Nobody else knows it.
    pub fn begin(&self, number: u32) {
        // Relaxed, as everywhere here: what the head says is published with the chunk, or with the cache.
        self.number.store(number, Ordering::Relaxed);
    }

    /// Says what shapes the caches have from id 1 on. Nobody else runs.
    pub fn begin_shapes(&self, shapes: impl Iterator<Item = Shape>) {
        self.shapes[1..].iter().zip(shapes).for_each(|(word, shape)| word.store(shape.word(), Ordering::Relaxed));
    }

    /// The slots that may have anything here.
    fn slots(&self) -> impl Iterator<Item = u32> {
        let bits = |mut word: u64| {
            core::iter::from_fn(move || {
                let bit = word.trailing_zeros();
                word &= word.wrapping_sub(1);
                (bit < u64::BITS).then_some(bit)
            })
        };
        let words = self.used.iter().enumerate();
        words.flat_map(move |(at, word)| bits(word.load(Ordering::Relaxed)).map(move |bit| at as u32 * 64 + bit))
    }
}

/// A cache, as slow paths know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheRef {
    chunk: Region,
    /// From 1 on.
    id: u32,
}

/// So many slots are looked at for one that has what another one needs, before the heap would have to grow.
const NEAR: usize = 64;

impl CacheRef {
    /// The cache at an id of a chunk.
    pub fn new(chunk: Region, id: usize) -> Self {
        CacheRef { chunk, id: id as u32 }
    }

    /// The cache that a description is of.
    pub fn of(state: &CacheState) -> Self {
        let (chunk, id) = state.place();
        CacheRef::new(chunk, id)
    }

    /// Where its words and shards lie.
    #[inline]
    pub fn chunk(self) -> Region {
        self.chunk
    }

    /// Its id there: of a size class, the class.
    #[inline]
    pub fn id(self) -> usize {
        self.id as usize
    }

    fn head(self) -> &'static ChunkHead {
        // SAFETY: every chunk begins with its head, and is never unmapped.
        unsafe { &*self.chunk.base().cast::<ChunkHead>() }
    }

    /// The slots that may have anything of the cache, that of threads without one among them.
    pub fn slots(self) -> impl Iterator<Item = u32> + use<> {
        self.head().slots()
    }

    /// The same but one, from its next neighbour on.
    fn others(self, slot: u32) -> impl Iterator<Item = u32> + use<> {
        let behind = self.slots().skip_while(move |&other| other <= slot);
        behind.chain(self.slots().take_while(move |&other| other < slot))
    }

    /// The nearest of them: all, but in a process with very many slots.
    pub fn near(self, slot: u32) -> impl Iterator<Item = u32> + use<> {
        self.others(slot).take(NEAR)
    }

    /// The rest of them.
    pub fn distant(self, slot: u32) -> impl Iterator<Item = u32> + use<> {
        self.others(slot).skip(NEAR)
    }

    /// Whether a slot may have anything of the cache.
    pub fn is_used_in(self, slot: u32) -> bool {
        self.head().used[slot as usize / 64].load(Ordering::Relaxed) >> (slot % 64) & 1 == 1
    }

    /// Says that a slot is about to have something of the cache.
    #[inline]
    pub fn mark_used_in(self, slot: u32) {
        let (word, bit) = (&self.head().used[slot as usize / 64], 1 << (slot % 64));
        // Relaxed: a thread that goes over all slots and misses one that is marked meanwhile has come before that has
        // anything.
        if word.load(Ordering::Relaxed) & bit == 0 {
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// The cache's number in the process, from 1 on: those of size classes are the classes'.
    pub fn number(self) -> u32 {
        self.head().number.load(Ordering::Relaxed) * STRIDE + self.id
    }

    /// Its shape, at some moment.
    #[inline]
    pub fn shape(self) -> Shape {
        Shape::from_word(self.head().shapes[self.id()].load(Ordering::Relaxed))
    }

    /// Bytes of an object.
    #[inline]
    pub fn object_bytes(self) -> usize {
        self.shape().object_bytes()
    }

    /// Begins, or changes, with a shape.
    pub fn set_shape(self, shape: Shape) {
        // Release pairs with the acquire in `exists`: a thread that goes over all caches finds this one as it was made.
        self.head().shapes[self.id()].store(shape.word(), Ordering::Release);
    }

    /// Whether there is a cache at the id.
    pub fn exists(self) -> bool {
        Shape::from_word(self.head().shapes[self.id()].load(Ordering::Acquire)) != Shape::NONE
    }

    fn is_size_class(self) -> bool {
        self.head().number.load(Ordering::Relaxed) == 0
    }

    /// What free finds in the page map for the cache's objects: zero for those that are of no size class.
    pub fn class_word(self) -> u8 {
        if self.is_size_class() { self.index() as u8 } else { 0 }
    }

    /// What else is known of it, if a program made it.
    #[inline]
    pub fn state(self) -> Option<&'static CacheState> {
        if self.is_size_class() {
            return None;
        }
        // SAFETY: the chunk is one of object caches, whose descriptions are never unmapped.
        unsafe { (&(*self.chunk.base().cast::<Chunk>()).caches)[self.id()].load(Ordering::Relaxed).as_ref() }
    }

    /// Who is charged for the cache's objects.
    #[inline]
    pub fn account(self) -> Option<&'static Account> {
        self.state()?.account()
    }

    /// The index of its two magazine words in a slot's area: that of the allocation magazine.
    #[inline(always)]
    pub fn index(self) -> usize {
        self.id() * 2
    }

    /// Chunk and index in one word, for tables that are looked up often.
    pub fn word(self) -> usize {
        self.chunk.base() as usize | self.index()
    }

    /// The cache that [`Self::word`] said.
    ///
    /// # Safety
    /// It did, and the cache exists still.
    pub unsafe fn from_word(word: usize) -> Self {
        const INDEX: usize = machine::vm::PAGE - 1;
        // SAFETY: chunks begin at pages, and an index is less.
        let chunk = unsafe { Region::at((word & !INDEX) as *mut u8) };
        CacheRef { chunk, id: ((word & INDEX) / 2) as u32 }
    }

    // ---- its shard in a slot ----

    /// The part of the slot's shard at an offset of `layout`.
    ///
    /// # Safety
    /// That part of a shard is a `T`, all of which is atomic.
    #[inline]
    pub unsafe fn in_shard<T>(self, slot: u32, offset: usize) -> &'static T {
        // SAFETY: every slot has an area; areas are never unmapped, and zeroes are valid.
        unsafe { &*self.chunk.in_shard(slot, self.id(), offset) }
    }

    #[inline]
    pub(super) fn lock(self, slot: u32) -> &'static Lock<SHARD_RANK> {
        // SAFETY: as `layout` says.
        unsafe { self.in_shard(slot, layout::LOCK) }
    }

    /// The spans that the slot owns.
    #[inline]
    pub fn ring(self, slot: u32) -> &'static Ring {
        // SAFETY: as `layout` says.
        unsafe { self.in_shard(slot, layout::RING) }
    }

    /// How often the cache misses there.
    #[inline]
    pub fn load(self, slot: u32) -> &'static Load {
        // SAFETY: as `layout` says.
        unsafe { self.in_shard(slot, layout::LOAD) }
    }

    /// How far the capacity of its magazines is beyond what the shape says; see `cpu_cache::resize`. Changes under the
    /// shard's lock.
    #[inline]
    pub fn level(self, slot: u32) -> &'static AtomicU8 {
        // SAFETY: as `layout` says.
        unsafe { self.in_shard(slot, layout::LEVEL) }
    }

    /// Whether a thread holds the shard's lock, at some moment.
    pub fn is_held(self, slot: u32) -> bool {
        self.lock(slot).is_held()
    }
}
