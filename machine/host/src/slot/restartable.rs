//! The restartable operations, in x86-64 assembly. `machine/conformance` has their pseudo-code and tests.
//!
//! The shape is always the same:
//!
//! 1. Store the descriptor's address in the thread's rseq area. From label `2` on, the kernel watches.
//! 2. Read the slot *inside* the section, so that the slot checked is the slot read. Then work.
//! 3. Commit with one store, after which label `3` ends the section. Label `6` leaves without a commit.
//!
//! If the thread was preempted, migrated or interrupted by a signal between `2` and `3`, the kernel moves it to label
//! `4`, the abort handler (see `section`). In fallback mode no kernel watches, and no other thread uses the slot.
//!
//! The commit is a plain store of a computed value, not an addition in memory. This is faster. And if another CPU
//! overwrites the word meanwhile, its store is lost as a whole instead of being counted from (see `exchange`).
//!
//! The descriptor stays referenced after the section, so the code must never be unloaded.

use super::given::WORDS;
use super::layout::{AREA_SHIFT, AREAS, FULL_MASK, Stored, word};
use crate::sync::Ordering;
use core::arch::asm;

/// A section of these lines, which find their slot in the operand `slot`; operand `t` is scratch.
macro_rules! restartable {
    ($($line:expr),* ; after: $($after:expr),* ; no slot: $leave:literal $($nowhere:expr),* ; $($operands:tt)*) => {
        asm!(
            ".pushsection .text.commensal_abort, \"ax\"",
            $($nowhere,)*
            ".popsection",
            crate::slot_section!(words = "{words}", scratch = "{t}", leave = $leave),
            "mov {slot:e}, dword ptr fs:[{words} + 24]",
            $($line,)*
            "3:",
            $($after,)*
            "6:",
            $($operands)*
        )
    };
}
pub(super) use restartable;

/// A section that pops a pointer from an allocation word, and lines after it. Null: it is empty, or there is no slot.
macro_rules! popped {
    ($base:ident, $index:ident $(, $after:literal)*; $($operands:tt)*) => {{
        let words = WORDS.load(Ordering::Relaxed);
        let object: *mut u8;
        asm!(
            ".pushsection .text.commensal_abort, \"ax\"",
            "8: xor {object:e}, {object:e}",
            "jmp 6f",
            ".popsection",
            "lea {word}, [{base} + {index}*8 + {areas}]",
            crate::pop_section!(
                shift, words = "{words}", base = "{base}", word = "{word}", at = "{at}" "{at:e}",
                head = "{head}", object = "{object}", empty = "6f", leave = "8b"
            ),
            $($after,)*
            "6:",
            at = out(reg) _, head = out(reg) _, object = out(reg) object, words = in(reg) words, base = in(reg) $base,
            index = in(reg) $index, word = out(reg) _, areas = const AREAS, shift = const AREA_SHIFT, $($operands)*
            options(nostack)
        );
        object
    }};
}

/// Pops a pointer from the allocation word `index` of this thread's slot. Null: it is empty, or there is no slot.
///
/// # Safety
/// `base` is the base of a region in which each slot has an area, and word `index` is an allocation word.
#[inline(always)]
pub unsafe fn pop(base: *mut u8, index: usize) -> *mut u8 {
    // SAFETY: the head is an offset to a magazine of this slot, readable even if another CPU takes it away meanwhile
    // (magazines are never unmapped). Nothing is written before the commit.
    unsafe { popped!(base, index;) }
}

/// [`pop`], and has the processor fetch what the next pop returns: its first line, and the line at an offset.
///
/// # Safety
/// As for [`pop`].
#[inline(always)]
pub unsafe fn pop_ahead(base: *mut u8, index: usize, offset: usize) -> *mut u8 {
    // SAFETY: as in `pop`. What the head names may be read after the section, too, and a fetch may name any address.
    unsafe {
        popped!(
            base, index, "mov {head}, qword ptr [{base} + {head}]", "prefetcht0 byte ptr [{head}]",
            "prefetcht0 byte ptr [{head} + {offset}]"; offset = in(reg) offset,
        )
    }
}

/// Pushes a pointer to the free word `index + 1` of this thread's slot. False: it is full, or there is no slot.
///
/// # Safety
/// As for [`pop`]. The caller owns the object, and gives it up if the answer is true.
#[inline(always)]
pub unsafe fn push(base: *mut u8, index: usize, object: *mut u8) -> bool {
    let words = WORDS.load(Ordering::Relaxed);
    // SAFETY: no other code uses the cell behind the topmost pointer before the commit. A pointer that an aborted
    // section left there is not part of the magazine.
    unsafe {
        asm!(
            "lea {word}, [{base} + {index}*8 + {gives}]",
            crate::push_section!(
                shift, words = "{words}", base = "{base}", word = "{word}", at = "{at}" "{at:e}",
                head = "{head}" "{head:e}", object = "{object}", leave = "{no}"
            ),
            at = out(reg) _, head = out(reg) _,
            words = in(reg) words, base = in(reg) base, index = in(reg) index, word = out(reg) _,
            object = in(reg) object, gives = const AREAS + 8, shift = const AREA_SHIFT, full = const FULL_MASK,
            no = label { return false },
            options(nostack)
        );
    }
    true
}

