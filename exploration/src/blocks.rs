//! Blocks that know whose they are.
//!
//! A block is filled with a mark of its own, by plain writes, and looked at again before it is handed over or given back: whoever else has
//! the same memory would have marked it otherwise.

use commensal_runtime::caches::ObjectCache;
use commensal_runtime::group::Core;
use commensal_runtime::heap;
use core::ptr::null_mut;
use fastrand::Rng;
use machine::sync::{AtomicPtr, Ordering};

/// Sizes whose classes have small arrays, so that few operations reach everything behind these; and blocks of whole pages.
pub const SIZES: [usize; 8] = [32, 1000, 4096, 8192, 20_000, 32_768, 50_000, 300_000];

pub struct Block {
    at: *mut u8,
    bytes: usize,
}

/// What a block's words hold: its own address, and its size.
fn marks(at: *mut u8, bytes: usize) -> [u64; 2] {
    let own = at.addr() as u64;
    [own.rotate_left(17) ^ bytes as u64, !own]
}

impl Block {
    pub fn new(bytes: usize) -> Option<Self> {
        Self::at(heap::allocate(bytes), bytes)
    }

    pub fn of(cache: &ObjectCache) -> Option<Self> {
        Self::at(cache.allocate(), cache.object_bytes())
    }

    pub fn of_group(group: &Core, bytes: usize) -> Option<Self> {
        Self::at(group.allocate(bytes, 16)?, bytes)
    }

    fn at(at: *mut u8, bytes: usize) -> Option<Self> {
        (!at.is_null()).then(|| {
            let block = Block { at, bytes };
            block.mark();
            block
        })
    }

    fn ends(&self) -> [*mut u64; 2] {
        let last = (self.bytes / 8 - 1) * 8;
        [self.at.cast(), self.at.wrapping_add(last).cast()]
    }

    fn mark(&self) {
        let [first, last] = marks(self.at, self.bytes);
        let [begin, end] = self.ends();
        // SAFETY: the block is ours, aligned, and has at least two words.
        unsafe {
            begin.write(first);
            end.write(last);
            // The size, for those to whom only the address is handed.
            begin.add(1).write(self.bytes as u64);
        }
    }

    pub fn is_guarded(&self) -> bool {
        heap::check::is_guarded(self.at)
    }

    /// Panics unless it is as its owner left it.
    pub fn check(&self) {
        let [begin, end] = self.ends();
        // SAFETY: the block is ours.
        let seen = unsafe { [begin.read(), end.read(), begin.add(1).read()] };
        let [first, last] = marks(self.at, self.bytes);
        assert_eq!(seen, [first, last, self.bytes as u64], "a block of {} bytes is somebody else's, too", self.bytes);
    }

    pub fn free(self) {
        // SAFETY: the block is ours, and given up.
        unsafe { heap::free(self.into_waste()) };
    }

    /// Gives it back to the cache that it is from.
    pub fn free_to(self, cache: &ObjectCache) {
        // SAFETY: as above.
        unsafe { cache.free(self.into_waste()) };
    }

    /// Looks at it for the last time.
    fn into_waste(self) -> *mut u8 {
        self.check();
        let [begin, end] = self.ends();
        // SAFETY: the block is ours.
        unsafe {
            begin.write(0);
            end.write(0);
        }
        self.at
    }

    /// Moves it into one of another size; the same as before if there is no memory.
    pub fn resize(self, bytes: usize) -> Self {
        self.check();
        // SAFETY: the block is ours, and given up if there is another one.
        let at = unsafe { heap::reallocate(self.at, bytes) };
        if at.is_null() {
            return self;
        }
        // SAFETY: as many bytes were moved.
        let seen = unsafe { at.cast::<u64>().read() };
        assert_eq!(seen, marks(self.at, self.bytes)[0], "a block of {} bytes lost its contents on its way", self.bytes);
        let block = Block { at, bytes };
        block.mark();
        block
    }

    /// The address, by which another thread gets it.
    fn into_address(self) -> *mut u8 {
        self.check();
        self.at
    }

    /// A block by its address.
    fn from_address(at: *mut u8) -> Option<Self> {
        (!at.is_null()).then(|| {
            // SAFETY: whoever handed the address over left the size there.
            let bytes = unsafe { at.cast::<u64>().add(1).read() } as usize;
            let block = Block { at, bytes };
            block.check();
            block
        })
    }
}

/// Places where threads leave blocks for each other.
pub struct Table(Vec<AtomicPtr<u8>>);

impl Table {
    pub fn new(places: usize) -> Self {
        Table((0..places).map(|_| AtomicPtr::new(null_mut())).collect())
    }

    /// Leaves a block somewhere, or nothing, and gets what lay there.
    pub fn exchange(&self, block: Option<Block>, random: &mut Rng) -> Option<Block> {
        let at = block.map_or(null_mut(), Block::into_address);
        let place = &self.0[random.usize(..self.0.len())];
        // Acquire and release: what one wrote into the block, the other sees.
        Block::from_address(place.swap(at, Ordering::AcqRel))
    }

    /// Gives back all that lies there.
    pub fn empty(&self) {
        for place in &self.0 {
            if let Some(block) = Block::from_address(place.swap(null_mut(), Ordering::AcqRel)) {
                block.free();
            }
        }
    }
}

/// Panics unless the heap is whole and holds nothing, when nobody works in it.
pub fn check_empty_heap() {
    // What a handler could not give back on top of a lock waits for the next slow path, which the first block of a class takes.
    const OF_NO_OTHER_CLASS: usize = 200;
    Block::new(OF_NO_OTHER_CLASS).into_iter().for_each(Block::free);
    let in_use = heap::check::check_valid(|_| {});
    assert_eq!((in_use.objects, in_use.large_blocks), (0, 0), "objects and large blocks are left over");
}
