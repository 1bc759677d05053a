//! The C functions of `commensal.h` for sets of counters: names and errno for `commensal::counter::Counters`.
//!
//! What `counter.rs` says of itself holds here too. A set says how many counters it has, in its own memory, and an index beyond that
//! ends the program: C has no other way to hear of it, and the words behind a set are somebody else's.
//!
//! Safety, for all of them: the pointer leads to a set, which is what `CM_COUNTERS_INIT` or `cm_counters_begin` made, and stays
//! there during the call; where a comment says who else may be there, nobody else is.

use crate::counter::{Reading, status};
use commensal::counter::Counters;
use commensal::heap;
use commensal::misuse::Line;
use commensal::percpu::{CELL, LINES};
use core::ffi::{c_int, c_void};
use core::fmt::Write;
use core::ptr::NonNull;

/// The most counters that a set can have.
pub const CM_COUNTERS_MOST: usize = 260;

const _: () = assert!(CM_COUNTERS_MOST == LINES * 64 / CELL);

/// What a set of lazy counters begins with; the words of its counters lie behind. See CM_COUNTERS. It must not be copied or moved, and not
/// lie in memory that processes share. Its words are the library's own.
#[repr(C)]
pub struct Set {
    _state: u64,
    _additions: u32,
    _length: u32,
}

const _: () = assert!(size_of::<Set>() + 4 * 12 == Counters::bytes(4));

/// The set.
#[inline(always)]
unsafe fn whole<'a>(set: *const Set) -> Counters<'a> {
    // SAFETY: see the module.
    unsafe { Counters::at(NonNull::new_unchecked(set.cast_mut().cast())) }
}

/// The set, if it has a counter of this index.
#[inline(always)]
unsafe fn with<'a>(set: *const Set, index: usize) -> Counters<'a> {
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

/// Bytes of a set of `n` counters, for cm_counters_begin: 16 + 12 n, rounded up to 8. 0 if there is no such set.
///
/// errno: EINVAL if `n` is 0 or above CM_COUNTERS_MOST. Threads: any. Signal handlers: yes. After fork: yes.
#[unsafe(no_mangle)]
pub extern "C" fn cm_counters_bytes(n: usize) -> usize {
    if (1..=CM_COUNTERS_MOST).contains(&n) {
        return Counters::bytes(n);
    }
    heap::invalid();
    0
}

/// Makes a set of `n` counters, all zero and nobody's, of the memory at `place`: cm_counters_bytes(n) of them, aligned to 8, whatever they
/// hold. Returns the set, which begins at `place`; or NULL, and nothing was done.
///
/// errno: EINVAL if `n` is 0 or above CM_COUNTERS_MOST. Threads: nobody else may use the memory meanwhile. Signal handlers: under the
/// same condition. After fork: yes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_counters_begin(place: *mut c_void, n: usize) -> *mut Set {
    // SAFETY: the memory is the caller's, and no set.
    if unsafe { Counters::begin(place.cast(), n) } { place.cast() } else { heap::invalid().cast() }
}

/// Adds to a counter. See cm_counter_add; owner and upgrade are the set's.
///
/// errno: kept. Threads: any. Signal handlers: yes. After fork: yes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_counters_add(set: *mut Set, index: usize, amount: i64) {
    // SAFETY: passed on.
    unsafe { with(set, index) }.add(index, amount);
}

/// Subtracts from a counter. See cm_counter_sub.
///
/// errno: kept. Threads: any. Signal handlers: yes. After fork: yes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_counters_sub(set: *mut Set, index: usize, amount: i64) {
    // SAFETY: passed on.
    unsafe { with(set, index) }.add(index, amount.wrapping_neg());
}

/// Adds to a counter of a set that the caller owns, or that is upgraded. See cm_counter_add_local.
///
/// errno: kept. Threads: the owner; any after the upgrade. Signal handlers: yes, on those threads. After fork: yes, on those threads.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_counters_add_local(set: *mut Set, index: usize, amount: i64) {
    // SAFETY: passed on; the caller is the owner, or the set is upgraded.
    unsafe { with(set, index).add_local(index, amount) };
}

/// Adds to a counter of a set that the caller thinks not to own. See cm_counter_add_remote.
///
/// errno: kept. Threads: any. Signal handlers: yes. After fork: yes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_counters_add_remote(set: *mut Set, index: usize, amount: i64) {
    // SAFETY: passed on.
    unsafe { with(set, index) }.add_remote(index, amount);
}

