//! The C functions of `commensal.h` for the limits of the process: names and errno for `commensal_runtime::heap::limit`.

use crate::cache::failed;
use commensal_runtime::heap::Error;
use commensal_runtime::heap::limit::{self, Limit, Notifier};
use core::ffi::{c_int, c_void};

/// The soft limit: above it, the library returns memory that is not in use to the kernel.
pub const CM_LIMIT_SOFT: u32 = 0;

/// The hard limit: an allocation that would pass it fails with ENOMEM.
pub const CM_LIMIT_HARD: u32 = 1;

/// A function to call when a limit is reached, with CM_LIMIT_SOFT or CM_LIMIT_HARD, and the argument of
/// cm_limit_notify.
pub type LimitNotifier = Option<unsafe extern "C" fn(limit: u32, argument: *mut c_void)>;

/// The limits of the process, and what happened at them.
#[repr(C)]
pub struct LimitFigures {
    /// Bytes held.
    pub held: u64,
    /// The hard limit in bytes. UINT64_MAX: none.
    pub limit: u64,
    /// The soft limit in bytes. UINT64_MAX: none.
    pub soft_limit: u64,
    /// Times that the hard limit was reached.
    pub reached: u64,
    /// Times that the soft limit was reached.
    pub soft_reached: u64,
    /// Allocations that the hard limit refused.
    pub refused: u64,
    /// Times that memory went back to the kernel because of the soft limit.
    pub reliefs: u64,
}

/// Sets a limit of the process to `bytes`, rounded down to pages of 4096, at least one; 0: no limit. `limit` is
/// CM_LIMIT_SOFT or CM_LIMIT_HARD. If more is held already, the process keeps it, and allocations that need pages fail
/// until enough was freed. Above a new soft limit, memory that is not in use goes back at the next slow path of a
/// thread.
///
/// Returns 0, or -1.
///
/// errno: EINVAL if `limit` is another number; ENOMEM if the process has no heap yet, and there is no memory for one.
/// Time: some nanoseconds. After fork: the child has the same limits, for itself.
#[unsafe(no_mangle)]
pub extern "C" fn cm_limit_set(limit: u32, bytes: u64) -> c_int {
    let limit = match limit {
        CM_LIMIT_SOFT => Limit::Soft,
        CM_LIMIT_HARD => Limit::Hard,
        _ => return failed(Error::Invalid),
    };
    if limit::set(limit, (bytes > 0).then_some(bytes)) { 0 } else { failed(Error::OutOfMemory) }
}

/// Has `function` called with `argument` when a limit is reached; NULL: no function. It replaces the function before,
/// of which a call may still be running.
///
/// The soft limit is reached if more is held after all memory that is not in use went back, the hard limit if it
/// refuses an allocation. Each counts as reached again only after the memory in use has fallen below it by a sixteenth,
/// at most 32 MiB; or if a refusal comes so much above the one before. After a call for the hard limit, the refused
/// allocation is tried once more.
///
/// A thread calls the function in an allocation, outside of all groups and of the library's locks, or the library's
/// background thread does. All signals are blocked. No two calls run at once, and each finds what the one before has
/// written.
///
/// The function may allocate and free. It must return, and must not take a lock that a thread may hold while it
/// allocates. A thread in a signal handler does not call it: another thread does so later.
///
/// Returns 0, or -1. Each call takes 64 bytes that are never freed.
///
/// errno: ENOMEM if there is no memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_limit_notify(function: LimitNotifier, argument: *mut c_void) -> c_int {
    let function = function.map(|function| {
        // SAFETY: C passes a number of 32 bits and a pointer as it passes `Limit` and a word.
        let call = unsafe { core::mem::transmute::<unsafe extern "C" fn(u32, *mut c_void), Notifier>(function) };
        (call, argument.expose_provenance())
    });
    if limit::notify(function) { 0 } else { failed(Error::OutOfMemory) }
}

/// Reads the limits into `report`. Each figure is exact; together they are consistent only at rest.
/// cbindgen:postfix=CM_NOTHROW CM_NONNULL
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_limit_report(report: *mut LimitFigures) {
    let read = limit::report();
    let told = LimitFigures {
        held: read.held,
        limit: read.limit.unwrap_or(u64::MAX),
        soft_limit: read.soft_limit.unwrap_or(u64::MAX),
        reached: read.reached,
        soft_reached: read.soft_reached,
        refused: read.refused,
        reliefs: read.reliefs,
    };
    // SAFETY: passed on.
    unsafe { report.write(told) };
}
