//! Address space: reserve, decommit, release, move.
//!
//! Sizes and addresses are multiples of [`PAGE`]. A reservation costs address space, and counts under the system's
//! overcommit policy like any mapping. Its pages are zero at first touch, and cost memory from then on. A call that
//! fails for lack of address space changes nothing.

use crate::{fault, syscall};
use core::ffi::CStr;

pub use crate::zero::zero;

/// Bytes of a page.
pub const PAGE: usize = 4096;

pub(crate) const PROT_NONE: usize = 0;
const PROT_READ: usize = 1;
const PROT_WRITE: usize = 2;
const MAP_PRIVATE_ANONYMOUS: usize = 0x22;
pub(crate) const MAP_FIXED_NOREPLACE: usize = 0x10_0000;
pub(crate) const MADV_DONTNEED: usize = 4;
const MADV_HUGEPAGE: usize = 14;
const MADV_NOHUGEPAGE: usize = 15;
pub(crate) const MADV_WIPEONFORK: usize = 18;
/// Since Linux 5.18.
const MADV_DONTNEED_LOCKED: usize = 24;
/// Since Linux 6.13.
pub(crate) const MADV_GUARD_INSTALL: usize = 102;
pub(crate) const MADV_GUARD_REMOVE: usize = 103;
pub(crate) const MREMAP_MAYMOVE: usize = 1;
pub(crate) const MREMAP_FIXED: usize = 2;
pub(crate) const MREMAP_DONTUNMAP: usize = 4;

/// Access to a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Neither read nor write.
    None,
    /// Read and write.
    ReadWrite,
}

impl Access {
    pub(crate) fn protection(self) -> usize {
        match self {
            Access::None => PROT_NONE,
            Access::ReadWrite => PROT_READ | PROT_WRITE,
        }
    }
}

/// Advice about huge pages in a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Huge {
    /// Use them if they fit.
    Prefer,
    /// Never use them.
    Avoid,
}

/// Maps `bytes` of fresh zeroes anywhere, or exactly at `at` if that is not null and free.
#[unsafe(link_section = ".text.first")]
pub fn reserve(at: *mut u8, bytes: usize, access: Access) -> Option<*mut u8> {
    if fault::fails(fault::Point::Reserve) {
        return None;
    }
    let placement = if at.is_null() { 0 } else { MAP_FIXED_NOREPLACE };
    let flags = MAP_PRIVATE_ANONYMOUS | placement;
    let arguments = [at as usize, bytes, access.protection(), flags, usize::MAX];
    // SAFETY: an anonymous mapping that replaces nothing changes no memory in use.
    let got = unsafe { syscall::call(syscall::MMAP, arguments) }.ok()? as *mut u8;
    if !at.is_null() && got != at {
        // A kernel before 4.17 takes the address for a hint.
        // SAFETY: the mapping is ours and no other code has seen it.
        unsafe { release(got, bytes) };
        return None;
    }
    Some(got)
}

/// Changes the access to a range of whole pages that are mapped. False: it is unchanged.
///
/// # Safety
/// The caller owns the range, and no code uses it without access.
#[unsafe(link_section = ".text.first")]
pub unsafe fn protect(at: *mut u8, bytes: usize, access: Access) -> bool {
    // SAFETY: passed on.
    !fault::fails(fault::Point::Reserve)
        && unsafe { syscall::call(syscall::MPROTECT, [at as usize, bytes, access.protection()]) }.is_ok()
}

/// How pages were closed; see [`close`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Closed {
    /// By marks in the page tables, which split no mapping.
    Marked,
    /// By taking the access away: what is closed becomes a mapping of its own.
    Protected,
}

/// Closes pages: each access faults, and the kernel gets their memory. Children of a fork inherit that. None: they are
/// accessible, and may have lost their contents.
///
/// # Safety
/// The caller owns the range, which has access, and no longer needs its contents.
pub unsafe fn close(at: *mut u8, bytes: usize) -> Option<Closed> {
    // SAFETY: passed on.
    unsafe {
        if !fault::fails(fault::Point::Mark) && advise(at, bytes, MADV_GUARD_INSTALL) {
            return Some(Closed::Marked);
        }
        protect(at, bytes, Access::None).then(|| {
            decommit(at, bytes);
            Closed::Protected
        })
    }
}

