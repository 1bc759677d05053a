//! The C function of `commensal.h` for sandboxes that the library does not notice: a name for `commensal::sandbox`.

use commensal::machine::process;
use commensal::sandbox;

/// Comes into plain mode, in which the library makes only system calls that the C library's malloc and threads make,
/// too. Call it before a filter is installed by other means than the C library's prctl, which does it by itself. For
/// good, and in fork children as well. `commensal doctor --sandbox` says what plain mode costs.
///
/// errno: kept. Threads: any. Signal handlers: no. After fork: yes.
#[unsafe(no_mangle)]
pub extern "C" fn cm_sandbox_enter() {
    process::keeping_errno(sandbox::enter);
}
