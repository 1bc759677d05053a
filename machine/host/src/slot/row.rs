//! Operations on rows, in x86-64 assembly.

use super::given::WORDS;
use super::layout::{Pair, ROW, Stored, drawn, in_row};
use super::restartable::{replace_if, restartable};
use crate::sync::Ordering;
use core::arch::asm;
use core::arch::x86_64::{__m128i, _mm_set_epi64x};

/// Adds to a word by one instruction. Only this thread and its signal handlers add to it; others may read. The word is
/// `OFFSET` bytes behind `near`, so a caller needs only the structure's address in a register.
///
/// # Safety
/// There is an [`AtomicI64`](crate::sync::AtomicI64), to which no other thread adds.
#[inline(always)]
pub unsafe fn local_add<const OFFSET: i32>(near: *mut u8, amount: i64) {
    // SAFETY: changes an atomic word, to which only this thread adds.
    unsafe {
        asm!("add qword ptr [{near} + {offset}], {amount}", near = in(reg) near, amount = in(reg) amount,
             offset = const OFFSET, options(nostack))
    };
}

/// [`local_add`] of 1.
///
/// # Safety
/// As there.
#[inline(always)]
pub unsafe fn local_increment<const OFFSET: i32>(near: *mut u8) {
    // SAFETY: as above.
    unsafe {
        asm!("add qword ptr [{near} + {offset}], 1", near = in(reg) near, offset = const OFFSET, options(nostack))
    };
}

/// Draws `amount` from a cell in this thread's slot. False: stock or room do not suffice, or the thread has no slot.
/// The cell is `OFFSET` bytes behind `near`, so a caller's tagged pointer needs no untagging.
///
/// # Safety
/// The cell exists in slot 0's row, aligned to 16, and each possible slot has a row. `amount` lies between −DRAWN and
/// DRAWN.
#[inline(always)]
pub unsafe fn draw<const OFFSET: i32>(near: *mut u8, amount: i64) -> bool {
    let words = WORDS.load(Ordering::Relaxed);
    // SAFETY: the commit writes one word of the slot's row.
    unsafe {
        asm!(
            crate::slot_section!(words = "{words}", scratch = "{t}", leave = "{no}"),
            "mov {slot:e}, dword ptr fs:[{words} + 24]",
            "imul {slot}, {slot}, {row}",
            "mov {t}, qword ptr [{near} + {slot} + {offset}]",
            "add {t}, {drawn}",
            // Each half below zero has its sign.
            "js {no}",
            "test {t:e}, {t:e}",
            "js {no}",
            "mov qword ptr [{near} + {slot} + {offset}], {t}",
            "3:",
            t = out(reg) _, slot = out(reg) _,
            words = in(reg) words, near = in(reg) near, drawn = in(reg) drawn(amount),
            row = const ROW, offset = const OFFSET,
            no = label { return false },
            options(nostack)
        );
    }
    true
}

/// Replaces the pair of `cell` in the row of `slot` if this thread is in that slot and `left` is as expected.
///
/// # Safety
/// As for [`draw`]; no other thread changes `edge` meanwhile.
#[inline]
pub unsafe fn replace_pair(cell: *mut u8, slot: u32, expected: u64, new: Pair) -> Stored {
    let (place, new) = (in_row(cell, slot), packed(new));
    // SAFETY: the commit writes a pair of the slot's row.
    unsafe { replace_if!(slot, place, expected, "movaps xmmword ptr [{place}], {new}", xmm_reg new) }
}

/// Reads a cell's pair in any row, as of one moment. Intel and AMD promise that processors with AVX access sixteen
/// aligned bytes atomically; older ones might return halves of two pairs.
///
/// # Safety
/// As for [`draw`].
#[inline]
pub unsafe fn load_pair(cell: *mut u8, slot: u32) -> Pair {
    let both: __m128i;
    // SAFETY: reads a pair of the slot's row; all bits are valid.
    unsafe {
        asm!("movaps {0}, xmmword ptr [{1}]", out(xmm_reg) both, in(reg) in_row(cell, slot),
             options(readonly, nostack, preserves_flags));
        core::mem::transmute(both)
    }
}

/// Writes a cell's pair in any row, as one.
///
/// # Safety
/// As for [`draw`]; the cell is closed, so that no thread draws, and no other thread writes the pair meanwhile.
#[inline]
pub unsafe fn store_pair(cell: *mut u8, slot: u32, new: Pair) {
    // SAFETY: writes a pair of the slot's row.
    unsafe {
        asm!("movaps xmmword ptr [{1}], {0}", in(xmm_reg) packed(new), in(reg) in_row(cell, slot),
             options(nostack, preserves_flags))
    };
}

fn packed(pair: Pair) -> __m128i {
    // SAFETY: every x86-64 processor has SSE2.
    unsafe { _mm_set_epi64x(pair.edge, pair.left as i64) }
}
