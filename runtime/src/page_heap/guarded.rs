//! Mappings for objects, each between two guard pages: a write that runs out of a mapping faults at once.
//!
//! ```text
//!   │ guard │ objects … │ guard │
//!           └ at a multiple of the alignment
//! ```
//!
//! So metadata never lies beside objects, wherever the kernel maps it. A mapping is reserved without access, and its
//! inside is committed: two system calls. Bytes and addresses here are those of the inside.
//!
//! **Random places.** The kernel chooses one random base; the distances between its mappings are the same in each run.
//! So a mapping here gets a random [`Place`]. A place far from other mappings costs pages of page tables, one for each
//! gibibyte and one for each 512, but no page faults. So the heap lies at random within 64 GiB. Its later mappings lie
//! near it, because 256 MiB share a page of the page map.

use super::PAGE;
use core::ptr::null_mut;
use machine::{process, vm};

/// Bytes of a guard.
pub(crate) const GUARD: usize = PAGE;

/// Random places tried before the kernel chooses one.
const TRIES: u64 = 4;

/// The place of a mapping: at random within `range` bytes below an address, or else above it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub near: usize,
    pub range: usize,
    /// Differs between mappings.
    pub turn: u64,
}

impl Place {
    #[unsafe(link_section = ".text.first")]
    fn reserve(self, bytes: usize, alignment: usize) -> Option<*mut u8> {
        let random = process::randomness();
        if random == 0 {
            return None;
        }
        let (near, own) = (self.near / alignment * alignment, bytes.checked_next_multiple_of(alignment)?);
        (0..TRIES).find_map(|attempt| {
            let bits = mixed(random.wrapping_add(self.turn * TRIES + attempt));
            let far = alignment * (bits as usize % (self.range / alignment).max(1));
            let at = |place: Option<usize>| reserve_at(place.filter(|&place| place > 0)?, bytes);
            at(near.checked_sub(own + far)).or_else(|| at(near.checked_add(alignment + far)))
        })
    }
}

/// Spreads a number's bits over all bits (splitmix64).
pub(crate) fn mixed(number: u64) -> u64 {
    let mut bits = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// Reserves `bytes` without access at a multiple of `alignment`: at the place, or else where the kernel chooses.
#[unsafe(link_section = ".text.first")]
pub(crate) fn reserve(place: Place, bytes: usize, alignment: usize) -> Option<*mut u8> {
    let bytes = bytes.checked_next_multiple_of(PAGE)?;
    place.reserve(bytes, alignment).or_else(|| reserve_anywhere(bytes, alignment))
}

/// Reserves whole pages, if possible near the kernel's other mappings.
fn reserve_anywhere(bytes: usize, alignment: usize) -> Option<*mut u8> {
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
#[unsafe(link_section = ".text.first")]
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
pub(crate) fn map(place: Place, bytes: usize, alignment: usize) -> Option<*mut u8> {
    commit(reserve(place, bytes, alignment)?, bytes)
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

/// A mapping between guard pages. Its end may be without access, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Mapping {
    pub start: *mut u8,
    pub bytes: usize,
}

impl Default for Mapping {
    /// None.
    fn default() -> Self {
        Mapping { start: null_mut(), bytes: 0 }
    }
}

impl Mapping {
    /// Unmaps it.
    ///
    /// # Safety
    /// As for [`vm::release`].
    pub unsafe fn release(self) -> bool {
        // SAFETY: passed on.
        unsafe { release(self.start, self.bytes) }
    }

    /// Resizes in place the part that has access, and moves the guard behind it. False: that is unchanged.
    ///
    /// # Safety
    /// The mapping is the caller's, who gives up the pages that are cut off. `old` bytes of it have access.
    pub unsafe fn resize(&mut self, old: usize, new: usize) -> bool {
        let (old_end, new_end) = (self.start.wrapping_add(old), self.start.wrapping_add(new));
        // SAFETY: the pages between these ends, and the guard, are ours.
        unsafe {
            if new > self.bytes {
                // The part without access may be two mappings for the kernel: one remains, the guard.
                if self.bytes > old && !vm::release(old_end.wrapping_add(GUARD), self.bytes - old) {
                    return false;
                }
                self.bytes = old;
                if !vm::resize(old_end, GUARD, GUARD + new - old) {
                    return false;
                }
                self.bytes = new;
            }
            if new > old {
                return vm::protect(old_end, new - old, vm::Access::ReadWrite);
            }
            if new < old {
                if !vm::protect(new_end, old - new, vm::Access::None) {
                    return false;
                }
                if vm::release(new_end.wrapping_add(GUARD), self.bytes - new) {
                    self.bytes = new;
                }
                vm::decommit(new_end, GUARD);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aligned_mapping_has_both_guards_and_nothing_else_where_the_place_below_is_taken() {
        machine::test_support::play(1, || {
            const BYTES: usize = 3 * PAGE;
            const ALIGNMENT: usize = 1 << 30;
            let is_free = |at: *mut u8| {
                let got = vm::reserve(at, PAGE, vm::Access::None);
                // SAFETY: the page was free.
                got.is_some_and(|at| unsafe { vm::release(at, PAGE) })
            };
            let anywhere = reserve_at(0, BYTES).expect("there is room");
            // SAFETY: the mapping is ours.
            unsafe { release(anywhere, BYTES) };
            let below = (anywhere as usize / ALIGNMENT * ALIGNMENT) as *mut u8;
            let taken = vm::reserve(below, PAGE, vm::Access::None);
            let start = reserve_anywhere(BYTES, ALIGNMENT).expect("there is room");
            assert!((start as usize).is_multiple_of(ALIGNMENT) && start != below);
            let guards = [start.wrapping_sub(GUARD), start.wrapping_add(BYTES)];
            assert!(!is_free(guards[0]) && !is_free(guards[1]), "a guard is missing");
            assert!(is_free(guards[0].wrapping_sub(PAGE)) && is_free(guards[1].wrapping_add(GUARD)), "more is left");
            // SAFETY: both are ours.
            unsafe {
                release(start, BYTES);
                taken.map(|taken| vm::release(taken, PAGE));
            }
            assert!(is_free(guards[0]) && is_free(guards[1]));
        });
    }
}
