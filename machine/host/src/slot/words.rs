//! Words of any slot, also of one that another thread is working in.

use super::layout::word;
use crate::sync::{AtomicUsize, Ordering};

/// Reads word `index` of slot `slot`, as it is at some moment.
///
/// # Safety
/// `base` is the base of a region whose area for `slot` exists.
#[inline]
pub unsafe fn load(base: *mut u8, slot: u32, index: usize) -> usize {
    // Relaxed: whoever reads what the word names takes it first, by `exchange` or `compare_exchange`.
    // SAFETY: passed on.
    unsafe { (*word(base, slot, index).cast::<AtomicUsize>()).load(Ordering::Relaxed) }
}

/// Writes word `index` of any slot, even while another thread works in it, and returns the old value. An operation of
/// that thread in flight may overwrite it, as if our store had not been, until the slot is restarted (`kick::restart`).
///
/// # Safety
/// As for [`load`]; the caller accounts for the array that the word named.
#[inline]
pub unsafe fn exchange(base: *mut u8, slot: u32, index: usize, value: usize) -> usize {
    // AcqRel: what the owner wrote into the array before its last commit is visible to us, who get the array with its
    // fill; and what we write later is not seen before the word has changed. SAFETY: passed on; the owner's plain
    // stores of an aligned word do not tear on this machine.
    unsafe { (*word(base, slot, index).cast::<AtomicUsize>()).swap(value, Ordering::AcqRel) }
}

/// Replaces word `index` of any slot if it is `expected`, atomically. As with [`exchange`], an operation in flight may
/// commit over it.
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
