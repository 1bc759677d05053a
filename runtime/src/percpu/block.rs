//! A block: the counters of one object, as a column of rows, one row for each slot.
//!
//! ```text
//!             ├─ lines of 64 bytes, a cell of 16 for each counter ─┤
//!   −3 ROW    │ cells:  their state, and their sums                │
//!   −2 ROW    │ head:   its area, the slots that touched it        │   shared by all slots
//!   −1 ROW    │ direct: the amounts in no slot                     │
//!    0 ─▶     │ slot 0: a pair (left, edge) for each counter       │   threads in the slot draw from it
//!   +1 ROW    │ slot 1: …                                          │
//! ```
//!
//! Counters of a block share lines, but no two slots do. An unused block is all zero except for its head's first words,
//! so it is ready at once: only rows in the *touched mask* are wiped when the block is returned, and summed while it
//! lives. The mask has 192 bits; on machines with more CPUs each bit stands for a few slots.
//!
//! Runs at the same time: threads draw in their slots; the holder of the head's lock moves edges. A thread that finds
//! the lock taken adds to `direct`. The holder's words lie in another line, so that it does not contend with them.

use core::mem::offset_of;
use core::ptr::NonNull;
use machine::slot::{MAX, Pair, ROW, WIDEST};
use machine::sync::{AtomicI64, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Contention, Lock, Ordering};
use machine::vm;

/// Rank of an area's lock: its holder then only reserves address space.
pub(crate) const AREA_RANK: u8 = 4;
/// Rank of a block's lock: its holder takes no other lock.
pub(crate) const BLOCK_RANK: u8 = 5;
pub(super) const LINE: usize = 64;
const MASK_WORDS: usize = 3;
/// Lines of a row: the largest block.
pub const LINES: usize = ROW / LINE;

/// When blocks are made zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preparation {
    /// On return, the touched part.
    OnReturn,
    /// When they are taken, for this many CPUs, like allocators of per-CPU memory.
    ForAll {
        /// CPUs that the memory is laid out for.
        cpus: usize,
    },
}

/// An area. It lies in a page of its own and is never unmapped.
#[derive(Debug)]
#[repr(C)]
pub struct Area {
    pub(super) rows: usize,
    pub(super) preparation: Preparation,
    pub(super) lock: Lock<AREA_RANK>,
    /// Under the lock: where the next block is cut in the current chunk, and the lines left there.
    pub(super) next: AtomicUsize,
    pub(super) lines_left: AtomicUsize,
    pub(super) in_use: AtomicU64,
    /// Ready blocks by lines. Any thread pushes; only the lock's holder pops, so no block returns unnoticed (ABA).
    pub(super) ready: [AtomicPtr<Head>; LINES + 1],
    pub(super) contention: Contention,
    block_contention: Contention,
}

const _: () = assert!(size_of::<Area>() <= vm::PAGE);

impl Area {
    /// Number of slots that have rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    pub(crate) fn contention(&self) -> &Contention {
        &self.contention
    }

    pub(crate) fn block_contention(&self) -> &Contention {
        &self.block_contention
    }

    /// CPUs that blocks are laid out for before a thread touches them.
    pub(super) fn laid_out_for(&self) -> usize {
        match self.preparation {
            Preparation::OnReturn => 0,
            Preparation::ForAll { cpus } => cpus,
        }
    }
}

/// The head of a block: one line.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Head {
    pub(super) next: AtomicPtr<Head>,
    pub(super) area: AtomicPtr<Area>,
    pub(super) lines: AtomicU32,
    /// The least width of an open cell. All widths are multiples of it.
    pub(super) range: AtomicU32,
    /// A thread holds it to move edges.
    pub lock: Lock<BLOCK_RANK>,
    touched: [AtomicU64; MASK_WORDS],
}

const _: () = assert!(size_of::<Head>() == LINE);

pub(crate) const SHARED_ROWS: usize = 3;
/// Bytes of a counter in each row.
pub const CELL: usize = size_of::<Pair>();

/// A block's name: the address of slot 0's row, plus one, so it is odd. Its holder guarantees that the block is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Block(NonNull<u8>);

const UNTAG: isize = -1;

/// The shared state of a counter's cells.
#[derive(Debug)]
#[repr(C, align(16))]
pub struct Cells {
    /// The sum of all edges; more while a thread moves an edge, never less.
    pub edges: AtomicI64,
    /// The sum of the cells' widths, in ranges, in `RANGES`, and flags that the counter defines.
    pub state: AtomicU32,
    /// Odd while the sums of edges and widths change.
    pub sequence: AtomicU32,
}

const _: () = assert!(size_of::<Cells>() <= CELL);

impl Cells {
    pub(crate) const RANGES: u32 = (1 << 28) - 1;

    #[inline]
    pub(crate) fn ranges(&self) -> u32 {
        self.state.load(Ordering::Relaxed) & Self::RANGES
    }
}

impl Block {
    /// Offset of a cell from [`near`](Self::near).
    pub(crate) const FROM_NEAR: i32 = UNTAG as i32;

    pub(super) fn at(row: usize) -> Self {
        debug_assert!(row != 0 && row.is_multiple_of(LINE));
        // SAFETY: not null.
        Block(unsafe { NonNull::new_unchecked((row as *mut u8).wrapping_offset(-UNTAG)) })
    }

