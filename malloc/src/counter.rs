//! The C functions of `commensal.h` for one counter: names and errno for `commensal_runtime::counter::LazyCounter`.
//!
//! Safety, for all of them: the pointer leads to a counter, which is zeroed memory or what these functions made of it,
//! and stays there during the call. Callers fulfil the conditions of a comment's line "Threads".

use commensal_runtime::counter::{self, Counters, LazyCounter};
use commensal_runtime::heap;
use core::ffi::c_int;

/// One lazy counter. Zeroed memory is a counter of value 0 without an owner. Do not copy or move it, and do not put it
/// into memory that processes share. Its members are private.
#[repr(C)]
pub struct Counter {
    _words: [u64; 4],
}

const _: () =
    assert!(size_of::<Counter>() == size_of::<LazyCounter>() && align_of::<Counter>() == align_of::<LazyCounter>());
const _: () = assert!(size_of::<Counter>() == Counters::bytes(1));

/// An approximate value.
#[repr(C)]
pub struct Reading {
    /// The value read.
    pub value: i64,
    /// The largest difference from the true value, in either direction.
    pub error: u64,
}

impl From<counter::Reading> for Reading {
    fn from(reading: counter::Reading) -> Self {
        Reading { value: reading.value, error: reading.error }
    }
}

/// 0, or −1 with errno.
pub(crate) fn status(shared: Result<(), counter::NoMemory>) -> c_int {
    if shared.is_ok() {
        return 0;
    }
    heap::out_of_memory();
    -1
}

/// The runtime's view of a C program's counter.
#[inline(always)]
unsafe fn lazy<'a>(counter: *const Counter) -> &'a LazyCounter {
    // SAFETY: see the module; zeroes are a valid counter, too.
    unsafe { &*counter.cast() }
}

/// Adds `amount` to the counter. The first thread that adds becomes the owner and adds by a plain addition. Other
/// threads add atomically. After the upgrade each thread adds to a line of its CPU.
/// cbindgen:postfix=CM_NOTHROW CM_NONNULL
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_counter_add(counter: *mut Counter, amount: i64) {
    // SAFETY: passed on.
    unsafe { lazy(counter) }.add_any(amount);
}

/// Subtracts `amount` from the counter. Otherwise like cm_counter_add.
/// cbindgen:postfix=CM_NOTHROW CM_NONNULL
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_counter_sub(counter: *mut Counter, amount: i64) {
    // SAFETY: passed on.
    unsafe { lazy(counter) }.add_any(amount.wrapping_neg());
}

/// Adds `amount` like cm_counter_add, but skips the owner check. A call from another thread may lose additions.
///
/// Threads, Signal handlers, After fork: only the owner, or any thread after the upgrade.
/// cbindgen:postfix=CM_NOTHROW CM_NONNULL
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_counter_add_local(counter: *mut Counter, amount: i64) {
    // SAFETY: passed on; the caller is the owner, or the counter is upgraded.
    unsafe { lazy(counter).add_local(amount) };
}

/// Adds `amount` like cm_counter_add, for a thread that is probably not the owner. It skips the owner check, and does
/// not make the thread the owner. The owner may call it too, but pays for an atomic operation.
/// cbindgen:postfix=CM_NOTHROW CM_NONNULL
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_counter_add_remote(counter: *mut Counter, amount: i64) {
    // SAFETY: passed on.
    unsafe { lazy(counter) }.add_remote(amount);
}

/// Upgrades the counter now, because several threads will add. Takes about a microsecond, and nothing if the counter is
/// upgraded already.
///
/// Returns 0, or -1 with the counter unchanged. Then later additions of other threads try again.
///
/// errno: ENOMEM if there is no memory.
/// cbindgen:postfix=CM_NOTHROW CM_NONNULL
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_counter_share(counter: *mut Counter) -> c_int {
    // SAFETY: passed on.
    status(unsafe { lazy(counter) }.share())
}

/// Returns whether the counter is upgraded.
/// cbindgen:postfix=CM_NOTHROW CM_NONNULL
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_counter_is_shared(counter: *const Counter) -> bool {
    // SAFETY: passed on.
    unsafe { lazy(counter) }.is_shared()
}

/// Makes the calling thread the owner, of a new counter or of one that was handed over. An upgraded counter gives its
/// memory back and is lazy again. The value stays.
///
/// Time: that of cm_counter_sum. Threads, Signal handlers: while no other code uses the counter. After fork: yes, but
/// if another thread forks during the call, the child's counter has any value.
/// cbindgen:postfix=CM_NOTHROW CM_NONNULL
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_counter_bind(counter: *mut Counter) {
    // SAFETY: passed on; no other code uses it.
    unsafe { &mut *counter.cast::<LazyCounter>() }.rebind();
}

