//! The C functions of `commensal.h` for sets of counters: names and errno for `commensal_runtime::counter::Counters`.
//!
//! A set has its length in its own memory. An index beyond it ends the program, because the words behind a set belong
//! to other objects, and the functions return no errors.
//!
//! Safety, for all of them: the pointer leads to a set that `CM_COUNTERS_INIT` or `cm_counters_begin` made, and stays
//! there during the call. Callers fulfil the conditions of a comment's line "Threads".

use crate::counter::{Reading, status};
use commensal_runtime::counter::Counters;
use commensal_runtime::heap;
use commensal_runtime::misuse::Line;
use commensal_runtime::percpu::{CELL, LINES};
use core::ffi::{c_int, c_void};
use core::fmt::Write;
use core::ptr::NonNull;

/// The largest number of counters in a set.
pub const CM_COUNTERS_MOST: usize = 260;

const _: () = assert!(CM_COUNTERS_MOST == LINES * 64 / CELL);

/// The beginning of a set of lazy counters; the words of its counters follow. See CM_COUNTERS. Do not copy or move a
/// set, and do not put it into memory that processes share. Its members are private.
#[repr(C)]
pub struct Set {
    _state: u64,
    _additions: u32,
    _length: u32,
}

const _: () = assert!(size_of::<Set>() + 4 * 12 == Counters::bytes(4));

/// The set.
#[inline(always)]
unsafe fn whole<'a>(set: *const Set) -> &'a Counters {
    // SAFETY: see the module.
    unsafe { Counters::at(NonNull::new_unchecked(set.cast_mut().cast())) }
}

/// The set, if it has a counter of this index.
#[inline(always)]
unsafe fn with<'a>(set: *const Set, index: usize) -> &'a Counters {
    // SAFETY: passed on.
    let counters = unsafe { whole(set) };
    if index >= counters.len() {
        no_such_counter(index, counters.len());
    }
    counters
}

#[cold]
#[inline(never)]
fn no_such_counter(index: usize, length: usize) -> ! {
    let mut line = Line::new();
    let _ = write!(line, "counter {index} of a set of {length}: give an index below {length}");
    heap::report::give_up(str::from_utf8(line.as_bytes()).unwrap_or("an index is beyond its set of counters"))
}

/// Returns the bytes of a set of `n` counters, for cm_counters_begin: 16 + 12 n, rounded up to 8. Returns 0 on error.
///
/// errno: EINVAL if `n` is 0 or above CM_COUNTERS_MOST.
/// cbindgen:postfix=CM_NOTHROW CM_CHECKED
#[unsafe(no_mangle)]
pub extern "C" fn cm_counters_bytes(n: usize) -> usize {
    if (1..=CM_COUNTERS_MOST).contains(&n) {
        return Counters::bytes(n);
    }
    heap::invalid();
    0
}

/// Makes a set of `n` counters, all 0 and without an owner, in the memory at `place`: cm_counters_bytes(n) bytes,
/// aligned to 8, with any contents.
///
/// Returns the set, which begins at `place`, or NULL with the memory unchanged.
///
/// errno: EINVAL if `n` is 0 or above CM_COUNTERS_MOST. Time: proportional to `n`. Threads, Signal handlers: while no
/// other code uses the memory.
/// cbindgen:postfix=CM_NOTHROW CM_NONNULL CM_CHECKED
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_counters_begin(place: *mut c_void, n: usize) -> *mut Set {
    // SAFETY: the memory is the caller's, and no set.
    if unsafe { Counters::begin(place.cast(), n) } { place.cast() } else { heap::invalid().cast() }
}

/// Adds `amount` to a counter.
/// cbindgen:postfix=CM_NOTHROW CM_NONNULL
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_counters_add(set: *mut Set, index: usize, amount: i64) {
    // SAFETY: passed on.
    unsafe { with(set, index) }.add_any(index, amount);
}

/// Subtracts `amount` from a counter.
/// cbindgen:postfix=CM_NOTHROW CM_NONNULL
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_counters_sub(set: *mut Set, index: usize, amount: i64) {
    // SAFETY: passed on.
    unsafe { with(set, index) }.add_any(index, amount.wrapping_neg());
}

