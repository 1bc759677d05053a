//! The layout and meaning of the words of slots.
//!
//! ```text
//!   base ─▶ ┌──────────────────────┐ 0            magazine words are offsets from base, so that zero
//!           │ header, starts with  │              memory means "empty" to pop and "full" to push
//!           │ a zeroed magazine    │
//!           ├──────────────────────┤ AREAS
//!           │ slot 0   AREA bytes  │   word i of slot s is at AREAS + s·AREA + 8·i
//!           │ slot 1               │
//! ```
//!
//! A *magazine* is 1024 bytes ([`ARRAY`]), aligned to 1024 from base. Its owner uses word 0; then at least one word is
//! zero (the bottom), and the rest holds pointers, growing upwards. An *allocation word* (`take`) is the offset of the
//! topmost pointer; the magazine is empty if that offset holds zero. A *free word* (`give`) is the offset behind the
//! topmost pointer; the magazine is full if it is 0 modulo 1024.
//!
//! Programs' per-CPU data lies in *rows*, [`ROW`] bytes apart. A *cell* has a pair of words in each slot's row.
//!
//! ```text
//!   cell ─▶ │ left, edge │   in slot 0's row      left: stock and room, half a word each; zero, or marked: closed
//!           ├────────────┤ ROW                    edge: a value of the cell's owner, changed together with left
//!           │ left, edge │   in slot 1's row
//! ```
//!
//! A thread can draw nothing from a zeroed cell. Rows are a line longer than a page, so copies of a cell do not compete
//! for the same few sets of a CPU cache. Counts lie closer together: [`COUNTS`] bytes per slot, which is two lines,
//! because processors fetch lines in pairs.

/// Most slots that a process can use at once.
pub const MAX: usize = 1024;
/// Offset of slot 0's words from the base. They serve the runtime's caches and lie in the middle of its area.
pub const AREAS: usize = 12288 + 2928;
/// Bytes from a slot's words to the next slot's.
pub const AREA: usize = 1 << AREA_SHIFT;
#[doc(hidden)]
pub const AREA_SHIFT: u32 = 13;
/// Bytes, and alignment, of a magazine.
pub const ARRAY: usize = 1024;

/// A free word with none of these bits is full.
pub(crate) const FULL_MASK: usize = ARRAY - 1;

/// Bytes from a cell in one slot's row to the same cell in the next.
pub const ROW: usize = 4096 + 64;
/// Bytes from one slot's counts to the next slot's.
pub const COUNTS: usize = 128;
/// Offset from a counted word to the one for locked instructions, used if no section completes.
pub const COUNTED_BESIDE: usize = 24;
/// The slot of those counts: no thread is ever there.
pub const NOWHERE: u32 = u32::MAX >> 1;
/// The largest sum of stock and room in a cell.
pub const WIDEST: u32 = 1 << 28;
/// Amounts that are drawn lie below this, in either direction.
pub const DRAWN: i64 = 1 << 29;
/// Set in `left` to close a cell. The room is then so far below zero that no draw leads out.
pub const MARK: u64 = 0b11 << 62;

const _: () = assert!((WIDEST as i64) < DRAWN && DRAWN as u64 * 2 == 1 << 30);

/// The addend to `left` for a draw of `amount`: from the stock to the room. With the stock in the lower half, this is a
/// short constant for 1.
#[inline(always)]
pub(crate) fn drawn(amount: i64) -> u64 {
    ((amount as u64) << 32).wrapping_sub(amount as u64)
}

/// A cell's contents in one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(16))]
pub struct Pair {
    /// The *stock*, which can still be drawn, in the lower half; in the upper one the *room*, by which negative draws
    /// can raise it. A draw keeps their sum, the cell's *width*, so it is one addition. Zero: a closed cell.
    pub left: u64,
    /// Changes together with `left`.
    pub edge: i64,
}

impl Pair {
    /// With a stock, and room for more; their sum is at most [`WIDEST`].
    #[inline]
    pub const fn new(stock: u32, room: u32, edge: i64) -> Self {
        debug_assert!(stock <= WIDEST && room <= WIDEST - stock);
        Pair { left: (room as u64) << 32 | stock as u64, edge }
    }

    /// The amount that can still be drawn.
    #[inline]
    pub fn stock(self) -> u32 {
        self.left as u32
    }

    /// Stock and room together, also if the cell is marked; zero for a closed one.
    #[inline]
    pub fn width(self) -> u32 {
        self.stock() + ((self.left & !MARK) >> 32) as u32
    }

    /// The sum of draws, if the edge moves by as much as is put into the stock.
    #[inline]
    pub fn total(self) -> i64 {
        self.edge.wrapping_sub(self.stock().into())
    }
}

/// The place of a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// The counted word.
    pub at: *mut u8,
    /// Its slot.
    pub slot: u32,
}

/// The result of a [`compare_store`](super::compare_store).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Stored {
    /// The word was as expected and is now new.
    Done = 0,
    /// The word had another value; nothing changed.
    Differs = 1,
    /// This thread is not in that slot; nothing changed.
    Elsewhere = 2,
}

#[inline]
pub(crate) fn in_row(cell: *mut u8, slot: u32) -> *mut u8 {
    cell.wrapping_add(slot as usize * ROW)
}

#[inline]
pub(crate) fn word(base: *mut u8, slot: u32, index: usize) -> *mut usize {
    base.wrapping_add(AREAS + slot as usize * AREA + index * 8).cast()
}