/// Opens pages that were closed so; they hold anything. False: they are still closed.
///
/// # Safety
/// The caller owns the range, all of which was closed in this way.
pub unsafe fn open(at: *mut u8, bytes: usize, closed: Closed) -> bool {
    // SAFETY: passed on.
    unsafe {
        match closed {
            Closed::Marked => advise(at, bytes, MADV_GUARD_REMOVE),
            Closed::Protected => protect(at, bytes, Access::ReadWrite),
        }
    }
}

/// Whether a descriptor is a file in memory with this beginning and at least `bytes`, which no process can shorten
/// (`F_SEAL_SHRINK`). So mapping it cannot kill the program. Changes nothing for any descriptor.
pub fn is_kept(descriptor: i32, beginning: &[u8], bytes: usize) -> bool {
    const GET_SEALS: usize = 1034;
    const CANNOT_SHRINK: usize = 2;
    const MOST: usize = 64;
    let mut room = [0_u8; MOST];
    let mut holds = |from: usize, many: usize| {
        let arguments = [descriptor as usize, room.as_mut_ptr() as usize, many.min(MOST), from];
        // SAFETY: writes at most as many bytes as there is room for.
        unsafe { syscall::call(syscall::PREAD64, arguments) == Ok(many) }
    };
    // SAFETY: asks for a number.
    let seals = unsafe { syscall::call(syscall::FCNTL, [descriptor as usize, GET_SEALS]) };
    seals.is_ok_and(|seals| seals & CANNOT_SHRINK != 0)
        && holds(bytes - 1, 1)
        && holds(0, beginning.len())
        && room.starts_with(beginning)
}

/// Maps the first `bytes` of a file shared with other processes. An exec closes the descriptor.
///
/// # Safety
/// The caller owns the descriptor; no process shortens the file, and all of its contents are valid.
pub unsafe fn share(descriptor: i32, bytes: usize) -> Option<*mut u8> {
    const MAP_SHARED: usize = 1;
    const SET_DESCRIPTOR_FLAGS: usize = 2;
    const CLOSE_ON_EXEC: usize = 1;
    let arguments = [0, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor as usize];
    // SAFETY: a mapping that replaces nothing changes no memory in use; passed on.
    unsafe {
        let got = syscall::call(syscall::MMAP, arguments).ok()? as *mut u8;
        let _ = syscall::call(syscall::FCNTL, [descriptor as usize, SET_DESCRIPTOR_FLAGS, CLOSE_ON_EXEC]);
        Some(got)
    }
}

/// Returns the pages of a range to the kernel; the range stays committed and reads as zero. False: the contents are
/// unchanged, as when the process has locked all future memory. Also drops a program's lock on single pages.
///
/// # Safety
/// The caller owns the range and no longer needs its contents.
pub unsafe fn decommit(at: *mut u8, bytes: usize) -> bool {
    // SAFETY: the caller gives the contents up.
    let done = |advice| unsafe { advise(at, bytes, advice) };
    !fault::fails(fault::Point::Decommit)
        && (done(MADV_DONTNEED) || (!is_all_to_be_locked() && done(MADV_DONTNEED_LOCKED)))
}

/// Whether future mappings are locked (mlockall with MCL_FUTURE). Then the kernel takes back no untouched pages.
fn is_all_to_be_locked() -> bool {
    reserve(core::ptr::null_mut(), PAGE, Access::None).is_none_or(|page| {
        // SAFETY: the page is ours.
        let is_locked = unsafe { !advise(page, PAGE, MADV_DONTNEED) };
        // SAFETY: the page is ours, and no other code knows it.
        unsafe { release(page, PAGE) };
        is_locked
    })
}

