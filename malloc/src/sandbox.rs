//! `prctl`, by which programs say that they are about to forbid themselves system calls; and the function of
//! `commensal.h` for those that do it otherwise.

use commensal::machine::process;
use commensal::sandbox;
use core::ffi::c_int;

/// Comes into plain mode, in which the library makes only system calls that the C library's malloc and threads make,
/// too. Call it before a filter is installed by other means than the C library's prctl, which does it by itself. For
/// good, and in fork children as well. `commensal doctor --sandbox` says what plain mode costs.
///
/// errno: kept. Threads: any. Signal handlers: no. After fork: yes.
#[unsafe(no_mangle)]
pub extern "C" fn cm_sandbox_enter() {
    process::keeping_errno(sandbox::enter);
}

/// Linux's, which is called; but before a program allows itself filters, or installs one, the library comes into plain
/// mode. In C it has a variable number of arguments, which on this machine are passed like these.
///
/// # Safety
/// As the kernel has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prctl(option: c_int, second: usize, third: usize, fourth: usize, fifth: usize) -> c_int {
    const SET_SECCOMP: c_int = 22;
    const SET_NO_NEW_PRIVILEGES: c_int = 38;
    if matches!(option, SET_SECCOMP | SET_NO_NEW_PRIVILEGES) {
        cm_sandbox_enter();
    }
    // SAFETY: passed on.
    unsafe { process::control(option, [second, third, fourth, fifth]) }
}
