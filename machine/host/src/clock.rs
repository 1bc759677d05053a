//! Monotonic time in nanoseconds.

use crate::syscall;

const CLOCK_MONOTONIC: usize = 1;

/// Nanoseconds since some fixed moment in the past. Never goes back. A system call: for slow paths only.
pub fn now_ns() -> u64 {
    let mut time = [0i64; 2];
    // SAFETY: the kernel writes one timespec, which is two 64-bit words here.
    let _ = unsafe { syscall::call(syscall::CLOCK_GETTIME, [CLOCK_MONOTONIC, time.as_mut_ptr() as usize, 0, 0, 0, 0]) };
    time[0] as u64 * 1_000_000_000 + time[1] as u64
}
