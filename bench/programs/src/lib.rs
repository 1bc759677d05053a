//! What the programs share: blocks straight from malloc, a mix of sizes, and the line that reports
//! the answer.
//!
//! Every program does a fixed amount of work from a fixed seed and prints a checksum of what it
//! read back from its blocks, so the answer is the same under every allocator, and an allocator
//! that hands out overlapping memory is found out.

use std::hint::black_box;

pub use fastrand::Rng;

/// A block from malloc, with a tag written at both ends.
pub struct Block {
    start: *mut u8,
    size: usize,
}

// SAFETY: a block owns its memory, and malloc and free may be called from any thread.
unsafe impl Send for Block {}

impl Block {
    /// The smallest block: a tag at each end.
    pub const MIN_SIZE: usize = 2 * size_of::<u64>();

    /// Allocates `size` bytes, at least [`Block::MIN_SIZE`], and tags them.
    pub fn new(size: usize, tag: u64) -> Block {
        debug_assert!(size >= Block::MIN_SIZE);
        // SAFETY: malloc may be called with any size.
        let start = unsafe { libc::malloc(size) }.cast();
        Block::tagged(start, size, tag)
    }

    /// Moves the block to `size` bytes with realloc, and tags it anew at its new end.
    pub fn resized(self, size: usize) -> Block {
        let tag = self.tag();
        let old = std::mem::ManuallyDrop::new(self);
        // SAFETY: `old` owned the block, and won't free it.
        let start = unsafe { libc::realloc(old.start.cast(), size) }.cast();
        Block::tagged(start, size, tag)
    }

    fn tagged(start: *mut u8, size: usize, tag: u64) -> Block {
        // The optimizer knows malloc, and would remove a block that nothing seems to use.
        let start = black_box(start);
        assert!(!start.is_null(), "out of memory for {size} bytes");
        let mut block = Block { start, size };
        block.write(0, tag);
        block.write(size - size_of::<u64>(), tag);
        block
    }

    /// Writes one word to every page of the block, as its user would.
    pub fn touch(&mut self) {
        let tag = self.tag();
        for offset in (4096..self.size - Block::MIN_SIZE).step_by(4096) {
            self.write(offset, tag);
        }
    }

    /// The tag, after a check that both ends still hold it.
    pub fn tag(&self) -> u64 {
        let (first, last) = (self.read(0), self.read(self.size - size_of::<u64>()));
        assert_eq!(first, last, "a block of {} bytes was written by someone else", self.size);
        first
    }

    fn read(&self, offset: usize) -> u64 {
        // SAFETY: every caller stays a word below `size`.
        unsafe { self.start.add(offset).cast::<u64>().read_unaligned() }
    }

    fn write(&mut self, offset: usize, word: u64) {
        // SAFETY: every caller stays a word below `size`.
        unsafe { self.start.add(offset).cast::<u64>().write_unaligned(word) }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: the block owns its memory.
        unsafe { libc::free(self.start.cast()) }
    }
}

/// A size between two powers of two, both included; each doubling is as likely as any other, as in
/// real programs, where most blocks are small.
pub fn mixed_size(rng: &mut Rng, min: usize, max: usize) -> usize {
    let doubling = rng.u32(min.ilog2()..max.ilog2());
    let base = 1usize << doubling;
    base + 1 + rng.usize(0..base)
}

/// Mixes a word into a checksum, so that the order counts.
pub fn mix(sum: u64, word: u64) -> u64 {
    (sum.rotate_left(5) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// Prints the answer, which the harness compares between the allocators.
pub fn answer(checksum: u64) {
    println!("{checksum:016x}");
}
