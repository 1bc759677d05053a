//! Blocks of memory and what is written into them.
//!
//! Each block is filled, over all of its usable bytes, with words that follow from its tag and their place: every word of small
//! blocks, some hundred of larger ones, at least one in each page up to 16 MiB and in each 64 KiB beyond; more, and a test
//! would spend its time there.

/// A block that somebody owns.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    pub start: usize,
    /// Bytes that may be used.
    pub usable: usize,
    /// What its contents follow from.
    pub tag: u64,
}

impl Block {
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

/// Where words are written in a block of `bytes`, in rising order: the first and the last word, and some in between.
fn offsets(bytes: usize) -> impl Iterator<Item = usize> {
    let most = if bytes <= 16 << 20 { 4 << 10 } else { 64 << 10 };
    let stride = (bytes / 64).next_power_of_two().clamp(8, most);
    let words = bytes / 8 * 8;
    let last = words.checked_sub(8).filter(move |last| !last.is_multiple_of(stride));
    (0..words).step_by(stride).chain(last)
}
