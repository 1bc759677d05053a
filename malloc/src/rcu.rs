//! The C functions of `commensal.h` for RCU: names for `commensal_runtime::rcu`.

use commensal_runtime::heap;
use commensal_runtime::machine::slot::Counted;
use commensal_runtime::rcu::{self, Caller, Cookie, Head, Open, Pace};
use core::ffi::c_void;

/// An open read section, for cm_rcu_read_unlock.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RcuSection {
    /// Private.
    pub at: *mut c_void,
    /// Private.
    pub slot: u32,
}

const _: () = assert!(size_of::<RcuSection>() == size_of::<Open>());

/// Opens a read section. Objects found in it by CM_RCU_DEREFERENCE stay until it ends, if the updaters wait for a grace
/// period before they free them. Sections may nest and overlap. Threads need not register.
///
/// Returns the section. Grace periods wait for ever for a section that is not ended.
///
/// After fork: yes; the child waits for the sections that the forking thread had open, and for no others.
/// cbindgen:postfix=CM_NOTHROW CM_CHECKED
#[unsafe(no_mangle)]
pub extern "C" fn cm_rcu_read_lock() -> RcuSection {
    let Counted { at, slot } = rcu::open().0;
    RcuSection { at: at.cast(), slot }
}

/// Ends a read section, once.
///
/// Threads: the one that opened it. After fork: the child ends the sections that the forking thread had open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_rcu_read_unlock(section: RcuSection) {
    let RcuSection { at, slot } = section;
    // SAFETY: passed on.
    unsafe { rcu::close(Open(Counted { at: at.cast(), slot })) };
}

/// Waits for a grace period: until all read sections that are open now have ended. Callers at the same time share one.
/// In a read section, or with a registered reader online, it would wait for itself: it ends the program with a message.
///
/// Time: as long as readers take. Signal handlers: no, because they may have interrupted a section.
#[unsafe(no_mangle)]
pub extern "C" fn cm_rcu_synchronize() {
    rcu::wait_for(Pace::Usual, Caller::OfLibrary);
}

/// Waits like cm_rcu_synchronize, but stays awake for some hundred microseconds instead of some ten, and does not wait
/// for rcu.minimum_interval_us.
///
/// Time, Signal handlers: as for cm_rcu_synchronize.
#[unsafe(no_mangle)]
pub extern "C" fn cm_rcu_synchronize_expedited() {
    rcu::wait_for(Pace::Expedited, Caller::OfLibrary);
}

/// Requests a grace period without waiting for it. Returns its number, for cm_rcu_is_over.
///
/// Signal handlers: no. After fork: yes; the child may also ask for numbers from before the fork.
/// cbindgen:postfix=CM_NOTHROW CM_CHECKED
#[unsafe(no_mangle)]
pub extern "C" fn cm_rcu_start() -> u64 {
    rcu::start().0
}

/// Returns whether the grace period `number` is over. If it is not, takes the next steps towards its end, without
/// waiting. A caller that repeats the call gets true in the end.
///
/// Time: proportional to the number of slots. Signal handlers: yes, but a section that they interrupt keeps it from
/// being over.
#[unsafe(no_mangle)]
pub extern "C" fn cm_rcu_is_over(number: u64) -> bool {
    rcu::is_over(Cookie(number))
}

/// Returns the number of grace periods that have ended in this process and its ancestors.
#[unsafe(no_mangle)]
pub extern "C" fn cm_rcu_grace_periods() -> u64 {
    rcu::grace_periods()
}

/// The memory of a deferred call: a field of the object to free, or memory beside it. 16 bytes, with any contents.
#[repr(C)]
pub struct RcuHead {
    /// Private.
    pub next: *mut RcuHead,
    /// Private.
    pub function: Option<unsafe extern "C" fn(*mut RcuHead)>,
}

const _: () = assert!(size_of::<RcuHead>() == size_of::<Head>());

/// Calls `function(head)` after a grace period, on a thread of the library, one call at a time. Calls deferred in the
/// same slot keep their order. It never fails, and allocates nothing. The head belongs to the function from then on.
/// The function may do anything except call cm_rcu_barrier.
///
/// Signal handlers: yes, except for the first deferral of a process, by any function. After fork: yes; the child also
/// makes the calls that waited, except for those that the library was making. A child that a signal handler forked must
/// not call this before the handler has returned.
/// cbindgen:postfix=CM_NOTHROW CM_NONNULL
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_rcu_call(head: *mut RcuHead, function: unsafe extern "C" fn(head: *mut RcuHead)) {
    // SAFETY: passed on; both are pointers to the same.
    let function = unsafe {
        core::mem::transmute::<unsafe extern "C" fn(*mut RcuHead), unsafe extern "C" fn(*mut Head)>(function)
    };
    // SAFETY: passed on.
    heap::keeping_errno(|| unsafe { rcu::call(head.cast(), function) });
}

/// Frees `block` after a grace period: a block that free() takes, or an object of a cache. NULL is ignored. Costs
/// little more than free(). The block needs no head, and the program need not do anything else.
///
/// While a slot holds more deferred objects than a mark (rcu.high_mark, rcu.high_kib), each call outside of read
/// sections may be delayed by rcu.hold_up_ms (milliseconds, default 10).
///
/// Signal handlers, After fork: as for cm_rcu_call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_rcu_defer_free(block: *mut c_void) {
    // SAFETY: passed on.
    heap::keeping_errno(|| unsafe { rcu::defer_free(block.cast()) });
}

/// Waits until everything that any thread deferred before is freed or called. In a read section or in a deferred call
/// it would wait for itself: it ends the program with a message.
///
/// Time: as long as readers and deferred calls take. Signal handlers: no.
#[unsafe(no_mangle)]
pub extern "C" fn cm_rcu_barrier() {
    heap::keeping_errno(|| rcu::barrier_for(Caller::OfLibrary));
}

/// Objects that wait to be freed or called.
#[repr(C)]
pub struct RcuWaiting {
    /// Blocks and calls.
    pub objects: u64,
    /// Bytes of the blocks.
    pub bytes: u64,
    /// The most bytes that waited in each slot, added up.
    pub most_bytes: u64,
    /// How often cm_rcu_defer_free delayed its caller.
    pub held_up: u64,
    /// Blocks that were not freed, because there was no memory for them to wait in.
    pub lost: u64,
}

/// Counts what waits, into `waiting`: exact while no thread defers, frees or calls.
///
/// Time: proportional to the number of slots.
/// cbindgen:postfix=CM_NOTHROW CM_NONNULL
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_rcu_count_waiting(waiting: *mut RcuWaiting) {
    let rcu::Waiting { objects, bytes, most_bytes, held_up, lost, .. } = rcu::waiting();
    // SAFETY: passed on.
    unsafe { waiting.write(RcuWaiting { objects, bytes, most_bytes, held_up, lost }) };
}
