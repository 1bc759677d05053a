//! The C function of `commensal.h` for sandboxes that the library does not notice: a name for `commensal_runtime::sandbox`.

use commensal_runtime::machine::process;
use commensal_runtime::sandbox;

/// Enters plain mode, in which the library makes only system calls that the C library's malloc and threads make too.
/// Call it before you install a filter by other means than prctl; prctl calls it. Plain mode lasts, also in fork
/// children. `docs/how/sandbox.md` says what it costs.
///
/// Time: some microseconds. Signal handlers: no.
#[unsafe(no_mangle)]
pub extern "C" fn cm_sandbox_enter() {
    process::keeping_errno(sandbox::enter);
}
