//! `prctl`, by which programs say that they are about to forbid themselves system calls.

use crate::sandbox::cm_sandbox_enter;
use crate::vfork;
use commensal::machine::process;
use core::ffi::c_int;

/// Linux's, which is called; but before a program allows itself filters, or installs one, the library comes into plain
/// mode: not where a child of `vfork` does, which runs in memory of a program that does not. In C it has a variable number of arguments, which on this machine are passed like these.
///
/// # Safety
/// As the kernel has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prctl(option: c_int, second: usize, third: usize, fourth: usize, fifth: usize) -> c_int {
    const SET_SECCOMP: c_int = 22;
    const SET_NO_NEW_PRIVILEGES: c_int = 38;
    if matches!(option, SET_SECCOMP | SET_NO_NEW_PRIVILEGES) && !vfork::is_child() {
        cm_sandbox_enter();
    }
    // SAFETY: passed on.
    unsafe { process::control(option, [second, third, fourth, fifth]) }
}
