//! Kicks: make other CPUs of this process do something now. There are two kinds.
//!
//! [`fence_all`] orders memory on each running thread of the process and aborts nothing. [`restart`] also aborts each
//! restartable section in flight in one slot, and [`restart_all`] in all slots. Both use `membarrier`. The kernel can
//! select a CPU but no concurrency id, so a restart goes to all CPUs that run a thread of ours.
//!
//! Registration costs microseconds while the process has one thread, and tens of milliseconds later. So [`register`]
//! runs while the second thread is being created, or else at the first kick.

use crate::sync::{self, AtomicU32, AtomicU64, Ordering};
use crate::{clock, fault, sandbox, syscall};

pub(crate) const PRIVATE_EXPEDITED: usize = 1 << 3;
pub(crate) const REGISTER_PRIVATE_EXPEDITED: usize = 1 << 4;
pub(crate) const PRIVATE_EXPEDITED_RSEQ: usize = 1 << 7;
pub(crate) const REGISTER_PRIVATE_EXPEDITED_RSEQ: usize = 1 << 8;

const UNREGISTERED: u32 = 0;
const REGISTERED: u32 = 1;
const REFUSED: u32 = 2;

process_state! {
    static STATE: AtomicU32 = AtomicU32::new(UNREGISTERED);
    static KICKS: AtomicU64 = AtomicU64::new(0);
    static REFUSALS: AtomicU64 = AtomicU64::new(0);
}

/// The kernel refused the kick: no membarrier, or a filter forbids it. It ordered and restarted nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused;

/// Registers for kicks. Idempotent; a fork child inherits it.
///
/// # Errors
/// The kernel has no membarrier, or a sandbox refuses it.
pub fn register() -> Result<(), Refused> {
    if sandbox::is_on() {
        return Err(Refused);
    }
    // Relaxed: the state only saves a harmless system call.
    match STATE.load(Ordering::Relaxed) {
        REGISTERED => return Ok(()),
        REFUSED => return Err(Refused),
        _ => {}
    }
    let done = command(REGISTER_PRIVATE_EXPEDITED) && command(REGISTER_PRIVATE_EXPEDITED_RSEQ);
    // Later calls are refused above if a sandbox came meanwhile and refused this one.
    STATE.store(if done { REGISTERED } else { REFUSED }, Ordering::Relaxed);
    if done { Ok(()) } else { Err(Refused) }
}

/// A full memory barrier on each running thread of the process. Aborts no restartable section.
///
/// # Errors
/// The kernel or a sandbox refused it. There was no barrier.
pub fn fence_all() -> Result<(), Refused> {
    kick(PRIVATE_EXPEDITED)
}

/// Aborts each restartable section in flight in `slot` (here: in any slot), and is a [`fence_all`].
///
/// # Errors
/// As for [`restart_all`].
pub fn restart(_slot: u32) -> Result<(), Refused> {
    restart_all()
}

/// Aborts each restartable section in flight in any slot, and is a [`fence_all`].
///
/// # Errors
/// The kernel or a sandbox refused it. No section was aborted.
pub fn restart_all() -> Result<(), Refused> {
    kick(PRIVATE_EXPEDITED_RSEQ)
}

/// Whether the wait since `since_ns` was a [`fence_all`], for processes without kicks. All accesses before `since_ns`
/// then come before the return. The caller's, with a fence, come before later ones of others.
pub fn have_stores_arrived(since_ns: u64) -> bool {
    let is_over = clock::now_ns().saturating_sub(since_ns) >= sync::STORES_TAKE_NS;
    if is_over {
        sync::empty_all_buffers();
    }
    is_over
}

/// Kicks made, and kicks refused.
pub fn counts() -> (u64, u64) {
    (KICKS.load(Ordering::Relaxed), REFUSALS.load(Ordering::Relaxed))
}

fn kick(kind: usize) -> Result<(), Refused> {
    if !fault::fails(fault::Point::Kick) && register().is_ok() && command(kind) {
        KICKS.fetch_add(1, Ordering::Relaxed);
        Ok(())
    } else {
        REFUSALS.fetch_add(1, Ordering::Relaxed);
        Err(Refused)
    }
}

fn command(command: usize) -> bool {
    // SAFETY: membarrier touches no memory of ours.
    unsafe { syscall::call(syscall::MEMBARRIER, [command]) }.is_ok()
}