/// Announces that several threads will add: upgrades all counters of the set now. See cm_counter_share. Returns 0; or -1, and the set is
/// as it was.
///
/// errno: ENOMEM as for cm_counter_share. Threads: any. Signal handlers: yes. After fork: yes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_counters_share(set: *mut Set) -> c_int {
    // SAFETY: passed on.
    status(unsafe { whole(set) }.share())
}

/// Whether the set is upgraded.
///
/// errno: kept. Threads: any. Signal handlers: yes. After fork: yes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_counters_is_shared(set: *const Set) -> bool {
    // SAFETY: passed on.
    unsafe { whole(set) }.is_shared()
}

/// Makes the set the calling thread's. See cm_counter_bind.
///
/// errno: kept. Threads: nobody else may use the set meanwhile. Signal handlers: under the same condition. After fork: yes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_counters_bind(set: *mut Set) {
    // SAFETY: passed on; nobody else uses it.
    unsafe { whole(set).rebind() };
}

/// What was added to a counter, and how far that may be off. See cm_counter_read.
///
/// errno: kept. Threads: any. Signal handlers: yes. After fork: yes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_counters_read(set: *const Set, index: usize) -> Reading {
    // SAFETY: passed on.
    unsafe { with(set, index) }.read(index).into()
}

/// cm_counters_read, but values below zero are zero.
///
/// errno: kept. Threads: any. Signal handlers: yes. After fork: yes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_counters_read_positive(set: *const Set, index: usize) -> Reading {
    // SAFETY: passed on.
    let reading = unsafe { with(set, index) }.read(index);
    Reading { value: reading.value.max(0), error: reading.error }
}

/// What was added to a counter. See cm_counter_sum.
///
/// errno: kept. Threads: any. Signal handlers: yes. After fork: yes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_counters_sum(set: *const Set, index: usize) -> i64 {
    // SAFETY: passed on.
    unsafe { with(set, index) }.sum(index)
}

/// cm_counters_sum, but values below zero are zero.
///
/// errno: kept. Threads: any. Signal handlers: yes. After fork: yes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_counters_sum_positive(set: *const Set, index: usize) -> i64 {
    // SAFETY: passed on.
    unsafe { with(set, index) }.sum(index).max(0)
}

/// -1, 0 or 1: the counter is less than `value`, equal, or greater. See cm_counter_compare.
///
/// errno: kept. Threads: any. Signal handlers: yes. After fork: yes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_counters_compare(set: *const Set, index: usize, value: i64) -> c_int {
    // SAFETY: passed on.
    unsafe { with(set, index) }.compare(index, value) as c_int
}

/// Adds to a counter if it stays at or below `limit`, and says whether it did. See cm_counter_limited_add.
///
/// errno: kept. Threads: any. Signal handlers: yes. After fork: yes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_counters_limited_add(set: *mut Set, index: usize, amount: i64, limit: i64) -> bool {
    // SAFETY: passed on.
    unsafe { with(set, index) }.limited_add(index, amount, limit)
}

/// Makes a counter a value, if nobody adds meanwhile. See cm_counter_set.
///
/// errno: kept. Threads: any; of several at the same time each adds its difference. Signal handlers: yes. After fork: yes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_counters_set(set: *mut Set, index: usize, value: i64) {
    // SAFETY: passed on.
    unsafe { with(set, index) }.set(index, value);
}

/// Makes a counter zero, and returns what it was. See cm_counter_reset.
///
/// errno: kept. Threads: any, but one at a time. Signal handlers: yes, under the same condition. After fork: yes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_counters_reset(set: *mut Set, index: usize) -> i64 {
    // SAFETY: passed on.
    unsafe { with(set, index) }.reset(index)
}

/// Gives back what memory the set has beside its own, and makes it as cm_counters_begin did, with as many counters; it may also be
/// forgotten.
///
/// errno: kept. Threads: nobody else may use the set meanwhile. Signal handlers: under the same condition. After fork: yes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_counters_destroy(set: *mut Set) {
    // SAFETY: passed on; nobody else uses it.
    unsafe {
        let counters = whole(set);
        let length = counters.len();
        counters.end();
        Counters::begin(set.cast(), length);
    }
}
