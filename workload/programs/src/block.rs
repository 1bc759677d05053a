//! Blocks straight from malloc, with a tag at both ends, for the workloads that are about blocks and nothing else.
//!
//! The tag is checked when a block is read, and goes into the checksum: an allocator that hands out overlapping memory,
//! or moves a block without its contents, is found out.

use std::hint::black_box;
use std::mem::ManuallyDrop;

use fastrand::Rng;

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
        let mut block = Block::untagged(size);
        block.put_tag(tag);
        block
    }

    /// Allocates as many, for those who time that by itself: the tag is up to them.
    #[inline(always)]
    pub fn untagged(size: usize) -> Block {
        // SAFETY: malloc may be called with any size.
        let start = unsafe { libc::malloc(size) }.cast();
        // SAFETY: malloc gave it, and nobody else has it.
        unsafe { Block::owning(start, size) }
    }

    /// How many bytes it has.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Moves the block to `size` bytes with realloc, and tags it anew at its new end.
    pub fn resized(self, size: usize) -> Block {
        let tag = self.tag();
        let old = ManuallyDrop::new(self);
        // SAFETY: `old` owned the memory, and won't free it.
        let start = unsafe { libc::realloc(old.start.cast(), size) }.cast();
        // SAFETY: realloc gave it, and nobody else has it.
        let mut block = unsafe { Block::owning(start, size) };
        block.put_tag(tag);
        block
    }

    /// # Safety
    ///
    /// `start` is null or owns `size` bytes from malloc.
    unsafe fn owning(start: *mut u8, size: usize) -> Block {
        // The optimizer knows malloc, and would remove a block that nothing seems to use.
        let start = black_box(start);
        assert!(!start.is_null(), "out of memory for {size} bytes");
        assert!(size >= Block::MIN_SIZE, "{size} bytes have no room for two tags");
        Block { start, size }
    }

    /// Writes the tag at both ends.
    pub fn put_tag(&mut self, tag: u64) {
        self.write(0, tag);
        self.write(self.size - size_of::<u64>(), tag);
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
        debug_assert!(offset + size_of::<u64>() <= self.size);
        // SAFETY: the block owns its memory, and every caller stays a word below `size`.
        unsafe { self.start.add(offset).cast::<u64>().read_unaligned() }
    }

    fn write(&mut self, offset: usize, word: u64) {
        debug_assert!(offset + size_of::<u64>() <= self.size);
        // SAFETY: the block owns its memory, and every caller stays a word below `size`.
        unsafe { self.start.add(offset).cast::<u64>().write_unaligned(word) }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: the block owns its memory, which malloc or realloc gave.
        unsafe { libc::free(self.start.cast()) }
    }
}

/// A size between two powers of two, both included; each doubling is as likely as any other, as in real programs, where
/// most blocks are small.
pub fn mixed_size(rng: &mut Rng, min: usize, max: usize) -> usize {
    let doubling = rng.u32(min.ilog2()..max.ilog2());
    let base = 1usize << doubling;
    base + 1 + rng.usize(0..base)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_survives_growing_and_shrinking() {
        let mut block = Block::new(100, 7);
        for size in [5000, 100_000, 3000, Block::MIN_SIZE] {
            block = block.resized(size);
            assert_eq!(block.tag(), 7);
        }
    }

    #[test]
    #[should_panic(expected = "was written by someone else")]
    fn a_foreign_write_is_found() {
        let mut block = Block::new(64, 1);
        block.write(64 - size_of::<u64>(), 2);
        block.tag();
    }

    #[test]
    fn touching_stays_inside() {
        for size in [Block::MIN_SIZE, 4096, 4104, 4112, 4113, 8192, 70_001] {
            let mut block = Block::new(size, 9);
            block.touch();
            assert_eq!(block.tag(), 9);
        }
    }

    #[test]
    fn mixed_sizes_stay_between_their_bounds() {
        let mut rng = Rng::with_seed(1);
        let sizes: Vec<usize> = (0..1000).map(|_| mixed_size(&mut rng, 16, 1024)).collect();
        assert!(sizes.iter().all(|size| (17..=1024).contains(size)));
        // Half of the doublings are below 128.
        let small = sizes.iter().filter(|size| **size <= 128).count();
        assert!((400..600).contains(&small), "{small} of 1000 are small");
    }
}
