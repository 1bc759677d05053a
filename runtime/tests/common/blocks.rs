//! Blocks of memory and what is written into them.
//!
//! Each block is filled, over all of its usable bytes, with words that follow from its tag and their place. Of large blocks only
//! the first and last page and a word in each 64 KiB are written, or a test would spend its time there.

/// Blocks up to here are written and checked as a whole.
const WHOLE: usize = 64 << 10;
const PAGE: usize = 4096;

/// A block that somebody owns.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    /// Address of the first byte.
    pub start: usize,
    /// Bytes that may be used.
    pub usable: usize,
    /// What its contents follow from.
    pub tag: u64,
}

impl Block {
    /// Writes the contents.
    pub fn fill(&self) {
        for offset in offsets(self.usable) {
            // SAFETY: the block is the caller's, and the word lies within its usable bytes.
            unsafe { self.word(offset).write_unaligned(self.expected(offset)) };
        }
    }

    /// Checks the contents of the first `bytes` bytes; the first offset at which they are wrong.
    pub fn find_damage(&self, bytes: usize) -> Option<usize> {
        // SAFETY: as in `fill`.
        offsets(self.usable)
            .take_while(|offset| offset + 8 <= bytes)
            .find(|&offset| unsafe { self.word(offset).read_unaligned() } != self.expected(offset))
    }

    /// The first of `bytes` bytes that is not zero.
    pub fn find_nonzero(&self, bytes: usize) -> Option<usize> {
        // SAFETY: as in `fill`.
        offsets(bytes).find(|&offset| unsafe { self.word(offset).read_unaligned() } != 0)
    }

    fn word(&self, offset: usize) -> *mut u64 {
        (self.start + offset) as *mut u64
    }

    fn expected(&self, offset: usize) -> u64 {
        (self.tag << 20 | 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ offset as u64
    }
}

/// Where words are written in a block of `bytes`, in rising order.
fn offsets(bytes: usize) -> impl Iterator<Item = usize> {
    let (first, stride, last) =
        if bytes <= WHOLE { (bytes, WHOLE, bytes) } else { (PAGE, WHOLE, bytes / PAGE * PAGE - PAGE) };
    let first = (0..first).step_by(8);
    let middle = (stride..last).step_by(stride);
    let last = (last..bytes).step_by(8);
    first.chain(middle).chain(last).filter(move |offset| offset + 8 <= bytes)
}
