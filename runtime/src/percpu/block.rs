//! A block: one object's counters, a column of rows, of which each slot has one.
//!
//! ```text
//!             ├─ lines of 64 bytes, a cell of 16 for each counter ─┤
//!   −3 ROW    │ cells:  what may be done with them, and their sums │
//!   −2 ROW    │ head:   whose block it is, which slots touched it  │   shared by all slots
//!   −1 ROW    │ direct: what is in no slot                         │
//!    0 ─▶     │ slot 0: a pair (left, edge) for each counter       │   drawn from by threads in the slot
//!   +1 ROW    │ slot 1: …                                          │
//! ```
//!
//! Blocks of an object's counters share lines, but no two slots do. An unused block is all zero except for its head's
//! first words, so it is ready at once: only rows in the *touched mask* are wiped when the block is returned, and
//! summed while it lives. The mask has 192 bits; on machines with more CPUs each bit stands for a few slots.
//!
//! Runs at the same time: threads draw in their slots; the holder of the head's lock moves edges. The last user frees.
//!
//! A thread that finds the lock taken adds to what is in no slot. So the words of the lock's holder lie in another
//! line: beside a word that many CPUs add to, the holder and they would wait for each other.

use super::head::{Area, Head, LINE, MASK_WORDS};
use core::mem::offset_of;
use core::ptr::NonNull;
use machine::slot::{Pair, ROW, WINDOW};
use machine::sync::{AtomicI64, AtomicU32, AtomicU64, Ordering};
use machine::vm;

/// Rows before slot 0's.
pub const SHARED_ROWS: usize = 3;
/// Bytes of a counter in each row.
pub const CELL: usize = size_of::<Pair>();
/// Set in `left` while somebody closes the cell: it is out of the window then, and the amount is still there.
pub const MARK: u64 = 1 << 62;

/// A block's name: the address of slot 0's row, plus one, so it is odd. Its holder guarantees that the block is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Block(NonNull<u8>);

/// From a name to the row.
const UNTAG: isize = -1;

/// What a counter's cells are together.
#[derive(Debug)]
#[repr(C, align(16))]
pub struct Cells {
    /// The sum of all edges; more while somebody moves one, never less.
    pub edges: AtomicI64,
    /// Slots whose cells are open, in [`OPENED`](Self::OPENED), and flags, whose meaning is the counter's.
    pub state: AtomicU32,
    /// Odd while the sum of edges and the number of open cells change.
    pub sequence: AtomicU32,
}

const _: () = assert!(size_of::<Cells>() <= CELL);

impl Cells {
    /// The bits of `state` that say how many cells are open.
    pub const OPENED: u32 = (1 << 24) - 1;

    /// How many cells are open.
    #[inline]
    pub fn opened(&self) -> u32 {
        self.state.load(Ordering::Relaxed) & Self::OPENED
    }
}

impl Block {
    /// Where a cell lies, seen from [`near`](Self::near).
    pub const FROM_NEAR: i32 = UNTAG as i32;

    /// The block whose row of slot 0 lies at `row`, a multiple of 64.
    pub(super) fn at(row: usize) -> Self {
        debug_assert!(row != 0 && row.is_multiple_of(LINE));
        // SAFETY: not null.
        Block(unsafe { NonNull::new_unchecked((row as *mut u8).wrapping_offset(-UNTAG)) })
    }

    /// The block of a given name.
    ///
    /// # Safety
    /// It is what [`word`](Self::word) said of a block that is in use.
    #[inline(always)]
    pub unsafe fn of_word(word: u64) -> Self {
        // SAFETY: names are odd.
        Block(unsafe { NonNull::new_unchecked(word as *mut u8) })
    }

    /// The name as a number, which is odd.
    #[inline]
    pub fn word(self) -> u64 {
        self.0.as_ptr() as u64
    }

    pub(super) fn of_head(head: NonNull<Head>) -> Self {
        Block::at(head.as_ptr() as usize + 2 * ROW)
    }

    /// The head.
    #[inline]
    pub fn head(&self) -> &Head {
        // SAFETY: every block has these rows, which are never unmapped; zeroes are valid.
        unsafe { &*self.cell(0).wrapping_sub(2 * ROW).cast() }
    }

    /// What of counter `index` is in no slot.
    #[inline]
    pub fn direct(&self, index: usize) -> &AtomicI64 {
        // SAFETY: as above; the caller's index is one of the block's.
        unsafe { &*self.cell(index).wrapping_sub(ROW).cast() }
    }

    /// What the cells of counter `index` are together.
    #[inline]
    pub fn cells(&self, index: usize) -> &Cells {
        // SAFETY: as above.
        unsafe { &*self.cell(index).wrapping_sub(3 * ROW).cast() }
    }

    /// The cell of counter `index` in slot 0's row, as the machine's operations take it.
    #[inline(always)]
    pub fn cell(self, index: usize) -> *mut u8 {
        self.near(index).wrapping_offset(UNTAG)
    }

    /// What is [`FROM_NEAR`](Self::FROM_NEAR) before the cell: for the fast path, which need not untag the name.
    #[inline(always)]
    pub fn near(self, index: usize) -> *mut u8 {
        self.0.as_ptr().wrapping_add(index * CELL)
    }

