//! What the kernels share: how much of the work is done, blocks with a tag at both ends, the checksum in which each
//! ends, and threads.
//!
//! The tag is checked when a block is read, and goes into the checksum: an allocator that hands out overlapping memory,
//! or moves a block without its contents, is found out. Where the order of what is mixed is fixed, [`mix`] makes it
//! count; where threads decide the order, a kernel adds tags with `wrapping_add`.

use std::hint::black_box;
use std::mem::ManuallyDrop;
use std::thread;

use fastrand::Rng;

/// How much of the full work is done, in percent.
///
/// A kernel multiplies the counts that its time depends on, and leaves alone what makes its memory look as it does:
/// sizes, the lengths of lists, the number of threads that run at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale(u32);

impl Scale {
    /// All of the work, as the tables of results have it.
    pub const FULL: Scale = Scale(100);

    /// What may be asked for, in percent.
    pub const RANGE: std::ops::RangeInclusive<u32> = 1..=1000;

    /// The scale of `percent`, if that is in [`Scale::RANGE`].
    pub fn from_percent(percent: u32) -> Option<Scale> {
        Self::RANGE.contains(&percent).then_some(Scale(percent))
    }

    /// This share of `full`, rounded to the nearest, halves up; at least 1, so that something is always done.
    pub fn of(self, full: u64) -> u64 {
        ((full * u64::from(self.0) + 50) / 100).max(1)
    }
}

/// Mixes a word into a checksum.
pub fn mix(sum: u64, word: u64) -> u64 {
    (sum.rotate_left(5) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// Mixes bytes and their number into a checksum.
pub fn mix_bytes(sum: u64, bytes: &[u8]) -> u64 {
    mix(bytes.iter().fold(sum, |sum, &byte| mix(sum, u64::from(byte))), bytes.len() as u64)
}

/// Runs so many threads at a time, each with its number, and adds up their answers.
pub fn in_threads(count: u64, work: impl Fn(u64) -> u64 + Sync) -> u64 {
    let work = &work;
    thread::scope(|scope| {
        let threads: Vec<_> = (0..count).map(|number| scope.spawn(move || work(number))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread ends")).fold(0, u64::wrapping_add)
    })
}

/// A size between two powers of two; each doubling is as likely as any other, as in real programs, where most blocks
/// are small.
pub fn mixed_size(rng: &mut Rng, min: usize, max: usize) -> usize {
    let doubling = rng.u32(min.ilog2()..max.ilog2());
    let base = 1usize << doubling;
    base + 1 + rng.usize(0..base)
}

/// A block from malloc, with a tag written at both ends; one that has no room for two has one.
pub struct Block {
    start: *mut u8,
    size: usize,
}

// SAFETY: a block owns its memory, and malloc and free may be called from any thread.
unsafe impl Send for Block {}

impl Block {
    /// The smallest block: a tag.
    pub const MIN_SIZE: usize = size_of::<u64>();

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
        assert!(size >= Block::MIN_SIZE, "{size} bytes have no room for a tag");
        Block { start, size }
    }

    /// Writes the tag at both ends.
    pub fn put_tag(&mut self, tag: u64) {
        self.write(0, tag);
        self.write(self.last(), tag);
    }

    /// Writes one word to every page of the block, as its user would.
    pub fn touch(&mut self) {
        let tag = self.tag();
        for offset in (4096..self.size.saturating_sub(2 * Block::MIN_SIZE)).step_by(4096) {
            self.write(offset, tag);
        }
    }

    /// The tag, after a check that both ends still hold it.
    pub fn tag(&self) -> u64 {
        let (first, last) = (self.read(0), self.read(self.last()));
        assert_eq!(first, last, "a block of {} bytes was written by someone else", self.size);
        first
    }

    /// Where the second tag is: over the first where both would overlap.
    fn last(&self) -> usize {
        if self.size < 2 * Block::MIN_SIZE { 0 } else { self.size - Block::MIN_SIZE }
    }

    fn read(&self, offset: usize) -> u64 {
        debug_assert!(offset + Block::MIN_SIZE <= self.size);
        // SAFETY: the block owns its memory, and every caller stays a word below `size`.
        unsafe { self.start.add(offset).cast::<u64>().read_unaligned() }
    }

    fn write(&mut self, offset: usize, word: u64) {
        debug_assert!(offset + Block::MIN_SIZE <= self.size);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_the_work_are_rounded_and_never_nothing() {
        let share = |percent, full| Scale::from_percent(percent).expect("it is in range").of(full);
        assert_eq!((share(10, 104), share(10, 105), share(1000, 7), share(1, 0)), (10, 11, 70, 1));
        assert!([0, 1001].into_iter().all(|outside| Scale::from_percent(outside).is_none()));
    }

    #[test]
    fn tag_survives_growing_shrinking_and_touching() {
        let mut block = Block::new(100, 7);
        for size in [5000, 100_000, 4096, 4104, 4112, 4113, 8192, 16, 15, Block::MIN_SIZE] {
            block = block.resized(size);
            block.touch();
            assert_eq!(block.tag(), 7);
        }
    }

    #[test]
    #[should_panic(expected = "was written by someone else")]
    fn foreign_write_is_found() {
        let mut block = Block::new(64, 1);
        block.write(64 - Block::MIN_SIZE, 2);
        block.tag();
    }
}
