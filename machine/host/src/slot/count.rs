//! Counts of events in each slot, in x86-64 assembly.
//!
//! The word's address is one register and an offset. Processors forward a store to the next load only for simple forms
//! of address, and each addition reads the result of the last one.

use super::given::WORDS;
use super::layout::{COUNTED_BESIDE, COUNTS, Counted, NOWHERE};
use crate::sync::{AtomicPtr, Ordering};
use core::arch::asm;

/// Adds one to the first word of the counts of this thread's slot; returns the place. If restartable sections never
/// complete, counts in the word [`COUNTED_BESIDE`] it instead, as if in slot [`NOWHERE`]. `counts` leads to the counts
/// of slot 0, whatever their type. Signal handlers of this thread may change it before or after the operation. Only
/// [`fence_all`](crate::kick::fence_all) orders the thread's later accesses after the count.
///
/// # Safety
/// The mode is [`Mode::ConcurrencyId`](super::Mode::ConcurrencyId), and the thread has a slot. `counts` points to
/// counts for each possible slot. Only this and [`count_in`] write the word; only locked instructions write the one
/// beside it.
#[inline(always)]
pub unsafe fn count<T>(counts: &AtomicPtr<T>) -> Counted {
    let words = WORDS.load(Ordering::Relaxed);
    let (at, slot): (*mut u8, u64);
    // SAFETY: the commit adds to a word of the slot. No other thread does, so adding in memory is as good as a store.
    unsafe {
        asm!(
            ".pushsection .text.commensal_abort, \"ax\"",
            "8: mov {slot:e}, dword ptr fs:[{words} + 24]",
            "imul {t}, {slot}, {bytes}",
            "mov {at}, qword ptr [{counts}]",
            "add {at}, {t}",
            "lock add qword ptr [{at} + {beside}], 1",
            "mov {slot:e}, {nowhere}",
            "jmp 6f",
            ".popsection",
            crate::restartable_section!(words = "{words}", scratch = "{t}", leave = "8b"),
            "mov {slot:e}, dword ptr fs:[{words} + 24]",
            "imul {t}, {slot}, {bytes}",
            "mov {at}, qword ptr [{counts}]",
            "add {at}, {t}",
            "add qword ptr [{at}], 1",
            "3:",
            "6:",
            t = out(reg) _, slot = out(reg) slot, at = out(reg) at,
            words = in(reg) words, counts = in(reg) counts.as_ptr(), bytes = const COUNTS,
            beside = const COUNTED_BESIDE, nowhere = const NOWHERE,
            options(nostack)
        );
    }
    Counted { at, slot: slot as u32 }
}

/// Adds one to the word `OFFSET` bytes behind the thread's count; false, without a count, if it has left that slot. A
/// release: a thread that loads the sum by acquire sees earlier counts and comes after earlier reads.
///
/// # Safety
/// As for [`count`], which returned the place.
#[inline(always)]
pub unsafe fn count_in<const OFFSET: i32>(counted: Counted) -> bool {
    let words = WORDS.load(Ordering::Relaxed);
    // SAFETY: as above.
    unsafe {
        asm!(
            crate::restartable_section!(words = "{words}", scratch = "{t}", leave = "{no}"),
            "cmp dword ptr fs:[{words} + 24], {slot:e}",
            "jne {no}",
            "add qword ptr [{at} + {offset}], 1",
            "3:",
            t = out(reg) _,
            words = in(reg) words, slot = in(reg) counted.slot, at = in(reg) counted.at, offset = const OFFSET,
            no = label { return false },
            options(nostack)
        );
    }
    true
}