    /// The word `left` of a cell in a slot's row, to mark and unmark it.
    #[inline]
    pub fn left(&self, index: usize, slot: u32) -> &AtomicU64 {
        // SAFETY: as above; a pair begins with `left`.
        unsafe { &*self.cell(index).wrapping_add(slot as usize * ROW).cast() }
    }

    /// What a cell's stock is in the middle: half of what it is below.
    #[inline]
    pub fn batch(self) -> i64 {
        i64::from(self.head().range.load(Ordering::Relaxed) / 2)
    }

    /// The edge of a cell in the row of a slot that the calling thread owns, where it stays closed.
    #[inline]
    pub fn edge(&self, index: usize, slot: u32) -> &AtomicI64 {
        // SAFETY: as above; behind `left`.
        unsafe { &*self.cell(index).wrapping_add(slot as usize * ROW + offset_of!(Pair, edge)).cast() }
    }

    /// Bytes of the block in each row.
    pub fn row_bytes(self) -> usize {
        self.head().lines.load(Ordering::Relaxed) as usize * LINE
    }

    /// The area that the block is from.
    pub fn area(&self) -> &'static Area {
        // SAFETY: set when the block was cut; areas are never unmapped.
        unsafe { &*self.head().area.load(Ordering::Relaxed) }
    }

    /// Makes the mask name a slot. Before the first pair of the slot's row is written.
    pub fn touch(&self, slot: u32) {
        let bit = slot as usize / self.area().slots_a_bit();
        let (word, bit) = (&self.head().touched[bit / 64], 1 << (bit % 64));
        if word.load(Ordering::Relaxed) & bit == 0 {
            // Release pairs with the acquire in `touched_slots`: no other thread's additions to the slot come before.
            word.fetch_or(bit, Ordering::Release);
        }
    }

    /// The slots that the mask names; in an area of the eager school also all that it is laid out for.
    pub fn touched_slots(&self) -> impl Iterator<Item = u32> {
        let (slots_a_bit, rows) = (self.area().slots_a_bit(), self.area().rows());
        let laid_out = first_bits(self.area().laid_out_for().unwrap_or(0).div_ceil(slots_a_bit));
        let touched = self.head().touched.each_ref().map(|word| word.load(Ordering::Acquire));
        let words = core::array::from_fn(|word| laid_out[word] | touched[word]);
        bits(words)
            .flat_map(move |bit| (bit * slots_a_bit..((bit + 1) * slots_a_bit).min(rows)).map(|slot| slot as u32))
    }

    /// Makes a block that nobody uses any more all zero, as far as `rows` says.
    pub(super) fn wipe(self, rows: impl Iterator<Item = u32>) {
        let bytes = self.row_bytes();
        let wipe = |row: *mut u8| {
            // SAFETY: the block's part of a row; nobody uses it.
            unsafe { vm::zero(row, bytes) };
        };
        rows.for_each(|slot| wipe(self.cell(0).wrapping_add(slot as usize * ROW)));
        wipe(self.cell(0).wrapping_sub(ROW));
        wipe(self.cell(0).wrapping_sub(3 * ROW));
        for word in &self.head().touched {
            word.store(0, Ordering::Relaxed);
        }
    }
}

fn bits(words: [u64; MASK_WORDS]) -> impl Iterator<Item = usize> {
    words.into_iter().enumerate().flat_map(|(index, word)| {
        let rest = core::iter::successors((word != 0).then_some(word), |rest| {
            Some(rest & (rest - 1)).filter(|&rest| rest != 0)
        });
        rest.map(move |rest| index * 64 + rest.trailing_zeros() as usize)
    })
}

fn first_bits(count: usize) -> [u64; MASK_WORDS] {
    core::array::from_fn(|word| match count.saturating_sub(word * 64) {
        0 => 0,
        rest => u64::MAX >> (64 - rest.min(64)),
    })
}

/// What a pair still lets draw.
#[inline]
pub fn stock(pair: Pair) -> i64 {
    (pair.left & !MARK).saturating_sub(WINDOW) as i64
}

/// What was added through a pair, all in all.
#[inline]
pub fn total(pair: Pair) -> i64 {
    pair.edge.wrapping_sub(stock(pair))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::percpu::head::slots_a_bit;
    use std::vec::Vec;

    #[test]
    fn a_mask_names_its_bits() {
        assert_eq!(bits([0, 0, 0]).count(), 0);
        assert_eq!(bits([1 | 1 << 63, 0, 1 << 5]).collect::<Vec<_>>(), [0, 63, 133]);
        assert_eq!(first_bits(65), [u64::MAX, 1, 0]);
        assert_eq!([slots_a_bit(1), slots_a_bit(192), slots_a_bit(193), slots_a_bit(1024)], [1, 1, 2, 6]);
    }

    #[test]
    fn a_pair_says_what_went_through_it() {
        assert_eq!(total(Pair { left: 0, edge: 0 }), 0);
        assert_eq!(total(Pair { left: WINDOW + 5, edge: 12 }), 7);
        assert_eq!(total(Pair { left: (WINDOW + 5) | MARK, edge: 12 }), 7);
        assert_eq!(total(Pair { left: 0, edge: -3 }), -3);
    }
}
