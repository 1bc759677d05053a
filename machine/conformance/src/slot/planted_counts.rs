//! Wrong ways to count, which the bodies must find.

use super::{Operations, counted};
use machine::slot::{self, COUNTS, Counted};
use machine::sync::{AtomicPtr, AtomicU64, Ordering};
use std::hint::{black_box, spin_loop};

pub(super) const PLAIN: &str = "load, look where, then store";
pub(super) const LATER: &str = "says where it is afterwards";
pub(super) const UNGUARDED: &str = "looks before where counts lead";
pub(super) const ANY_SLOT: &str = "in any slot";

pub(super) fn plain_count() -> Operations {
    Operations { count: in_two_steps, ..Operations::MACHINE }
}

pub(super) fn count_said_later() -> Operations {
    Operations { count: and_look, ..Operations::MACHINE }
}

pub(super) fn count_unguarded() -> Operations {
    Operations { count: much_later, ..Operations::MACHINE }
}

pub(super) fn plain_count_in() -> Operations {
    Operations { count_in: if_there, ..Operations::MACHINE }
}

pub(super) fn count_in_any_slot() -> Operations {
    Operations { count_in: anywhere, ..Operations::MACHINE }
}

/// # Safety
/// As for the machine's count.
unsafe fn in_two_steps(counts: &AtomicPtr<u8>) -> Counted {
    let slot = slot::current().unwrap_or(0);
    let counts = counts.load(Ordering::Relaxed);
    let at = counts.wrapping_add(slot as usize * COUNTS);
    // SAFETY: passed on.
    unsafe { add(at) };
    Counted { at, slot }
}

/// # Safety
/// As for the machine's count.
unsafe fn and_look(counts: &AtomicPtr<u8>) -> Counted {
    // SAFETY: passed on.
    let counted = unsafe { slot::count(counts) };
    Counted { slot: slot::current().unwrap_or(0), ..counted }
}

/// Drawn out between the look and the count, so that a handler comes in between.
///
/// # Safety
/// As for the machine's count.
unsafe fn much_later(counts: &AtomicPtr<u8>) -> Counted {
    const REST: usize = 50;
    let counts = AtomicPtr::new(counts.load(Ordering::Relaxed));
    (0..REST).for_each(|_| spin_loop());
    // SAFETY: passed on.
    unsafe { slot::count(&counts) }
}

/// # Safety
/// As for the machine's count_in.
unsafe fn if_there(counted: Counted) -> bool {
    // SAFETY: passed on.
    slot::current() == Some(counted.slot) && unsafe { anywhere(counted) }
}

/// # Safety
/// As for the machine's count_in.
unsafe fn anywhere(counted: Counted) -> bool {
    // SAFETY: passed on.
    unsafe { add(counted.at.wrapping_add(counted::OTHER)) };
    true
}

/// In two steps.
///
/// # Safety
/// The word is there.
unsafe fn add(word: *mut u8) {
    // SAFETY: passed on.
    let word = unsafe { &*word.cast::<AtomicU64>() };
    // A compiler that sees that this is an addition makes one instruction of both.
    word.store(black_box(word.load(Ordering::Relaxed)) + 1, Ordering::Relaxed);
}
