//! Restartable sections that are drawn out: between reading the word and committing they rest for a while.
//!
//! The machine's own sections last two nanoseconds, and whatever is wrong with their surroundings has to hit these. Drawn out
//! to microseconds, nearly every disturbance finds a thread inside, and another thread in the same array. With
//! the slot check they must pass all the same bodies; without it, or with a fence in place of a restart, they must not.
//!
//! Without the check, the slot is looked up before the section, and an abort begins again with the same one, wherever the
//! thread is by then.

use conformance::Outcome;
use conformance::slot::Operations;
use conformance::slot::rows::RANGE;
use core::arch::asm;
use core::arch::x86_64::_mm_set_epi64x;
use machine::slot::{self, AREA_SHIFT, AREAS, ARRAY, Pair, ROW, Stored, WINDOW, WORDS};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Steps of a rest, of some 25 ns each.
static REST: AtomicU32 = AtomicU32::new(0);
/// Long enough for other threads to meet in the same array.
pub const SHORT: u32 = 40;
/// Longer than a kick takes.
pub const LONG: u32 = 400;

/// Sections that an abort began again.
static AGAIN: AtomicU64 = AtomicU64::new(0);

/// Drawn-out sections with the slot check.
pub const RIGHT: Operations = Operations {
    pop: pop::<true>,
    push: push::<true>,
    compare_store: compare_store::<true>,
    draw: draw::<true>,
    replace_pair: replace_pair::<true>,
    ..Operations::MACHINE
};

/// Runs a body on sections that are drawn out by so many steps, of which some must have been aborted.
pub fn drawn_out(steps: u32, body: impl FnOnce() -> Outcome) -> Outcome {
    REST.store(steps, Ordering::Relaxed);
    let summary = body()?;
    match AGAIN.load(Ordering::Relaxed) {
        0 => Err("no section was aborted: nothing was tested".into()),
        again => Ok(format!("{summary}; {again} sections began again")),
    }
}

/// A section: descriptor, abort handler, the check or not, the work with its rest, and how often it began.
macro_rules! section {
    ($checked:expr, $slot:expr, [$($read:literal),*], [$($commit:literal),*], $($operands:tt)*) => {
        let (mut begun, stale): (u64, u32) = (0, $slot);
        if $checked {
            section!(@ "mov {slot:e}, dword ptr fs:[{words} + 24]"; [$($read),*] [$($commit),*] begun stale $($operands)*);
        } else {
            section!(@ ""; [$($read),*] [$($commit),*] begun stale $($operands)*);
        }
        AGAIN.fetch_add(begun - 1, Ordering::Relaxed);
    };
    (@ $check:literal; [$($read:literal),*] [$($commit:literal),*] $begun:ident $stale:ident $($operands:tt)*) => {
        // SAFETY: as for the machine's sections; where the check is missing, that is the bug.
        unsafe {
            asm!(
                machine::restartable_section!(),
                "5: inc {begun}",
                "lea {t}, [rip + 77b]",
                "mov qword ptr fs:[{words} + 8], {t}",
                "2: mov {rest:e}, dword ptr [rip + {steps}]",
                "mov {slot:e}, {stale:e}",
                $check,
                $($read,)*
                "9: pause",
                "dec {rest:e}",
                "jnz 9b",
                $($commit,)*
                "3:",
                "6:",
                begun = inout(reg) $begun, stale = in(reg) $stale, slot = out(reg) _, rest = out(reg) _,
                t = out(reg) _,
                words = in(reg) WORDS.load(Ordering::Relaxed), steps = sym REST,
                $($operands)*
                options(nostack)
            );
        }
    };
}

/// # Safety
/// As for `slot::pop`.
pub unsafe fn pop<const CHECKED: bool>(base: *mut u8, index: usize) -> *mut u8 {
    let Some(slot) = slot::current() else { return core::ptr::null_mut() };
    let object: *mut u8;
    section!(
        CHECKED, slot,
        ["shl {slot:e}, {shift}", "add {slot}, {word}", "mov {t}, qword ptr [{slot}]", "mov {object}, qword ptr [{base} + {t}]",
         "test {object}, {object}", "jz 6f"],
        ["lea {t}, [{t} - 8]", "mov qword ptr [{slot}], {t}"],
        object = out(reg) object, base = in(reg) base, word = in(reg) word_of_slot_zero(base, index), shift = const AREA_SHIFT,
    );
    object
}

