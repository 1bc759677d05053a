//! Where the words of slots lie, and what they mean.
//!
//! ```text
//!   base ─▶ ┌──────────────────────┐ 0            array words are offsets from base, so that zero memory
//!           │ header, starts with  │              means "empty" to pop and "full" to push
//!           │ a zeroed array       │
//!           ├──────────────────────┤ AREAS
//!           │ slot 0   AREA bytes  │   word i of slot s is at AREAS + s·AREA + 8·i
//!           │ slot 1               │
//! ```
//!
//! An *array* is 1024 bytes, aligned to 1024 from base. Word 0 belongs to the array's owner, then at least one word is
//! zero (the bottom), and the rest holds pointers, growing upwards. A *take word* is the offset of the topmost pointer;
//! an array is empty when that offset holds zero. A *give word* is the offset behind the topmost pointer; an array is
//! full when it is 0 modulo 1024.
//!
//! Programs' per-CPU data lies in *rows*, [`ROW`] bytes apart. A *cell* has a pair of words in each slot's row.
//!
//! ```text
//!   cell ─▶ │ left, edge │   in slot 0's row      left: what can be drawn, plus WINDOW; zero, or a high bit: closed
//!           ├────────────┤ ROW                    edge: what the owner of the cell says, moved with left as one
//!           │ left, edge │   in slot 1's row
//! ```
//!
//! Counts lie closer together: [`COUNTS`] bytes per slot. That is two lines, since processors fetch lines in pairs.
//!
//! A thread can draw nothing from a zeroed cell. Rows are a line longer than a page, so that the copies of a cell do
//! not all compete for the same few places of a cache.

/// The most slots that a process can use at once.
pub const MAX: usize = 1024;
/// Offset of slot 0's words from the base: of those of the runtime's caches, which lie in the middle of its areas.
pub const AREAS: usize = 8192 + 2928;
/// Bytes from a slot's words to the next slot's.
pub const AREA: usize = 1 << AREA_SHIFT;
#[doc(hidden)]
pub const AREA_SHIFT: u32 = 13;
/// Bytes, and alignment, of an array.
pub const ARRAY: usize = 1024;

/// A give word with none of these bits is full.
pub(crate) const FULL_MASK: usize = ARRAY - 1;

/// Bytes from a cell in one slot's row to the same cell in the next.
pub const ROW: usize = 4096 + 64;
/// Bytes of what is counted in a slot, and from there to the next slot's.
pub const COUNTS: usize = 128;
/// Bytes from a counted word to the one beside it, for locked instructions if no section completes.
pub const COUNTED_BESIDE: usize = 24;
/// The slot that those say they counted in: no thread is ever there.
pub const NOWHERE: u32 = u32::MAX >> 1;
/// The least `left` from which a thread can draw. One draw takes at most half of it. So no draw leads into the window
/// from below half of it, nor from a value with one of the two highest bits: a cell with such a `left` is *closed*.
pub const WINDOW: u64 = 1 << 30;

/// What a cell holds in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(16))]
pub struct Pair {
    /// What can still be drawn, plus [`WINDOW`].
    pub left: u64,
    /// Changes together with `left`.
    pub edge: i64,
}

/// Where a thread counted: in which slot, and that slot's counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// The word.
    pub at: *mut u8,
    /// The slot.
    pub slot: u32,
}

/// What became of a [`compare_store`](super::compare_store).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Stored {
    /// The word was as expected and is now new.
    Done = 0,
    /// The word was another one; nothing changed.
    Differs = 1,
    /// This thread is not in that slot (any more); nothing changed.
    Elsewhere = 2,
}

#[inline]
pub(crate) fn in_row(cell: *mut u8, slot: u32) -> *mut u8 {
    cell.wrapping_add(slot as usize * ROW)
}

/// Word `index` of slot `slot`.
#[inline]
pub(crate) fn word(base: *mut u8, slot: u32, index: usize) -> *mut usize {
    base.wrapping_add(AREAS + slot as usize * AREA + index * 8).cast()
}
