//! Mappings for objects, each between two guard pages: a write that runs out of a mapping faults at once.
//!
//! ```text
//!   │ guard │ objects … │ guard │
//!           └ at a multiple of the alignment
//! ```
//!
//! So metadata never lies beside objects, wherever the kernel maps it. A mapping is reserved without access, and its
//! inside is committed: two system calls. Bytes and addresses here are those of the inside.

use super::PAGE;
use core::ptr::null_mut;
use machine::vm;

/// Bytes of a guard.
pub(crate) const GUARD: usize = PAGE;

/// Reserves `bytes` without access at a multiple of `alignment`, if possible near our other mappings.
pub(crate) fn reserve(bytes: usize, alignment: usize) -> Option<*mut u8> {
    let bytes = bytes.checked_next_multiple_of(PAGE)?;
    let anywhere = reserve_at(0, bytes)?;
    if (anywhere as usize).is_multiple_of(alignment) {
        return Some(anywhere);
    }
    // SAFETY: the mapping is ours and unused.
    unsafe { release(anywhere, bytes) };
    let below = anywhere as usize / alignment * alignment;
    if below > 0
        && let Some(place) = reserve_at(below, bytes)
    {
        return Some(place);
    }
    let start = reserve_at(0, bytes.checked_add(alignment)?)?;
    let aligned = (start as usize).next_multiple_of(alignment) as *mut u8;
    let before = aligned as usize - start as usize;
    for (end, bytes) in [(start, before), (aligned.wrapping_add(bytes + 2 * GUARD), alignment - before)] {
        if bytes > 0 {
            // SAFETY: an end of a mapping that is ours.
            unsafe { vm::release(end.wrapping_sub(GUARD), bytes) };
        }
    }
    Some(aligned)
}

/// Reserves `bytes` without access: anywhere, or exactly at `at` if that is not zero.
fn reserve_at(at: usize, bytes: usize) -> Option<*mut u8> {
    let place = if at == 0 { null_mut() } else { at.checked_sub(GUARD)? as *mut u8 };
    let start = vm::reserve(place, bytes.checked_add(2 * GUARD)?, vm::Access::None)?;
    Some(start.wrapping_add(GUARD))
}

/// Commits what was reserved. None: no memory, and the reservation is gone.
fn commit(start: *mut u8, bytes: usize) -> Option<*mut u8> {
    // SAFETY: the mapping is ours and unused.
    unsafe {
        if vm::protect(start, bytes, vm::Access::ReadWrite) {
            return Some(start);
        }
        release(start, bytes);
    }
    None
}

/// Maps `bytes` of zeroes at a multiple of `alignment`.
pub(crate) fn map(bytes: usize, alignment: usize) -> Option<*mut u8> {
    commit(reserve(bytes, alignment)?, bytes)
}

/// Maps `bytes` of zeroes exactly at `at`, which is not zero.
pub(crate) fn map_at(at: usize, bytes: usize) -> Option<*mut u8> {
    commit(reserve_at(at, bytes)?, bytes)
}

/// Unmaps a mapping or reservation.
///
/// # Safety
/// As for [`vm::release`].
pub(crate) unsafe fn release(start: *mut u8, bytes: usize) -> bool {
    // SAFETY: passed on.
    unsafe { vm::release(start.wrapping_sub(GUARD), bytes + 2 * GUARD) }
}

/// Resizes a mapping in place, and moves the guard behind it. False: it is unchanged.
///
/// # Safety
/// The mapping is the caller's, who gives up the pages that are cut off.
pub(crate) unsafe fn resize(start: *mut u8, old: usize, new: usize) -> bool {
    let (old_end, new_end) = (start.wrapping_add(old), start.wrapping_add(new));
    // SAFETY: the pages between both ends, and the guard, are ours.
    unsafe {
        if new > old {
            // The guard grows, and what it leaves is committed.
            if !vm::resize(old_end, GUARD, GUARD + new - old) {
                return false;
            }
            let is_committed = vm::protect(old_end, new - old, vm::Access::ReadWrite);
            return is_committed || !vm::release(old_end.wrapping_add(GUARD), new - old);
        }
        if new < old {
            if !vm::protect(new_end, old - new, vm::Access::None) {
                return false;
            }
            if !vm::release(new_end.wrapping_add(GUARD), old - new) {
                return !vm::protect(new_end, old - new, vm::Access::ReadWrite);
            }
            vm::decommit(new_end, GUARD);
        }
    }
    true
}
