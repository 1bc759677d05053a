//! `unshare` and `setns`, which the kernel refuses to processes with several threads: one of them must not be ours.

use commensal::machine::process;
use commensal::upkeep;
use core::ffi::c_int;

/// How often it is looked whether a thread that was joined has ended: for a millisecond.
const LOOKS: u32 = 20;

/// Linux's, which is called; but before that the library's background thread ends, if the program has one thread left.
#[unsafe(no_mangle)]
pub extern "C" fn unshare(flags: c_int) -> c_int {
    upkeep::leave_to_the_last(LOOKS);
    process::unshare(flags)
}

/// The same of `setns`.
#[unsafe(no_mangle)]
pub extern "C" fn setns(descriptor: c_int, kind: c_int) -> c_int {
    upkeep::leave_to_the_last(LOOKS);
    process::enter_namespace(descriptor, kind)
}
