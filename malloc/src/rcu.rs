//! The C functions of `commensal.h` for RCU: names for `runtime::rcu`.
//!
//! What `counter.rs` says of itself holds here too.

use core::ffi::c_void;
use runtime::machine::slot::Counted;
use runtime::rcu::{self, Caller, Cookie, Open, Pace};

/// A read section that is open: what cm_rcu_read_unlock has to know.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RcuSection {
    /// Not to be touched.
    pub at: *mut c_void,
    /// Not to be touched.
    pub slot: u32,
}

const _: () = assert!(size_of::<RcuSection>() == size_of::<Open>());

/// Opens a read section: what it finds by CM_RCU_DEREFERENCE stays until the section ends, if whoever takes it away waits for a grace period
/// before it is freed. Sections may lie inside of others, and overlap. Threads need not register.
///
/// Returns what cm_rcu_read_unlock wants. A section that is not ended is waited for, for ever.
///
/// errno: kept. Threads: any. Signal handlers: yes. After fork: yes; the child waits for the sections that the thread had open which forked, and for
/// no others.
#[unsafe(no_mangle)]
pub extern "C" fn cm_rcu_read_lock() -> RcuSection {
    let Counted { at, slot } = rcu::open().into_counted();
    RcuSection { at: at.cast(), slot }
}

/// Ends a read section, which the calling thread opened, or the one that forked it, and which ends once.
///
/// errno: kept. Threads: the one that opened it. Signal handlers: yes. After fork: yes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_rcu_read_unlock(section: RcuSection) {
    let RcuSection { at, slot } = section;
    // SAFETY: passed on.
    unsafe { rcu::close(Open::from_counted(Counted { at: at.cast(), slot })) };
}

/// Waits for a grace period: until all read sections that are open now have ended. Callers that come at the same time share one.
///
/// Called in a read section it would wait for itself: it ends the program with a message.
///
/// errno: kept. Threads: any. Signal handlers: no, as they may have interrupted a section. After fork: yes.
#[unsafe(no_mangle)]
pub extern "C" fn cm_rcu_synchronize() {
    rcu::wait_for(Pace::Usual, Caller::OfLibrary);
}

/// The same for those in a hurry: awake for up to some 100 microseconds, where cm_rcu_synchronize goes to sleep after some.
///
/// errno, Threads, Signal handlers, After fork: as for cm_rcu_synchronize.
#[unsafe(no_mangle)]
pub extern "C" fn cm_rcu_synchronize_expedited() {
    rcu::wait_for(Pace::Expedited, Caller::OfLibrary);
}

/// Asks for a grace period and does not wait for it.
///
/// Returns its number, for cm_rcu_is_over.
///
/// errno: kept. Threads: any. Signal handlers: no. After fork: yes, also for numbers from before.
#[unsafe(no_mangle)]
pub extern "C" fn cm_rcu_start() -> u64 {
    rcu::start().number()
}

/// Whether the grace period of this number is over. Drives it on as far as it goes without waiting: so who asks again and again gets yes in
/// the end.
///
/// errno: kept. Threads: any. Signal handlers: yes, but they may have interrupted a section that keeps it from being over. After fork: yes.
#[unsafe(no_mangle)]
pub extern "C" fn cm_rcu_is_over(number: u64) -> bool {
    rcu::is_over(Cookie::from_number(number))
}

/// How many grace periods have been over in this process and its ancestors.
///
/// errno: kept. Threads: any. Signal handlers: yes. After fork: yes.
#[unsafe(no_mangle)]
pub extern "C" fn cm_rcu_grace_periods() -> u64 {
    rcu::grace_periods()
}