/// # Safety
/// As for `slot::push`.
pub unsafe fn push<const CHECKED: bool>(base: *mut u8, index: usize, object: *mut u8) -> bool {
    let Some(slot) = slot::current() else { return false };
    let head: usize;
    section!(
        CHECKED, slot,
        ["shl {slot:e}, {shift}", "add {slot}, {word}", "mov {head}, qword ptr [{slot}]", "test {head:e}, {full}", "jz 6f",
         "mov qword ptr [{base} + {head}], {object}"],
        ["lea {t}, [{head} + 8]", "mov qword ptr [{slot}], {t}"],
        head = out(reg) head, object = in(reg) object, base = in(reg) base,
        word = in(reg) word_of_slot_zero(base, index + 1), shift = const AREA_SHIFT, full = const ARRAY - 1,
    );
    !head.is_multiple_of(ARRAY)
}

/// # Safety
/// As for `slot::compare_store`.
pub unsafe fn compare_store<const CHECKED: bool>(
    base: *mut u8,
    expected_slot: u32,
    index: usize,
    expected: usize,
    new: usize,
) -> Stored {
    if slot::current() != Some(expected_slot) {
        return Stored::Elsewhere;
    }
    let mut outcome: u32 = 0;
    let word = word_of_slot_zero(base, index).wrapping_add(expected_slot as usize * slot::AREA);
    section!(
        CHECKED, expected_slot,
        ["mov {outcome:e}, 2", "cmp {slot:e}, {expected_slot:e}", "jne 6f", "mov {outcome:e}, 1",
         "cmp qword ptr [{word}], {expected}", "jne 6f", "mov {outcome:e}, 0"],
        ["mov qword ptr [{word}], {new}"],
        outcome = inout(reg) outcome, expected_slot = in(reg) expected_slot, word = in(reg) word, expected = in(reg) expected,
        new = in(reg) new,
    );
    stored(outcome)
}

/// # Safety
/// As for `slot::draw`.
pub unsafe fn draw<const CHECKED: bool>(cell: *mut u8, amount: i64) -> bool {
    let Some(slot) = slot::current() else { return false };
    let refused: u32;
    section!(
        CHECKED, slot,
        ["imul {slot}, {slot}, {row}", "mov {left}, qword ptr [{cell} + {slot}]", "sub {left}, {amount}",
         "mov {refused:e}, 1", "lea {t}, [{left} - {window}]", "cmp {t}, {range}", "jae 6f", "xor {refused:e}, {refused:e}"],
        ["mov qword ptr [{cell} + {slot}], {left}"],
        refused = out(reg) refused, left = out(reg) _, cell = in(reg) cell, amount = in(reg) amount,
        row = const ROW, window = const WINDOW, range = const RANGE,
    );
    refused == 0
}

/// # Safety
/// As for `slot::replace_pair`.
pub unsafe fn replace_pair<const CHECKED: bool>(cell: *mut u8, expected_slot: u32, expected: u64, new: Pair) -> Stored {
    if slot::current() != Some(expected_slot) {
        return Stored::Elsewhere;
    }
    let mut outcome: u32 = 0;
    // SAFETY: every x86-64 processor has SSE2.
    let packed = unsafe { _mm_set_epi64x(new.edge, new.left as i64) };
    section!(
        CHECKED, expected_slot,
        ["mov {outcome:e}, 2", "cmp {slot:e}, {expected_slot:e}", "jne 6f", "mov {outcome:e}, 1",
         "cmp qword ptr [{pair}], {expected}", "jne 6f", "mov {outcome:e}, 0"],
        ["movaps xmmword ptr [{pair}], {packed}"],
        outcome = inout(reg) outcome, expected_slot = in(reg) expected_slot,
        pair = in(reg) cell.wrapping_add(expected_slot as usize * ROW), expected = in(reg) expected, packed = in(xmm_reg) packed,
    );
    stored(outcome)
}

fn stored(outcome: u32) -> Stored {
    match outcome {
        0 => Stored::Done,
        1 => Stored::Differs,
        _ => Stored::Elsewhere,
    }
}

fn word_of_slot_zero(base: *mut u8, index: usize) -> *mut u8 {
    base.wrapping_add(AREAS + index * 8)
}
