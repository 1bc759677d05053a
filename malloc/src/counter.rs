//! The C functions of `commensal.h` for one counter: names and errno for `commensal::counter::LazyCounter`.
//!
//! The header is generated from this file and `counters.rs` (`cargo xtask header`), comments and all: so they speak to who writes C,
//! and each ends with the same four words of a manual page. What is common to all is in `malloc/cbindgen.toml`, and so are the
//! macros.
//!
//! Safety, for all of them: the pointer leads to a counter, which is zeroed memory or what these functions made of it, and stays there
//! during the call; where a comment says who else may be there, nobody else is.

use commensal::counter::{self, Counters, LazyCounter};
use commensal::heap;
use core::ffi::c_int;

/// One lazy counter. Zeroed memory is a counter of value 0 that nobody owns, so a static one needs no initialisation. It must not be
/// copied or moved, and not lie in memory that processes share. Its words are the library's own.
#[repr(C)]
pub struct Counter {
    _words: [u64; 4],
}

const _: () =
    assert!(size_of::<Counter>() == size_of::<LazyCounter>() && align_of::<Counter>() == align_of::<LazyCounter>());
const _: () = assert!(size_of::<Counter>() == Counters::bytes(1));

/// An approximate value: the truth is off by no more than `error`, in either direction.
#[repr(C)]
pub struct Reading {
    /// What was read.
    pub value: i64,
    /// How far the truth may be from it.
    pub error: u64,
}

impl From<counter::Reading> for Reading {
    fn from(reading: counter::Reading) -> Self {
        Reading { value: reading.value, error: reading.error }
    }
}

/// 0; or −1, with errno.
pub(crate) fn status(shared: Result<(), counter::NoMemory>) -> c_int {
    if shared.is_ok() {
        return 0;
    }
    heap::out_of_memory();
    -1
}

/// What the C program's counter is to the runtime.
#[inline(always)]
unsafe fn lazy<'a>(counter: *const Counter) -> &'a LazyCounter {
    // SAFETY: see the module; zeroes are a valid counter, too.
    unsafe { &*counter.cast() }
}

/// Adds `amount`, modulo 2^64. The first thread that adds to a counter becomes its owner, and adds by one plain addition; others add
/// atomically, and when they have done so often enough, the counter is upgraded: from then on all add to a line of the CPU that
/// they run on.
///
/// Without memory for the upgrade the counter works on as it is; but once what others than the owner added goes beyond 2^30 in either
/// direction, the program ends with a message.
///
/// errno: kept. Threads: any. Signal handlers: yes. After fork: yes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_counter_add(counter: *mut Counter, amount: i64) {
    // SAFETY: passed on.
    unsafe { lazy(counter) }.add_any(amount);
}

/// Subtracts `amount`. As cm_counter_add.
///
/// errno: kept. Threads: any. Signal handlers: yes. After fork: yes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_counter_sub(counter: *mut Counter, amount: i64) {
    // SAFETY: passed on.
    unsafe { lazy(counter) }.add_any(amount.wrapping_neg());
}

/// cm_counter_add for who knows to be the counter's owner, or that it is upgraded: spares a look at who is running. From another thread it
/// may lose additions.
///
/// errno: kept. Threads: the owner; any after the upgrade. Signal handlers: yes, on those threads. After fork: yes, on those threads.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_counter_add_local(counter: *mut Counter, amount: i64) {
    // SAFETY: passed on; the caller is the owner, or the counter is upgraded.
    unsafe { lazy(counter).add_local(amount) };
}

/// cm_counter_add for who thinks not to be the counter's owner: spares a look at who is running, and makes nobody the owner. The owner may
/// call it too; it costs an atomic operation.
///
/// errno: kept. Threads: any. Signal handlers: yes. After fork: yes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_counter_add_remote(counter: *mut Counter, amount: i64) {
    // SAFETY: passed on.
    unsafe { lazy(counter) }.add_remote(amount);
}

/// Announces that several threads will add: upgrades the counter now. About a microsecond; next to nothing if it is upgraded already.
///
/// Returns 0; or -1, and the counter is as it was, and the additions of others than the owner try again.
///
/// errno: ENOMEM if there is no memory. Threads: any.
/// Signal handlers: yes. After fork: yes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_counter_share(counter: *mut Counter) -> c_int {
    // SAFETY: passed on.
    status(unsafe { lazy(counter) }.share())
}

/// Whether the counter is upgraded.
///
/// errno: kept. Threads: any. Signal handlers: yes. After fork: yes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_counter_is_shared(counter: *const Counter) -> bool {
    // SAFETY: passed on.
    unsafe { lazy(counter) }.is_shared()
}

