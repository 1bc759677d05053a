//! Counts of what happened in which slot, in x86-64 assembly.
//!
//! The word's address is one register and an offset: processors forward a store to the next load by the form of its
//! address only for simple forms, and each addition reads what the last one wrote.

use super::given::WORDS;
use super::layout::{COUNTED_BESIDE, COUNTS, Counted, NOWHERE};
use crate::sync::{AtomicPtr, Ordering};
use core::arch::asm;

/// Adds one to the first word of the counts of this thread's slot, and says where that was; or, where restartable
/// sections do not come to an end, to the word [`COUNTED_BESIDE`] it, as if in slot [`NOWHERE`]. `counts` leads to
/// those of slot 0; signal handlers of this thread that let it lead elsewhere do so before or after the operation. What
/// the thread does next is ordered behind the count by [`fence_all`](crate::kick::fence_all) only.
///
/// # Safety
/// The mode is [`Mode::ConcurrencyId`](super::Mode::ConcurrencyId), and the thread has a slot. `counts` points to
/// counts for every possible slot. Only this operation and [`count_in`] write the word, and the one beside it is
/// written by locked instructions only.
#[inline(always)]
pub unsafe fn count(counts: &AtomicPtr<u8>) -> Counted {
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

/// Adds one to the word `OFFSET` bytes behind where the thread counted; false, and nothing is counted, if it is not in
/// that slot any more. A release: whoever loads the sum by acquire sees what the thread counted before, and comes
/// behind what it read before.
///
/// # Safety
/// As for [`count`], which said where.
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