/// Returns the sum of all additions, and how far it may be off: 0 before the upgrade, and after it at most 512 for each
/// slot, or 0.1 % of the sum, if that is more. Additions at the same time may be included.
///
/// Time: constant, three cache lines on any number of CPUs. In fallback mode, while a limited addition collects
/// what slots hold, and after the sum fell a lot, the result is exact and takes as long as cm_counter_sum.
/// cbindgen:postfix=CM_NOTHROW CM_NONNULL
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_counter_read(counter: *const Counter) -> Reading {
    // SAFETY: passed on.
    unsafe { lazy(counter) }.read().into()
}

/// Returns cm_counter_read, with values below 0 replaced by 0.
/// cbindgen:postfix=CM_NOTHROW CM_NONNULL
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_counter_read_positive(counter: *const Counter) -> Reading {
    // SAFETY: passed on.
    unsafe { lazy(counter) }.read_positive().into()
}

/// Returns the exact sum of all additions. Additions at the same time may be included.
///
/// Time: proportional to the number of slots that have added.
/// cbindgen:postfix=CM_NOTHROW CM_NONNULL
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_counter_sum(counter: *const Counter) -> i64 {
    // SAFETY: passed on.
    unsafe { lazy(counter) }.sum()
}

/// Returns cm_counter_sum, with values below 0 replaced by 0.
/// cbindgen:postfix=CM_NOTHROW CM_NONNULL
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_counter_sum_positive(counter: *const Counter) -> i64 {
    // SAFETY: passed on.
    unsafe { lazy(counter) }.sum_positive()
}

/// Compares the counter with `with`. Returns -1 if it is less, 0 if it is equal, and 1 if it is greater.
///
/// Time: that of cm_counter_read if its result decides, else that of cm_counter_sum.
/// cbindgen:postfix=CM_NOTHROW CM_NONNULL
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_counter_compare(counter: *const Counter, with: i64) -> c_int {
    // SAFETY: passed on.
    unsafe { lazy(counter) }.compare(with) as c_int
}

/// Adds `amount` if the counter stays at or below `limit`, and returns whether it did. Always adds an amount that is
/// not positive.
///
/// For any number of threads, limited additions with one limit never bring the counter above it, and none fails while
/// there is room. cm_counter_add ignores limits: while it has the counter above this limit, limited additions at the
/// same time may use room that it made. So does a limited addition with a larger limit. An owner that adds 2^28 or more
/// within limits, and subtracts it again, causes an upgrade.
///
/// It may return false too early, by up to 1024 for each slot,
///
/// - in a signal handler that interrupts another limited addition;
/// - where the kernel refuses membarrier, if there were unlimited additions before the first limited one;
/// - if each of 64 attempts to collect what slots hold meets a thread in the middle of an addition.
///
/// It also returns false if an upgrade is due and there is no memory.
///
/// Time: constant, but proportional to the number of slots on the way to the limit, when it collects what slots hold.
/// cbindgen:postfix=CM_NOTHROW CM_NONNULL CM_CHECKED
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_counter_limited_add(counter: *mut Counter, amount: i64, limit: i64) -> bool {
    // SAFETY: passed on.
    unsafe { lazy(counter) }.limited_add(amount, limit)
}

/// Sets the counter to `value`, by adding the difference from cm_counter_sum. Additions at the same time are kept. If
/// several threads set at the same time, each adds its difference.
///
/// Time: that of cm_counter_sum.
/// cbindgen:postfix=CM_NOTHROW CM_NONNULL
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_counter_set(counter: *mut Counter, value: i64) {
    // SAFETY: passed on.
    unsafe { lazy(counter) }.set(value);
}

/// Subtracts cm_counter_sum from the counter and returns it. Additions at the same time are kept for the next call, so
/// none is lost between two calls.
///
/// Time: that of cm_counter_sum. Threads, Signal handlers: one call at a time.
/// cbindgen:postfix=CM_NOTHROW CM_NONNULL
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_counter_reset(counter: *mut Counter) -> i64 {
    // SAFETY: passed on.
    unsafe { lazy(counter) }.reset()
}

/// Frees the memory that the counter has besides its 32 bytes, and zeroes these: it is a new counter.
///
/// Time: that of cm_counter_sum. Threads, Signal handlers: while no other code uses the counter.
/// cbindgen:postfix=CM_NOTHROW CM_NONNULL
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_counter_destroy(counter: *mut Counter) {
    // SAFETY: passed on; no other code uses it, and zeroes are a counter.
    unsafe {
        counter.cast::<LazyCounter>().drop_in_place();
        counter.write_bytes(0, 1);
    }
}