/// Makes the counter the calling thread's: a fresh one, or one that was handed over. An upgraded one gives its memory back and is as lazy
/// as a new one; the value stays.
///
/// errno: kept. Threads: nobody else may use the counter meanwhile. Signal handlers: under the same condition. After fork: yes; a child
/// that another thread forks in the middle of it has a counter of some other value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_counter_bind(counter: *mut Counter) {
    // SAFETY: passed on; nobody else uses it.
    unsafe { &mut *counter.cast::<LazyCounter>() }.rebind();
}

/// What was added, and how far that may be off: exact before the upgrade, and after it off by no more than 512 for each slot. There are as
/// many slots as threads of the program ran at the same time. Looks at three lines of memory whatever the number of CPUs; in fallback mode,
/// and while a limited addition collects what slots hold, it is as exact, and takes as long, as cm_counter_sum. Additions at the same time
/// may be in it or not.
///
/// errno: kept. Threads: any. Signal handlers: yes. After fork: yes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_counter_read(counter: *const Counter) -> Reading {
    // SAFETY: passed on.
    unsafe { lazy(counter) }.read().into()
}

/// cm_counter_read, but values below zero are zero.
///
/// errno: kept. Threads: any. Signal handlers: yes. After fork: yes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_counter_read_positive(counter: *const Counter) -> Reading {
    // SAFETY: passed on.
    unsafe { lazy(counter) }.read_positive().into()
}

/// What was added: exact, but that additions at the same time may be in it or not. Takes time in proportion to the number of CPUs on which
/// something was added.
///
/// errno: kept. Threads: any. Signal handlers: yes. After fork: yes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_counter_sum(counter: *const Counter) -> i64 {
    // SAFETY: passed on.
    unsafe { lazy(counter) }.sum()
}

/// cm_counter_sum, but values below zero are zero.
///
/// errno: kept. Threads: any. Signal handlers: yes. After fork: yes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_counter_sum_positive(counter: *const Counter) -> i64 {
    // SAFETY: passed on.
    unsafe { lazy(counter) }.sum_positive()
}

/// -1, 0 or 1: the counter is less than `with`, equal, or greater. By cm_counter_read where that decides, else by cm_counter_sum.
///
/// errno: kept. Threads: any. Signal handlers: yes. After fork: yes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_counter_compare(counter: *const Counter, with: i64) -> c_int {
    // SAFETY: passed on.
    unsafe { lazy(counter) }.compare(with) as c_int
}

/// Adds `amount` if the counter stays at or below `limit`, and says whether it did. What is not positive is always added.
///
/// However many threads try, what limited additions with one limit make of the counter is never above it, and none is refused while there
/// is room. cm_counter_add knows no limit; while it, or a larger limit, has amounts added beyond this one's, limited additions at the same
/// time may find room that those made. Limited additions, the owner's too, go where those of others go: an owner who adds 2^28 and
/// more within limits and subtracts it again has the counter upgraded.
///
/// It may refuse too early where there is no memory, and by up to 1024 for each slot (see cm_counter_read) in a signal handler that
/// interrupts another limited addition; where the kernel refuses membarrier and unlimited additions came before the first limited one;
/// and if each of 64 attempts to collect what slots hold met some thread in the middle of an addition.
///
/// errno: kept. Threads: any. Signal handlers: yes. After fork: yes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_counter_limited_add(counter: *mut Counter, amount: i64, limit: i64) -> bool {
    // SAFETY: passed on.
    unsafe { lazy(counter) }.limited_add(amount, limit)
}

/// Adds the difference between cm_counter_sum and `value`. So the counter is `value` if nobody adds meanwhile; what others add is kept.
///
/// errno: kept. Threads: any; of several at the same time each adds its difference. Signal handlers: yes. After fork: yes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_counter_set(counter: *mut Counter, value: i64) {
    // SAFETY: passed on.
    unsafe { lazy(counter) }.set(value);
}

/// Subtracts cm_counter_sum, and returns it: what others add meanwhile is kept for the next time, so that nothing is lost between two
/// calls.
///
/// errno: kept. Threads: any, but one at a time. Signal handlers: yes, under the same condition. After fork: yes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_counter_reset(counter: *mut Counter) -> i64 {
    // SAFETY: passed on.
    unsafe { lazy(counter) }.reset()
}

/// Gives back what memory the counter has beside its 32 bytes, and zeroes these: it is as new, and may also be forgotten.
///
/// errno: kept. Threads: nobody else may use the counter meanwhile. Signal handlers: under the same condition. After fork: yes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_counter_destroy(counter: *mut Counter) {
    // SAFETY: passed on; nobody else uses it, and zeroes are a counter.
    unsafe {
        counter.cast::<LazyCounter>().drop_in_place();
        counter.write_bytes(0, 1);
    }
}
