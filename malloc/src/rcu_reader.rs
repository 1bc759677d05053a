//! The C functions of `commensal.h` for RCU's readers that register: names for `commensal::rcu::qsbr`.
//!
//! What `counter.rs` says of itself holds here too. Checkpoints and sections are inlined in the header.

use crate::cache::failed;
use commensal::heap::{self, Error};
use commensal::rcu::qsbr::{CooperativeReader, KickableReader, NoMemory, Policy, Reader, SignalInUse, set_policy};
use commensal::rcu::{Caller, Pace};
use core::ffi::{CStr, c_char, c_int};
use core::mem::ManuallyDrop;
use core::ptr::null_mut;

/// A kind of reader: it only reports at checkpoints, and its sections cost nothing.
pub const CM_RCU_COOPERATIVE: u32 = 0;

/// A kind of reader: under the policy "kicked" a signal may interrupt it. Objects that it finds stay only between
/// cm_rcu_reader_lock and cm_rcu_reader_unlock, which cost an addition each.
pub const CM_RCU_KICKABLE: u32 = 1;

/// What the header has of a reader.
#[repr(C)]
pub struct RcuReader {
    due: u32,
    depth: u32,
}

/// Whether it is kickable does not matter for what is done here.
unsafe fn known(reader: *mut RcuReader) -> ManuallyDrop<Reader> {
    // SAFETY: passed on.
    ManuallyDrop::new(unsafe { Reader::from_raw(reader.cast()) })
}

/// Registers a reader of the calling thread: what it finds by CM_RCU_DEREFERENCE stays until its next checkpoint (cm_rcu_checkpoint,
/// cm_rcu_checkpoint_always, cm_rcu_offline). Its sections cost nothing, and grace periods wait for its checkpoints: so it comes to one now and then,
/// and goes offline around whatever blocks for long. One that does neither is waited for, for ever.
///
/// A kickable one (CM_RCU_KICKABLE, else CM_RCU_COOPERATIVE) may be interrupted, by the signal SIGURG, if the policy is "kicked". Then its sections must be told: what it finds between
/// cm_rcu_reader_lock and cm_rcu_reader_unlock stays until the latter; elsewhere it finds nothing that stays. They are two additions each.
///
/// Returns the reader, or NULL if there is no memory. A thread may have several. Before it ends it gives them back by cm_rcu_unregister.
///
/// errno: kept, ENOMEM, EINVAL if there is no such kind. Threads: any. Signal handlers: no. After fork: yes; the child has the readers of the thread that forked, and no others.
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

/// The reader is no more: nobody waits for it.
///
/// errno: kept. Threads: the one that registered it, or the one that forked that. Signal handlers: no. After fork: yes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_rcu_unregister(reader: *mut RcuReader) {
    // SAFETY: passed on.
    drop(ManuallyDrop::into_inner(unsafe { known(reader) }));
}

/// What cm_rcu_checkpoint does where there is something to do.
///
/// errno: kept. Threads: the reader's. Signal handlers: no. After fork: yes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_rcu_checkpoint_due(reader: *mut RcuReader) {
    // SAFETY: passed on.
    unsafe { known(reader) }.checkpoint();
}

/// A point outside of all of the reader's sections: it reports, whatever the policy.
///
/// errno: kept. Threads: the reader's. Signal handlers: no. After fork: yes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_rcu_checkpoint_always(reader: *mut RcuReader) {
    // SAFETY: passed on.
    unsafe { known(reader) }.checkpoint_always();
}

/// From here to cm_rcu_online nobody waits for the reader: nothing that was found before is used after it, and nothing is looked for.
///
/// errno: kept. Threads: the reader's. Signal handlers: no. After fork: yes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_rcu_offline(reader: *mut RcuReader) {
    // SAFETY: passed on.
    unsafe { known(reader).go_offline() };
}

/// The reader is there again.
///
/// errno: kept. Threads: the reader's. Signal handlers: no. After fork: yes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_rcu_online(reader: *mut RcuReader) {
    // SAFETY: passed on.
    unsafe { known(reader) }.go_online();
}

/// Waits for a grace period, offline: cm_rcu_synchronize would wait for the calling thread's own reader, and ends the program with a message. A thread that
/// has several has the others offline.
///
/// errno: kept. Threads: the reader's. Signal handlers: no. After fork: yes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_rcu_reader_synchronize(reader: *mut RcuReader) {
    // SAFETY: passed on.
    unsafe { known(reader) }.synchronize_for(Pace::Usual, Caller::OfLibrary);
}

/// Sets how readers that registered come to report, for all of them, also while they read:
///
/// "flagged"   at a checkpoint after they have held a grace period up for rcu.till_qs_ms (see cm_rcu_set); so it is unless rcu.policy says otherwise.
/// "counted"   at each n-th checkpoint, and when they have held one up for twice as long.
/// "kicked"    as "flagged"; those that are kickable are interrupted after three times as long.
/// "none"      by cm_rcu_checkpoint_always and cm_rcu_offline only.
///
/// `n`, at least 1, is looked at for "counted". Short grace periods free early, and in small batches; long ones seldom, and much at once.
///
/// Returns 0, or -1: EINVAL, there is no such policy; EBUSY, the program has a handler for SIGURG. Then the policy stays as it is.
///
/// errno: kept, EINVAL, EBUSY. Threads: any. Signal handlers: no. After fork: yes.
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
