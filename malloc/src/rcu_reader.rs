//! The C functions of `commensal.h` for RCU's readers that register: names for `commensal_runtime::rcu::qsbr`.
//!
//! Checkpoints and sections are inlined in the header.

use crate::cache::failed;
use commensal_runtime::heap::{self, Error};
use commensal_runtime::rcu::qsbr::{
    CooperativeReader, KickableReader, NoMemory, Policy, Reader, SignalInUse, set_policy,
};
use commensal_runtime::rcu::{Caller, Pace};
use core::ffi::{CStr, c_char, c_int};
use core::mem::ManuallyDrop;
use core::ptr::null_mut;

/// A kind of reader: it only reports at checkpoints, and its sections cost nothing.
pub const CM_RCU_COOPERATIVE: u32 = 0;

/// A kind of reader: under the policy "kicked" a signal may interrupt it. Objects that it finds stay only between
/// cm_rcu_reader_lock and cm_rcu_reader_unlock, which cost an addition each.
pub const CM_RCU_KICKABLE: u32 = 1;

/// The part of a reader that the header declares.
#[repr(C)]
pub struct RcuReader {
    due: u32,
    depth: u32,
}

/// Its functions here are the same for both kinds.
unsafe fn known(reader: *mut RcuReader) -> ManuallyDrop<Reader> {
    // SAFETY: passed on.
    ManuallyDrop::new(unsafe { Reader::from_raw(reader.cast()) })
}

/// Registers a reader of the calling thread, online. `kind` is CM_RCU_COOPERATIVE or CM_RCU_KICKABLE. The thread calls
/// cm_rcu_checkpoint now and then, goes offline around work that blocks for long, and unregisters the reader before it
/// ends. Grace periods wait for ever for a reader that does none of that.
///
/// Returns the reader, or NULL.
///
/// errno: ENOMEM if there is no memory; EINVAL if there is no such kind. Time: proportional to the number of readers.
/// cbindgen:postfix=CM_NOTHROW CM_CHECKED
#[unsafe(no_mangle)]
pub extern "C" fn cm_rcu_register(kind: u32) -> *mut RcuReader {
    let registered = match kind {
        CM_RCU_COOPERATIVE => CooperativeReader::register().map(Reader::into_raw),
        CM_RCU_KICKABLE => KickableReader::register().map(Reader::into_raw),
        _ => return heap::invalid().cast(),
    };
    registered.map_or_else(
        |NoMemory| {
            failed(Error::OutOfMemory);
            null_mut()
        },
        <*mut ()>::cast,
    )
}

/// Ends a reader. Grace periods no longer wait for it.
/// cbindgen:postfix=CM_NOTHROW CM_NONNULL
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_rcu_unregister(reader: *mut RcuReader) {
    // SAFETY: passed on.
    drop(ManuallyDrop::into_inner(unsafe { known(reader) }));
}

/// The slow path of cm_rcu_checkpoint.
/// cbindgen:postfix=CM_NOTHROW CM_NONNULL
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_rcu_checkpoint_due(reader: *mut RcuReader) {
    // SAFETY: passed on.
    unsafe { known(reader) }.checkpoint();
}

/// Declares that the thread has left all sections of `reader`, and reports it under any policy.
/// cbindgen:postfix=CM_NOTHROW CM_NONNULL
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_rcu_checkpoint_always(reader: *mut RcuReader) {
    // SAFETY: passed on.
    unsafe { known(reader) }.checkpoint_always();
}

/// Takes a reader offline: grace periods do not wait for it until cm_rcu_online. The thread must not use objects that
/// it found before, nor look up new ones.
/// cbindgen:postfix=CM_NOTHROW CM_NONNULL
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_rcu_offline(reader: *mut RcuReader) {
    // SAFETY: passed on.
    unsafe { known(reader).go_offline() };
}

/// Takes a reader online again.
/// cbindgen:postfix=CM_NOTHROW CM_NONNULL
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_rcu_online(reader: *mut RcuReader) {
    // SAFETY: passed on.
    unsafe { known(reader) }.go_online();
}

/// Waits for a grace period with `reader` offline. The thread's other readers must be offline. (cm_rcu_synchronize
/// would also wait for `reader`, and ends the program with a message.)
///
/// Time: as long as other readers take.
/// cbindgen:postfix=CM_NOTHROW CM_NONNULL
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_rcu_reader_synchronize(reader: *mut RcuReader) {
    // SAFETY: passed on.
    unsafe { known(reader) }.synchronize_for(Pace::Usual, Caller::OfLibrary);
}

/// Sets when registered readers report, for all readers of the process, even while they read:
///
/// - "flagged" (default): at a checkpoint, after they have held up a grace period for rcu.till_qs_ms (see cm_set).
/// - "counted": at each `n`-th checkpoint, and after they have held one up for twice as long.
/// - "kicked": like "flagged", but the signal SIGURG interrupts kickable readers after three times as long.
/// - "none": only by cm_rcu_checkpoint_always and cm_rcu_offline.
///
/// `n` is at least 1; only "counted" uses it. Short grace periods free memory early and in small batches, long ones
/// late and in large batches. The setting rcu.policy has the initial policy.
///
/// Returns 0, or -1 with the policy unchanged.
///
/// errno: EINVAL if there is no such policy; EBUSY if the program handles SIGURG. Threads: any thread.
/// cbindgen:postfix=CM_NOTHROW CM_NONNULL
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_rcu_set_policy(policy: *const c_char, n: u32) -> c_int {
    // SAFETY: passed on: a string.
    let policy = unsafe { CStr::from_ptr(policy) }.to_str().ok().and_then(|name| Policy::named(name, n));
    let Some(policy) = policy.filter(|policy| *policy != Policy::Counted(0)) else { return failed(Error::Invalid) };
    match set_policy(policy) {
        Ok(()) => 0,
        Err(SignalInUse) => failed(Error::Busy),
    }
}
