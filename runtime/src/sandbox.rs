//! Sandboxes: *plain mode*, for programs that forbid themselves system calls.
//!
//! In plain mode the library makes only system calls that the C library's malloc and threads need, too (`is_usual` in
//! `machine/host/src/syscall/numbers.rs` lists them). All others fail as if the kernel had refused them, so each
//! mechanism takes the way that it has for that; docs/how/sandbox.md says what is lost. Messages go to standard error,
//! whatever it is by then.
//!
//! A process enters plain mode by [`enter`], by `COMMENSAL_CONF=sandbox:on`, and under the drop-in library when it
//! calls `prctl` with `PR_SET_NO_NEW_PRIVS` or `PR_SET_SECCOMP`. It stays there, and so do its fork children, as with
//! filters.

use crate::caches;

/// Enters plain mode. Call it before the filter is installed: it still asks what the library has to know of the
/// machine. After it returns, no thread makes an unusual system call. Idempotent. It waits until other threads have
/// ended such calls, which takes microseconds. Signal handlers: no. After fork: yes.
pub fn enter() {
    // Makes the heap if there is none. Without memory for it there is nothing to ask.
    caches::enter();
    machine::sandbox::enter();
}

/// Whether the process is in plain mode.
pub fn is_plain() -> bool {
    machine::sandbox::is_on()
}
