//! `unshare` and `setns`, which the kernel refuses to processes with several threads: one of them must not be ours.

use commensal::machine::process;
use commensal::upkeep;
use core::ffi::c_int;

/// Linux's, which is called; but before that the library's background thread ends, if the program has one thread left.
#[unsafe(no_mangle)]
pub extern "C" fn unshare(flags: c_int) -> c_int {
    upkeep::leave_to_the_last();
    process::unshare(flags)
}

/// The same of `setns`.
#[unsafe(no_mangle)]
pub extern "C" fn setns(descriptor: c_int, kind: c_int) -> c_int {
    upkeep::leave_to_the_last();
    process::enter_namespace(descriptor, kind)
}
