//! Words of any slot, also of one in which another thread works.

use super::layout::word;
use crate::sync::{AtomicUsize, Ordering};

/// Reads word `index` of slot `slot`.
///
/// # Safety
/// `base` is the base of a region whose area for `slot` exists.
#[inline]
pub unsafe fn load(base: *mut u8, slot: u32, index: usize) -> usize {
    // Relaxed: a thread takes the magazine by `exchange` or `compare_exchange` before it reads its contents.
    // SAFETY: passed on.
    unsafe { (*word(base, slot, index).cast::<AtomicUsize>()).load(Ordering::Relaxed) }
}

/// Writes word `index` of any slot, even while another thread works in it; returns the old value. An operation in
/// flight may overwrite the new value, until the slot is restarted (`kick::restart`).
///
/// # Safety
/// As for [`load`]; the caller accounts for the magazine that the word named.
#[inline]
pub unsafe fn exchange(base: *mut u8, slot: u32, index: usize, value: usize) -> usize {
    // AcqRel: the owner's writes to the magazine before its last commit are visible to us, who get the magazine; and
    // our later writes are not seen before the word has changed. SAFETY: passed on; the owner's plain stores of an
    // aligned word do not tear on this machine.
    unsafe { (*word(base, slot, index).cast::<AtomicUsize>()).swap(value, Ordering::AcqRel) }
}

/// Replaces word `index` of any slot atomically if it is `expected`. An operation in flight may commit over it.
///
/// # Safety
/// As for [`exchange`].
#[inline]
pub unsafe fn compare_exchange(base: *mut u8, slot: u32, index: usize, expected: usize, new: usize) -> bool {
    // SAFETY: as for `exchange`.
    let word = unsafe { &*word(base, slot, index).cast::<AtomicUsize>() };
    // AcqRel as for `exchange`; Relaxed on failure: nothing is read then.
    word.compare_exchange(expected, new, Ordering::AcqRel, Ordering::Relaxed).is_ok()
}
