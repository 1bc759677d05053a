//! Sandboxes: *plain mode*, for programs that install a filter of system calls.
//!
//! In plain mode the library makes only system calls that the C library's malloc and threads make too (`is_usual` in
//! `machine/host/src/syscall/numbers.rs` lists them). All others fail as if the kernel had refused them, so each
//! mechanism falls back; docs/how/sandbox.md lists the losses. Messages go to file descriptor 2 in any case.
//!
//! A process enters plain mode by [`enter`], by `COMMENSAL_CONF=sandbox:on`, and under the drop-in library when it
//! calls `prctl` with `PR_SET_NO_NEW_PRIVS` or `PR_SET_SECCOMP`. Like filters, plain mode lasts, also in fork children.

use crate::caches;

/// Enters plain mode, and waits some microseconds until other threads have ended unusual system calls. Call it before
/// you install the filter: it still reads facts about the machine. Idempotent. Signal handlers: no. After fork: yes.
pub fn enter() {
    // Makes the heap if there is none. Without memory for it there is nothing to read.
    caches::enter();
    machine::sandbox::enter();
}

/// Returns whether the process is in plain mode.
pub fn is_plain() -> bool {
    machine::sandbox::is_on()
}
