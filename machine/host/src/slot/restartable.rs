//! The restartable operations, in x86-64 assembly. Their pseudo-code and their tests are in `machine/conformance`.
//!
//! The shape is always the same. Store the descriptor's address in the thread's rseq area; from the label `2` on, the
//! kernel watches; read the slot *inside* the section, so that what is read is what is checked; work; commit with one
//! store, after which label `3` ends the section; label `6` is the way out without a commit. If the kernel finds the
//! thread's instruction pointer between `2` and `3` when the thread was preempted, migrated or interrupted by a signal,
//! it moves it to label `4`, the abort handler (see `section`). In fallback mode nobody watches, and nobody else uses
//! the slot.
//!
//! The commit is a plain store of a value computed from what was read, not an addition in memory: that is faster, and
//! when another CPU overwrites the word meanwhile, its store is lost as a whole instead of being counted from (see
//! `exchange`).
//!
//! The descriptor stays referenced after the section: the code must never be unloaded.

use super::given::WORDS;
use super::layout::{AREA_SHIFT, AREAS, FULL_MASK, Stored, word};
use crate::sync::Ordering;
use core::arch::asm;

/// A section of these lines, which find their slot in the operand `slot`. The operand `t` is for scratch.
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

/// Takes the topmost pointer of the array in word `index` of this thread's slot, a take word; null if it is empty or
/// the thread has no slot.
///
/// # Safety
/// `base` is the base of a region in which every slot has an area, and word `index` is a take word.
#[inline(always)]
pub unsafe fn pop(base: *mut u8, index: usize) -> *mut u8 {
    let words = WORDS.load(Ordering::Relaxed);
    let object: *mut u8;
    // SAFETY: the head is an offset to an array of this slot, readable even if another CPU takes the array away
    // meanwhile (arrays are never unmapped); nothing is written before the commit.
    unsafe {
        asm!(
            ".pushsection .text.commensal_abort, \"ax\"",
            "8: xor {object:e}, {object:e}",
            "jmp 6f",
            ".popsection",
            crate::pop_section!(
                shift, words = "{words}", base = "{base}", word = "{word}", at = "{at}" "{at:e}",
                head = "{head}", object = "{object}", empty = "6f", leave = "8b"
            ),
            "6:",
            at = out(reg) _, head = out(reg) _, object = out(reg) object,
            words = in(reg) words, base = in(reg) base, word = in(reg) word(base, 0, index), shift = const AREA_SHIFT,
            options(nostack)
        );
    }
    object
}

/// Puts a pointer on the array in word `index + 1` of this thread's slot, the give word beside take word `index`; false
/// if it is full or the thread has no slot.
///
/// # Safety
/// As for [`pop`]. The caller owns what the pointer names, and gives it up if the answer is true.
#[inline(always)]
pub unsafe fn push(base: *mut u8, index: usize, object: *mut u8) -> bool {
    let words = WORDS.load(Ordering::Relaxed);
    // SAFETY: the cell behind the topmost pointer belongs to nobody until the commit: a pointer left there by an
    // aborted section is not part of the array.
    unsafe {
        asm!(
            crate::push_section!(
                shift, words = "{words}", base = "{base}", word = "{word}", at = "{at}" "{at:e}",
                head = "{head}" "{head:e}", object = "{object}", leave = "{no}"
            ),
            at = out(reg) _, head = out(reg) _,
            words = in(reg) words, base = in(reg) base, word = in(reg) word(base, 0, index + 1),
            object = in(reg) object,
            shift = const AREA_SHIFT, full = const FULL_MASK,
            no = label { return false },
            options(nostack)
        );
    }
    true
}

/// Lets the two arrays of word `index` and the next, a take word and its give word, change places, and takes the
/// topmost pointer of the one that was given to; null, and nothing has changed, if the words are others than `take` and
/// `give`, if the array of `take` is not empty or the one of `give` is, or if the thread has no slot.
///
/// Both words are committed by one store of 16 bytes. To another CPU it may be two, which is no worse: each half is a
/// word's whole value, and a drainer that comes in between meets one word before or after its own commit.
///
/// # Safety
/// As for [`pop`]; `take` and `give` were words of arrays when they were read.
#[inline(always)]
pub unsafe fn change_places(base: *mut u8, index: usize, take: usize, give: usize) -> *mut u8 {
    let words = WORDS.load(Ordering::Relaxed);
    // As the topmost pointer of the one is taken, and the other is empty.
    // SAFETY: every x86-64 processor has SSE2.
    let changed = unsafe { core::arch::x86_64::_mm_set_epi64x((take + 8) as i64, (give - 16) as i64) };
    let object: *mut u8;
    // SAFETY: writes two words of the slot's area, in the commit; what it reads are arrays, which are never unmapped.
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

impl Stored {
    pub(super) fn from_outcome(outcome: u32) -> Self {
        match outcome {
            0 => Stored::Done,
            1 => Stored::Differs,
            _ => Stored::Elsewhere,
        }
    }
}

/// Replaces word `index` of slot `slot` by `new` if this thread is in that slot and the word is `expected`.
///
/// # Safety
/// As for [`pop`]. An array that the word stops to name is the caller's if the answer is [`Stored::Done`]; one that it
/// starts to name is the slot's.
#[inline]
pub unsafe fn compare_store(base: *mut u8, slot: u32, index: usize, expected: usize, new: usize) -> Stored {
    let words = WORDS.load(Ordering::Relaxed);
    let mut outcome = Stored::Elsewhere as u32;
    // SAFETY: writes one word of the slot's area, in the commit.
    unsafe {
        restartable!(
            "mov {outcome:e}, 2",
            "cmp {slot:e}, {expected_slot:e}",
            "jne 6f",
            "mov {outcome:e}, 1",
            "cmp qword ptr [{word}], {expected}",
            "jne 6f",
            "mov qword ptr [{word}], {new}";
            after: "xor {outcome:e}, {outcome:e}";
            no slot: "6f";
            t = out(reg) _, slot = out(reg) _, outcome = inout(reg) outcome,
            words = in(reg) words, expected_slot = in(reg) slot, word = in(reg) word(base, slot, index),
            expected = in(reg) expected, new = in(reg) new,
            options(nostack)
        );
    }
    Stored::from_outcome(outcome)
}
