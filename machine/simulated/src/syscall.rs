//! System calls: the simulated kernel's, or the host's where no simulation runs.

#[path = "../../host/src/syscall/numbers.rs"]
#[allow(dead_code, reason = "the simulated machine makes fewer of them than the host")]
mod numbers;

use crate::{engine, sandbox, slot};

pub use numbers::*;

/// Makes system call `number`; missing arguments are zero. In a sandbox, one that is not [usual](is_usual) is refused
/// without being made.
///
/// # Safety
/// The arguments must be what the call expects; its effects on memory are the caller's to answer for.
pub unsafe fn call(number: usize, arguments: [usize; 6]) -> Result<usize, Errno> {
    let passage = if is_usual(number) { None } else { Some(sandbox::pass().ok_or(Errno::NOT_PERMITTED)?) };
    // SAFETY: passed on.
    let result = unsafe { make(number, arguments) };
    drop(passage);
    result
}

unsafe fn make(number: usize, arguments: [usize; 6]) -> Result<usize, Errno> {
    match engine::here() {
        // SAFETY: passed on.
        Some(here) => unsafe { here.system_call(number, arguments) },
        None => {
            // SAFETY: passed on.
            let result = unsafe { on_host(number, arguments) };
            if number == MEMBARRIER && result.is_ok() {
                // The kernel knows nothing of our sections.
                slot::wait_for_sections();
            }
            result
        }
    }
}

/// Makes a system call of the real kernel.
///
/// # Safety
/// As for [`call`].
pub unsafe fn on_host(number: usize, [a, b, c, d, e, f]: [usize; 6]) -> Result<usize, Errno> {
    // SAFETY: passed on.
    match unsafe { libc::syscall(number as i64, a, b, c, d, e, f) } {
        -1 => Err(Errno(std::io::Error::last_os_error().raw_os_error().unwrap_or(0))),
        result => Ok(result as usize),
    }
}