/// Unmaps a range. False: it is still mapped (the kernel could not split a mapping); do not reuse the address.
///
/// # Safety
/// The caller owns the range, and no code touches it afterwards.
pub unsafe fn release(at: *mut u8, bytes: usize) -> bool {
    // SAFETY: the caller gives the range up.
    unsafe { syscall::call(syscall::MUNMAP, [at as usize, bytes]) }.is_ok()
}

/// Advises the kernel about huge pages in a range. A kernel without them answers false, which does no harm.
///
/// # Safety
/// The caller owns the range.
pub unsafe fn advise_huge(at: *mut u8, bytes: usize, wish: Huge) -> bool {
    let advice = if wish == Huge::Prefer { MADV_HUGEPAGE } else { MADV_NOHUGEPAGE };
    // SAFETY: the advice changes no contents.
    unsafe { advise(at, bytes, advice) }
}

/// Names a range for the kernel's list of mappings. False: unsupported (before 5.17, or by configuration).
///
/// # Safety
/// The caller owns the range.
pub unsafe fn name(at: *mut u8, bytes: usize, name: &'static CStr) -> bool {
    const SET_VMA: usize = 0x53_56_4d_41;
    const ANONYMOUS_NAME: usize = 0;
    let arguments = [SET_VMA, ANONYMOUS_NAME, at as usize, bytes, name.as_ptr() as usize];
    // SAFETY: a name changes no contents, and ends with a zero byte.
    unsafe { syscall::call(syscall::PRCTL, arguments) }.is_ok()
}

/// Makes a range read as zero in each child forked from now on.
///
/// # Safety
/// The caller owns the range.
pub unsafe fn wipe_on_fork(at: *mut u8, bytes: usize) -> bool {
    // SAFETY: the advice changes no contents in this process.
    unsafe { advise(at, bytes, MADV_WIPEONFORK) }
}

/// Moves the pages of `from` to `to` without copying them, replacing the contents; `from` stays committed and reads as
/// zero. False: both ranges are unchanged (a kernel before 5.7, too many mappings, no room for a third range).
///
/// Goes through a third range. A kernel before 6.17 that refuses to move to a given place may have unmapped it first,
/// and it refuses a source of several mappings. A move to a place of its own choice succeeds or changes nothing.
///
/// # Safety
/// The caller owns both ranges, which do not overlap, and gives up the contents of `to`.
pub unsafe fn move_pages(from: *mut u8, to: *mut u8, bytes: usize) -> bool {
    let remap = |from: *mut u8, flags, to: *mut u8| {
        // SAFETY: all ranges are the caller's, or fresh.
        unsafe { syscall::call(syscall::MREMAP, [from as usize, bytes, bytes, MREMAP_MAYMOVE | flags, to as usize]) }
    };
    let Ok(between) = remap(from, MREMAP_DONTUNMAP, core::ptr::null_mut()) else { return false };
    let between = between as *mut u8;
    if remap(between, MREMAP_FIXED, to).is_ok() {
        return true;
    }
    if remap(between, MREMAP_FIXED, from).is_err() {
        // SAFETY: the source is committed, and reads as zero while its pages are in between.
        unsafe {
            from.copy_from_nonoverlapping(between, bytes);
            release(between, bytes);
        }
    }
    false
}

/// Resizes the mapping at `at` in place. False: it is unchanged.
///
/// # Safety
/// The range is a whole mapping of the caller's; a part that is cut off is no longer used.
pub unsafe fn resize(at: *mut u8, old_bytes: usize, new_bytes: usize) -> bool {
    // SAFETY: the caller owns the mapping; without MAYMOVE the kernel grows into free address space only.
    unsafe { syscall::call(syscall::MREMAP, [at as usize, old_bytes, new_bytes]) }.is_ok()
}

unsafe fn advise(at: *mut u8, bytes: usize, advice: usize) -> bool {
    // SAFETY: passed on to our caller.
    unsafe { syscall::call(syscall::MADVISE, [at as usize, bytes, advice]) }.is_ok()
}
