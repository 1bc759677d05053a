//! Restartable sections without the slot check: the slot was looked up before the section, and an abort begins again with
//! the same one, wherever the thread is by then. Right as long as threads stay where they are.

use commensal_machine_conformance::slot::Operations;
use core::arch::asm;
use machine::slot::{self, AREA, AREAS, ARRAY, Stored, WORDS};
use std::sync::atomic::Ordering;

pub const NO_CHECK: &str = "a section without the slot check";

pub fn pop() -> Operations {
    Operations { pop: pop_from_stale_slot, ..Operations::MACHINE }
}

pub fn push() -> Operations {
    Operations { push: push_to_stale_slot, ..Operations::MACHINE }
}

pub fn compare_store() -> Operations {
    Operations { compare_store: store_in_stale_slot, ..Operations::MACHINE }
}

/// The word's address in the slot where the thread was a moment ago.
fn word(base: *mut u8, index: usize) -> *mut usize {
    let slot = slot::current().unwrap_or(0) as usize;
    base.wrapping_add(AREAS + slot * AREA + index * 8).cast()
}

/// # Safety
/// As for `slot::pop`.
unsafe fn pop_from_stale_slot(base: *mut u8, index: usize) -> *mut u8 {
    let object: *mut u8;
    // SAFETY: as for the right one, but for the missing check, which is the bug.
    unsafe {
        asm!(
            machine::restartable_section!(),
            "5: lea {t}, [rip + 77b]",
            "mov qword ptr fs:[{words} + 8], {t}",
            "2: mov {t}, qword ptr [{word}]",
            "mov {object}, qword ptr [{base} + {t}]",
            "test {object}, {object}",
            "jz 6f",
            "lea {t}, [{t} - 8]",
            "mov qword ptr [{word}], {t}",
            "3:",
            "6:",
            t = out(reg) _, object = out(reg) object, words = in(reg) WORDS.load(Ordering::Relaxed), base = in(reg) base,
            word = in(reg) word(base, index), options(nostack)
        );
    }
    object
}

/// # Safety
/// As for `slot::push`.
unsafe fn push_to_stale_slot(base: *mut u8, index: usize, object: *mut u8) -> bool {
    let head: usize;
    // SAFETY: as for the right one, but for the missing check, which is the bug.
    unsafe {
        asm!(
            machine::restartable_section!(),
            "5: lea {t}, [rip + 77b]",
            "mov qword ptr fs:[{words} + 8], {t}",
            "2: mov {head}, qword ptr [{word}]",
            "test {head:e}, {full}",
            "jz 6f",
            "mov qword ptr [{base} + {head}], {object}",
            "lea {t}, [{head} + 8]",
            "mov qword ptr [{word}], {t}",
            "3:",
            "6:",
            t = out(reg) _, head = out(reg) head, words = in(reg) WORDS.load(Ordering::Relaxed), base = in(reg) base,
            object = in(reg) object, word = in(reg) word(base, index + 1), full = const ARRAY - 1, options(nostack)
        );
    }
    !head.is_multiple_of(ARRAY)
}

/// # Safety
/// As for `slot::compare_store`.
unsafe fn store_in_stale_slot(base: *mut u8, slot: u32, index: usize, expected: usize, new: usize) -> Stored {
    if slot::current() != Some(slot) {
        return Stored::Elsewhere;
    }
    let mut differs: u32 = 1;
    let word = base.wrapping_add(AREAS + slot as usize * AREA + index * 8);
    // SAFETY: as for the right one, but for the missing check, which is the bug.
    unsafe {
        asm!(
            machine::restartable_section!(),
            "5: lea {t}, [rip + 77b]",
            "mov qword ptr fs:[{words} + 8], {t}",
            "2: cmp qword ptr [{word}], {expected}",
            "jne 6f",
            "mov qword ptr [{word}], {new}",
            "3: xor {differs:e}, {differs:e}",
            "6:",
            t = out(reg) _, differs = inout(reg) differs, words = in(reg) WORDS.load(Ordering::Relaxed),
            word = in(reg) word, expected = in(reg) expected, new = in(reg) new, options(nostack)
        );
    }
    if differs == 0 { Stored::Done } else { Stored::Differs }
}
