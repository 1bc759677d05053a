//! The C functions of `commensal.h` for RCU: names for `commensal::rcu`.
//!
//! What `counter.rs` says of itself holds here too.

use crate::cache::failed;
use commensal::heap::{self, Error};
use commensal::machine::slot::Counted;
use commensal::rcu::{self, Caller, Cookie, Head, Open, Pace};
use core::ffi::{CStr, c_char, c_int, c_void};

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

/// What a deferred call needs: a member of the object that the call is about, or memory beside it. 16 bytes, of any content.
#[repr(C)]
pub struct RcuHead {
    /// Not to be touched.
    pub next: *mut RcuHead,
    /// Not to be touched.
    pub function: Option<unsafe extern "C" fn(*mut RcuHead)>,
}

const _: () = assert!(size_of::<RcuHead>() == size_of::<Head>());

/// Calls a function after a grace period, with this head: on a thread of the library's, one call at a time. Calls that were deferred in the same slot come in their
/// order. Never fails, and allocates nothing. The function has the head's memory from then on; it may do anything but call cm_rcu_barrier.
///
/// errno: kept. Threads: any. Signal handlers: yes, but for the first that is deferred in a process. After fork: yes; the child makes the calls that waited, too, but for those that the parent's thread was
/// making. A child that a signal handler forked must not before that handler has returned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_rcu_call(head: *mut RcuHead, function: unsafe extern "C" fn(head: *mut RcuHead)) {
    // SAFETY: passed on; both are pointers to the same.
    let function = unsafe {
        core::mem::transmute::<unsafe extern "C" fn(*mut RcuHead), unsafe extern "C" fn(*mut Head)>(function)
    };
    // SAFETY: passed on.
    heap::keeping_errno(|| unsafe { rcu::call(head.cast(), function) });
}

/// Frees a block after a grace period: any that free would take, and those of caches. Costs little more than free. NULL is nothing. The blocks need no head, and
/// nothing has to be done for them to be freed.
///
/// While so many wait that a mark is reached (rcu.high_kib of COMMENSAL_CONF), callers that are in no read section are held up, each time for up to
/// 10 ms.
///
/// errno: kept. Threads: any. Signal handlers, After fork: as for cm_rcu_call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_rcu_defer_free(block: *mut c_void) {
    // SAFETY: passed on.
    heap::keeping_errno(|| unsafe { rcu::defer_free(block.cast()) });
}

/// Waits until all that was deferred before, by any thread, has been freed or called.
///
/// Called in a read section, or by a deferred call, it would wait for itself: it ends the program with a message.
///
/// errno: kept. Threads: any. Signal handlers: no. After fork: yes.
#[unsafe(no_mangle)]
pub extern "C" fn cm_rcu_barrier() {
    heap::keeping_errno(|| rcu::barrier_for(Caller::OfLibrary));
}

/// What waits to be freed or called.
#[repr(C)]
pub struct RcuWaiting {
    /// Blocks and calls.
    pub objects: u64,
    /// Bytes of the blocks.
    pub bytes: u64,
    /// The most that these have been in each slot, added up.
    pub most_bytes: u64,
    /// How often a caller of cm_rcu_defer_free was held up.
    pub held_up: u64,
    /// Blocks that were not freed, as there was no memory for them to wait in.
    pub lost: u64,
}

/// Says what waits; exact while nobody defers anything, and nothing is freed.
///
/// errno: kept. Threads: any. Signal handlers: yes. After fork: yes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_rcu_count_waiting(waiting: *mut RcuWaiting) {
    let rcu::Waiting { objects, bytes, most_bytes, held_up, lost } = rcu::waiting();
    // SAFETY: passed on.
    unsafe { waiting.write(RcuWaiting { objects, bytes, most_bytes, held_up, lost }) };
}

/// Sets what can be set about grace periods and what waits for them, by the name behind "rcu." in COMMENSAL_CONF: cm_rcu_set("lazy_delay_ms", 5). `commensal
/// conf` has the names. See cm_rcu_set_policy for the policy.
///
/// Returns 0, or -1 if there is no such setting, or the value is out of its range: then it stays as it is.
///
/// errno: kept, EINVAL. Threads: any. Signal handlers: yes. After fork: yes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_rcu_set(name: *const c_char, value: u32) -> c_int {
    // SAFETY: passed on: a string.
    let name = unsafe { CStr::from_ptr(name) };
    if matches!(name.to_str().map(|name| rcu::set_knob(name, value)), Ok(Ok(()))) { 0 } else { failed(Error::Invalid) }
}
