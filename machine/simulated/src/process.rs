//! The simulated process: its environment and limits, its messages, and its death.

pub use crate::syscall::Error;
use crate::{engine, sandbox, syscall};
use core::ffi::CStr;
use std::io::Write;

pub fn environment(name: &CStr) -> Option<&'static CStr> {
    engine::here()?.with(|engine| engine.environment(name))
}

pub fn is_set(name: &CStr) -> bool {
    environment(name).is_some()
}

/// Bits that the simulation's seed determines.
pub fn randomness() -> u64 {
    let seed: u64 = engine::here().map_or(0, |here| here.with(|engine| engine.seed()));
    (seed ^ 0x5851_f42d_4c95_7f2d).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1
}

#[cold]
pub fn set_error(error: Error) {
    set_error_number(error as i32);
}

#[cold]
pub fn set_error_number(number: i32) {
    // SAFETY: the location is this thread's own.
    unsafe { *errno() = number };
}

fn errno() -> *mut i32 {
    match engine::here() {
        Some(here) => here.with(|engine| &raw mut *engine.thread().errno),
        // SAFETY: asks for an address.
        None => unsafe { libc::__errno_location() },
    }
}

/// Does nothing: standard error stays open here.
pub fn keep_standard_error() {}

/// Writes a message to the simulation's record, or to standard error outside of simulations.
pub fn complain(message: &[u8]) {
    match engine::here() {
        Some(here) => here.with(|engine| engine.hear(message)),
        // Drops the rest after a failure, as on the host.
        None => drop(std::io::stderr().write_all(message)),
    }
}

/// Ends the process: the simulation fails with its last complaint.
#[cold]
pub fn die() -> ! {
    match engine::here() {
        Some(here) => here.die(),
        None => std::process::abort(),
    }
}

/// Has `function` called at a normal exit, which simulated processes do not have.
pub fn at_exit(function: extern "C" fn()) -> bool {
    // SAFETY: the function lives as long as the process.
    engine::here().is_some() || unsafe { libc::atexit(function) == 0 }
}

/// The same, also at a `quick_exit`.
pub fn at_any_exit(function: extern "C" fn()) -> bool {
    at_exit(function)
}

/// The kernel's number of this process; in a sandbox, of the process that entered it.
pub fn id() -> u32 {
    // SAFETY: asks, changes nothing.
    unsafe { syscall::call(syscall::GETPID, []) }.map_or_else(|_| sandbox::process(), |id| id as u32)
}

/// None: a simulated machine has no files.
pub fn read_file<'a>(_: &CStr, _: &'a mut [u8]) -> Option<&'a [u8]> {
    None
}

/// None: a simulated machine has no memory of its own.
pub fn read_memory(_: usize, _: &mut [u8]) -> bool {
    false
}

/// None: simulated threads have no names.
pub fn thread_name() -> [u8; 16] {
    [0; 16]
}

/// Shows none: there are no control groups.
pub fn memory_of_groups(_: impl FnMut(u64, u64)) {}

/// None: there are no control groups.
pub fn pressure_of_group(_: Option<&str>) -> Option<u64> {
    None
}

/// Does nothing: there is no other library.
pub fn map_by_library() {}

/// None: unknown.
pub fn threads() -> Option<u32> {
    None
}

/// False: there are no huge pages.
pub fn limits_address_space() -> bool {
    false
}

pub fn prefers_huge_pages() -> bool {
    false
}

pub fn keeping_errno<R>(work: impl FnOnce() -> R) -> R {
    // SAFETY: the location is this thread's own.
    let before = unsafe { *errno() };
    let result = work();
    set_error_number(before);
    result
}

pub fn memory() -> u64 {
    16 << 30
}