/// Adds `amount` to a counter without the owner check.
/// cbindgen:postfix=CM_NOTHROW CM_NONNULL
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_counters_add_local(set: *mut Set, index: usize, amount: i64) {
    // SAFETY: passed on; the caller is the owner, or the set is upgraded.
    unsafe { with(set, index).add_local(index, amount) };
}

/// Adds `amount` to a counter, from a thread that is probably not the owner.
/// cbindgen:postfix=CM_NOTHROW CM_NONNULL
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_counters_add_remote(set: *mut Set, index: usize, amount: i64) {
    // SAFETY: passed on.
    unsafe { with(set, index) }.add_remote(index, amount);
}

/// Upgrades all counters of the set now. Returns 0, or -1 with the set unchanged.
/// cbindgen:postfix=CM_NOTHROW CM_NONNULL
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_counters_share(set: *mut Set) -> c_int {
    // SAFETY: passed on.
    status(unsafe { whole(set) }.share())
}

/// Returns whether the set is upgraded.
/// cbindgen:postfix=CM_NOTHROW CM_NONNULL
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_counters_is_shared(set: *const Set) -> bool {
    // SAFETY: passed on.
    unsafe { whole(set) }.is_shared()
}

/// Makes the calling thread the owner of the set.
/// cbindgen:postfix=CM_NOTHROW CM_NONNULL
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_counters_bind(set: *mut Set) {
    // SAFETY: passed on; no other code uses it.
    unsafe { whole(set).rebind() };
}

/// Returns the approximate sum of a counter.
/// cbindgen:postfix=CM_NOTHROW CM_NONNULL
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_counters_read(set: *const Set, index: usize) -> Reading {
    // SAFETY: passed on.
    unsafe { with(set, index) }.read(index).into()
}

/// Returns cm_counters_read, with values below 0 replaced by 0.
/// cbindgen:postfix=CM_NOTHROW CM_NONNULL
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_counters_read_positive(set: *const Set, index: usize) -> Reading {
    // SAFETY: passed on.
    let reading = unsafe { with(set, index) }.read(index);
    Reading { value: reading.value.max(0), error: reading.error }
}

/// Returns the exact sum of a counter.
/// cbindgen:postfix=CM_NOTHROW CM_NONNULL
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_counters_sum(set: *const Set, index: usize) -> i64 {
    // SAFETY: passed on.
    unsafe { with(set, index) }.sum(index)
}

/// Returns cm_counters_sum, with values below 0 replaced by 0.
/// cbindgen:postfix=CM_NOTHROW CM_NONNULL
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_counters_sum_positive(set: *const Set, index: usize) -> i64 {
    // SAFETY: passed on.
    unsafe { with(set, index) }.sum(index).max(0)
}

/// Returns -1, 0 or 1 if a counter is less than `value`, equal, or greater.
/// cbindgen:postfix=CM_NOTHROW CM_NONNULL
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_counters_compare(set: *const Set, index: usize, value: i64) -> c_int {
    // SAFETY: passed on.
    unsafe { with(set, index) }.compare(index, value) as c_int
}

/// Adds `amount` to a counter if it stays at or below `limit`, and returns whether it did.
/// cbindgen:postfix=CM_NOTHROW CM_NONNULL CM_CHECKED
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_counters_limited_add(set: *mut Set, index: usize, amount: i64, limit: i64) -> bool {
    // SAFETY: passed on.
    unsafe { with(set, index) }.limited_add(index, amount, limit)
}

/// Sets a counter to `value`.
/// cbindgen:postfix=CM_NOTHROW CM_NONNULL
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_counters_set(set: *mut Set, index: usize, value: i64) {
    // SAFETY: passed on.
    unsafe { with(set, index) }.set(index, value);
}

/// Subtracts the sum of a counter from it and returns it.
/// cbindgen:postfix=CM_NOTHROW CM_NONNULL
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_counters_reset(set: *mut Set, index: usize) -> i64 {
    // SAFETY: passed on.
    unsafe { with(set, index) }.reset(index)
}

/// Frees the memory that the set has besides its own bytes, and makes it a new set of the same length.
/// cbindgen:postfix=CM_NOTHROW CM_NONNULL
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_counters_destroy(set: *mut Set) {
    // SAFETY: passed on; no other code uses it.
    unsafe {
        let counters = whole(set);
        let length = counters.len();
        counters.end();
        Counters::begin(set.cast(), length);
    }
}