/// Exchanges the magazines of allocation word `index` and the free word beside it, and pops from the former free
/// magazine. Null, without a change: the words are not `take` and `give`, the magazine of `take` has objects, the one
/// of `give` has none, or the thread has no slot.
///
/// One store of 16 bytes commits both words. To another CPU it may be two. This is no worse: each half is a word's
/// whole value, and a drainer in between meets one word before or after its own commit.
///
/// # Safety
/// As for [`pop`]; `take` and `give` named magazines when they were read.
#[inline(always)]
pub unsafe fn change_places(base: *mut u8, index: usize, take: usize, give: usize) -> *mut u8 {
    let words = WORDS.load(Ordering::Relaxed);
    // One magazine loses its topmost pointer, and the other is empty.
    // SAFETY: every x86-64 processor has SSE2.
    let changed = unsafe { core::arch::x86_64::_mm_set_epi64x((take + 8) as i64, (give - 16) as i64) };
    let object: *mut u8;
    // SAFETY: the commit writes two words of the slot's area; it reads magazines, which are never unmapped.
    unsafe {
        restartable!(
            "xor {object:e}, {object:e}",
            "shl {slot:e}, {shift}",
            "add {slot}, {base}",
            "lea {slot}, [{slot} + {index}*8 + {areas}]",
            "cmp qword ptr [{slot}], {take}",
            "jne 6f",
            "cmp qword ptr [{slot} + 8], {give}",
            "jne 6f",
            "cmp qword ptr [{base} + {take}], 0",
            "jne 6f",
            "mov {object}, qword ptr [{base} + {give} - 8]",
            "test {object}, {object}",
            "jz 6f",
            "movaps xmmword ptr [{slot}], {changed}";
            after:;
            no slot: "8b" "8: xor {object:e}, {object:e}", "jmp 6f";
            t = out(reg) _, slot = out(reg) _, object = out(reg) object,
            words = in(reg) words, base = in(reg) base, index = in(reg) index,
            take = in(reg) take, give = in(reg) give, changed = in(xmm_reg) changed,
            shift = const AREA_SHIFT, areas = const AREAS,
            options(nostack)
        );
    }
    object
}

/// Exchanges the same two magazines if the words are `take` and `give`, and pushes a pointer to the former allocation
/// magazine. False, without a change: the words are others, or the thread has no slot. Commits as [`change_places`].
///
/// # Safety
/// As for [`change_places`], and the magazine of `take` has room. The caller owns the object, and gives it up if the
/// answer is true.
#[inline(always)]
pub unsafe fn change_and_push(base: *mut u8, index: usize, take: usize, give: usize, object: *mut u8) -> bool {
    let words = WORDS.load(Ordering::Relaxed);
    // SAFETY: every x86-64 processor has SSE2.
    let changed = unsafe { core::arch::x86_64::_mm_set_epi64x((take + 16) as i64, (give - 8) as i64) };
    let mut is_done = 0_u32;
    // SAFETY: no other code uses the cell behind the topmost pointer before the commit of two words of the slot's area.
    unsafe {
        restartable!(
            "shl {slot:e}, {shift}",
            "add {slot}, {base}",
            "lea {slot}, [{slot} + {index}*8 + {areas}]",
            "cmp qword ptr [{slot}], {take}",
            "jne 6f",
            "cmp qword ptr [{slot} + 8], {give}",
            "jne 6f",
            "mov qword ptr [{base} + {take} + 8], {object}",
            "movaps xmmword ptr [{slot}], {changed}";
            after: "mov {is_done:e}, 1";
            no slot: "6f";
            t = out(reg) _, slot = out(reg) _, is_done = inout(reg) is_done,
            words = in(reg) words, base = in(reg) base, index = in(reg) index, object = in(reg) object,
            take = in(reg) take, give = in(reg) give, changed = in(xmm_reg) changed,
            shift = const AREA_SHIFT, areas = const AREAS,
            options(nostack)
        );
    }
    is_done != 0
}

/// Replaces what lies at a place of a slot if this thread is in that slot and the first word is as expected; gives a
/// [`Stored`]. `$commit` writes the operand `new`, of this class, to the operand `place`.
macro_rules! replace_if {
    ($slot:expr, $place:expr, $expected:expr, $commit:literal, $class:ident $new:expr) => {{
        let words = WORDS.load(Ordering::Relaxed);
        let mut outcome = Stored::Elsewhere as u32;
        restartable!(
            "mov {outcome:e}, 2",
            "cmp {slot:e}, {expected_slot:e}",
            "jne 6f",
            "mov {outcome:e}, 1",
            "cmp qword ptr [{place}], {expected}",
            "jne 6f",
            $commit;
            after: "xor {outcome:e}, {outcome:e}";
            no slot: "6f";
            t = out(reg) _, slot = out(reg) _, outcome = inout(reg) outcome,
            words = in(reg) words, expected_slot = in(reg) $slot, place = in(reg) $place,
            expected = in(reg) $expected, new = in($class) $new,
            options(nostack)
        );
        match outcome {
            0 => Stored::Done,
            1 => Stored::Differs,
            _ => Stored::Elsewhere,
        }
    }};
}
pub(super) use replace_if;

/// Replaces word `index` of slot `slot` by `new` if this thread is in that slot and the word is `expected`.
///
/// # Safety
/// As for [`pop`]. After [`Stored::Done`] the caller owns the magazine that the word named, and the slot the new one.
#[inline]
pub unsafe fn compare_store(base: *mut u8, slot: u32, index: usize, expected: usize, new: usize) -> Stored {
    // SAFETY: the commit writes one word of the slot's area.
    unsafe { replace_if!(slot, word(base, slot, index), expected, "mov qword ptr [{place}], {new}", reg new) }
}
