//! System calls: the simulated kernel's, or the host's outside of simulations.

#[path = "../../host/src/syscall/numbers.rs"]
#[allow(dead_code, reason = "the simulated machine makes fewer of them than the host")]
mod numbers;

use crate::{engine, sandbox, slot};

pub use numbers::*;

/// Makes system call `number`; missing arguments are zero. A sandbox refuses calls that are not [usual](is_usual).
///
/// # Safety
/// The arguments are as the call expects, and the caller answers for its effects on memory.
pub unsafe fn call<const N: usize>(number: usize, arguments: [usize; N]) -> Result<usize, Errno> {
    let passage = if is_usual(number) { None } else { Some(sandbox::pass().ok_or(Errno::NOT_PERMITTED)?) };
    // SAFETY: passed on.
    let result = unsafe { make(number, padded(arguments)) };
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
                // The kernel does not know our sections: wait for their end.
                drop(slot::enter_section());
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
