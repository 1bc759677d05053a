//! The simulated process: its environment and limits, what it says, and how it dies.

pub use crate::error::Error;
use crate::{engine, sandbox, syscall};
use core::ffi::CStr;
use std::io::Write;

/// The value of an environment variable: a simulated process has those of its settings.
pub fn environment(name: &CStr) -> Option<&'static CStr> {
    engine::here()?.with(|engine| engine.environment(name))
}

/// Whether a variable is set at all.
pub fn is_set(name: &CStr) -> bool {
    environment(name).is_some()
}

/// Records, in the way of the C library, why a call failed.
#[cold]
pub fn set_error(error: Error) {
    set_errno(error as i32);
}

fn set_errno(number: i32) {
    // SAFETY: the location is this thread's own.
    unsafe { *errno() = number };
}

/// Where the calling thread's error number is.
fn errno() -> *mut i32 {
    match engine::here() {
        Some(here) => here.with(|engine| engine.errno()),
        // SAFETY: asks for an address.
        None => unsafe { libc::__errno_location() },
    }
}

/// Standard error stays open here.
pub fn keep_standard_error() {}

/// Writes a message to the simulation's record, or to standard error where none runs.
pub fn complain(message: &[u8]) {
    match engine::here() {
        Some(here) => here.with(|engine| engine.hear(message)),
        // What cannot be written is dropped, as on the host.
        None => drop(std::io::stderr().write_all(message)),
    }
}

/// Ends the process: the simulation fails with what it complained of last.
#[cold]
pub fn die() -> ! {
    match engine::here() {
        Some(here) => here.die(),
        None => std::process::abort(),
    }
}

/// Has `function` called when the process exits in an orderly way, which simulated ones do not: they are left.
pub fn at_exit(function: extern "C" fn()) -> bool {
    // SAFETY: the function lives as long as the process.
    engine::here().is_some() || unsafe { libc::atexit(function) == 0 }
}

/// The kernel's number of this process; in a sandbox, of the one that entered it.
pub fn id() -> u32 {
    // SAFETY: asks, changes nothing.
    unsafe { syscall::call(syscall::GETPID, [0; 6]) }.map_or_else(|_| sandbox::process(), |id| id as u32)
}

/// A simulated machine has no files.
pub fn read_file<'a>(_: &CStr, _: &'a mut [u8]) -> Option<&'a [u8]> {
    None
}

/// Nor control groups.
pub fn memory_of_groups(_: impl FnMut(u64, u64)) {}

/// Nor another library.
pub fn map_by_library() {}

/// Nor anybody who counts threads.
pub fn threads() -> Option<u32> {
    None
}

/// Nor huge pages.
pub fn prefers_huge_pages() -> bool {
    false
}

/// Runs `work`, and leaves errno as it was.
pub fn keeping_errno<R>(work: impl FnOnce() -> R) -> R {
    // SAFETY: the location is this thread's own.
    let before = unsafe { *errno() };
    let result = work();
    set_errno(before);
    result
}

/// Bytes of memory that the machine has.
pub fn memory() -> u64 {
    16 << 30
}

/// Bytes of address space that the process may have: there is no limit.
pub fn address_space_limit() -> u64 {
    u64::MAX
}
