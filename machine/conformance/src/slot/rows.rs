//! Rows as operations on cells need them, with one cell.
//!
//! ```text
//!   start + CELL ─▶ │ left, edge │   in slot 0's row
//!                   ├────────────┤ ROW
//!                   │ left, edge │   in slot 1's row
//! ```
//!
//! There is a row for each slot that can ever be. The operations under test access the words in their own way;
//! everything else uses relaxed atomics. A test prepares rows, and reads them, before or after threads run.

use super::region::Memory;
use machine::slot::{self, Mode, Pair, ROW};
use machine::sync::{AtomicI64, AtomicU64, Ordering};
use std::ops::Range;

/// The width of cells: small, so that both of its ends are met often, and what was left once is soon left again.
pub const WIDTH: u32 = 3;
/// How far before the cell the pointer is that draws are given: it need not be aligned, nor lie in the rows.
pub const OFFSET: i32 = 0x1003;

const CELL: usize = ROW - size_of::<Pair>();

pub struct Rows {
    memory: Memory,
    slots: Range<u32>,
}

impl Rows {
    pub fn new() -> Result<Self, String> {
        slot::initialise();
        let count = slot::possible();
        let first = (slot::mode() == Mode::PerThread) as u32;
        Ok(Rows { memory: Memory::new(count * ROW)?, slots: first..count as u32 })
    }

    pub fn cell(&self) -> *mut u8 {
        self.memory.at(CELL)
    }

    /// The slots in which the cell may be used: where slots belong to threads nobody is given slot 0.
    pub fn slots(&self) -> Range<u32> {
        self.slots.clone()
    }

    pub fn last(&self) -> u32 {
        self.slots.end - 1
    }

    pub fn left(&self, slot: u32) -> &AtomicU64 {
        debug_assert!(slot < self.slots.end);
        pair_in(self.cell(), slot).0
    }

    /// The pair in a row where nobody works.
    pub fn pair(&self, slot: u32) -> Pair {
        load_in_two(self.cell(), slot)
    }

    pub fn prepare(&self, slot: u32, pair: Pair) {
        store_in_two(self.cell(), slot, pair);
    }

    pub fn prepare_all(&self, pair: Pair) {
        self.slots().for_each(|slot| self.prepare(slot, pair));
    }
}

/// The words of a pair, of which both rows and planted operations take care one by one.
pub fn pair_in<'a>(cell: *mut u8, slot: u32) -> (&'a AtomicU64, &'a AtomicI64) {
    let pair = cell.wrapping_add(slot as usize * ROW);
    // SAFETY: `cell` is a cell in slot 0's row, and the slot has a row.
    unsafe { (&*pair.cast(), &*pair.wrapping_add(size_of::<u64>()).cast()) }
}

pub fn load_in_two(cell: *mut u8, slot: u32) -> Pair {
    let (left, edge) = pair_in(cell, slot);
    Pair { left: left.load(Ordering::Relaxed), edge: edge.load(Ordering::Relaxed) }
}

pub fn store_in_two(cell: *mut u8, slot: u32, new: Pair) {
    let (left, edge) = pair_in(cell, slot);
    edge.store(new.edge, Ordering::Relaxed);
    left.store(new.left, Ordering::Relaxed);
}

/// A pair of the usual width.
pub const fn stocked(stock: u32, edge: i64) -> Pair {
    Pair::new(stock, WIDTH - stock, edge)
}