    /// The block of a given name.
    ///
    /// # Safety
    /// `word` returned it for a block that is in use.
    #[inline(always)]
    pub unsafe fn of_word(word: u64) -> Self {
        // SAFETY: names are odd.
        Block(unsafe { NonNull::new_unchecked(word as *mut u8) })
    }

    #[inline]
    pub(crate) fn word(self) -> u64 {
        self.0.as_ptr() as u64
    }

    pub(super) fn of_head(head: NonNull<Head>) -> Self {
        Block::at(head.as_ptr() as usize + 2 * ROW)
    }

    #[inline]
    pub(crate) fn head(&self) -> &Head {
        // SAFETY: every block has these rows, which are never unmapped; zeroes are valid.
        unsafe { &*self.cell(0).wrapping_sub(2 * ROW).cast() }
    }

    /// The amount of counter `index` that is in no slot.
    #[inline]
    pub fn direct(&self, index: usize) -> &AtomicI64 {
        // SAFETY: as above; the caller's index is one of the block's.
        unsafe { &*self.cell(index).wrapping_sub(ROW).cast() }
    }

    /// The shared state of the cells of counter `index`.
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

    /// `FROM_NEAR` before the cell: for the fast path, which skips untagging the name.
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

    #[inline]
    pub(crate) fn range(self) -> u32 {
        self.head().range.load(Ordering::Relaxed)
    }

    /// Largest width of a cell: there is room for it, and for all cells' in their sum.
    pub(crate) fn most_width(self) -> u64 {
        u64::from(WIDEST).min(u64::from(self.range()) * u64::from(Cells::RANGES / MAX as u32))
    }

    /// The edge of a cell in the row of a slot that the calling thread owns, where it stays closed.
    #[inline]
    pub fn edge(&self, index: usize, slot: u32) -> &AtomicI64 {
        // SAFETY: as above; the edge follows `left`.
        unsafe { &*self.cell(index).wrapping_add(slot as usize * ROW + offset_of!(Pair, edge)).cast() }
    }

    /// Bytes of the block in each row.
    pub fn row_bytes(self) -> usize {
        self.head().lines.load(Ordering::Relaxed) as usize * LINE
    }

    /// The block's area.
    pub fn area(&self) -> &'static Area {
        // SAFETY: set when the block was cut; areas are never unmapped.
        unsafe { &*self.head().area.load(Ordering::Relaxed) }
    }

    /// Adds a slot to the mask. The caller does so before it writes the first pair of the slot's row.
    pub fn touch(&self, slot: u32) {
        let bit = slot as usize / slots_a_bit(self.area().rows);
        let (word, bit) = (&self.head().touched[bit / 64], 1 << (bit % 64));
        if word.load(Ordering::Relaxed) & bit == 0 {
            // Release pairs with the acquire in `touched_slots`: no other thread's additions to the slot come before.
            word.fetch_or(bit, Ordering::Release);
        }
    }

    /// The slots in the mask; in an eager area also all that it is laid out for.
    pub fn touched_slots(&self) -> impl Iterator<Item = u32> {
        let (slots_a_bit, rows) = (slots_a_bit(self.area().rows), self.area().rows);
        let laid_out = first_bits(self.area().laid_out_for().div_ceil(slots_a_bit));
        let touched = self.head().touched.each_ref().map(|word| word.load(Ordering::Acquire));
        bits(laid_out.into_iter().zip(touched).map(|(laid_out, touched)| laid_out | touched))
            .flat_map(move |bit| (bit * slots_a_bit..((bit + 1) * slots_a_bit).min(rows)).map(|slot| slot as u32))
    }

    /// Zeroes the shared rows and the given rows of a block that is no longer used.
    pub(super) fn wipe(self, rows: impl Iterator<Item = u32>) {
        let bytes = self.row_bytes();
        // SAFETY: the block's part of a row, which is no longer used.
        let wipe = |row: *mut u8| unsafe { vm::zero(row, bytes) };
        rows.for_each(|slot| wipe(self.cell(0).wrapping_add(slot as usize * ROW)));
        wipe(self.cell(0).wrapping_sub(ROW));
        wipe(self.cell(0).wrapping_sub(3 * ROW));
        self.head().touched.iter().for_each(|word| word.store(0, Ordering::Relaxed));
    }
}

pub(crate) fn bits(words: impl IntoIterator<Item = u64>) -> impl Iterator<Item = usize> {
    words.into_iter().enumerate().flat_map(|(index, mut word)| {
        core::iter::from_fn(move || {
            let bit = word.trailing_zeros() as usize;
            word &= word.wrapping_sub(1);
            (bit < 64).then_some(index * 64 + bit)
        })
    })
}

fn first_bits(count: usize) -> [u64; MASK_WORDS] {
    core::array::from_fn(|word| match count.saturating_sub(word * 64) {
        0 => 0,
        rest => u64::MAX >> (64 - rest.min(64)),
    })
}

fn slots_a_bit(rows: usize) -> usize {
    rows.div_ceil(MASK_WORDS * 64).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn slot_mask_yields_its_set_bits() {
        assert_eq!(bits([0, 0, 0]).count(), 0);
        assert_eq!(bits([1 | 1 << 63, 0, 1 << 5]).collect::<Vec<_>>(), [0, 63, 133]);
        assert_eq!(first_bits(65), [u64::MAX, 1, 0]);
        assert_eq!([slots_a_bit(1), slots_a_bit(192), slots_a_bit(193), slots_a_bit(1024)], [1, 1, 2, 6]);
    }
}
