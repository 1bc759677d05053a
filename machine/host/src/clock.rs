//! Time: monotonic nanoseconds for slow paths, and ticks for paths that can't spend as much.

unsafe extern "C" {
    /// The C library's, which reads the kernel's clock page without a system call.
    fn clock_gettime(clock: i32, time: *mut [i64; 2]) -> i32;
}

const CLOCK_MONOTONIC: i32 = 1;

/// Nanoseconds since some fixed moment in the past. Never goes back. About 25 ns.
pub fn now_ns() -> u64 {
    let mut time = [0; 2];
    // SAFETY: the function writes one timespec, which is two 64-bit words here.
    unsafe { clock_gettime(CLOCK_MONOTONIC, &mut time) };
    time[0] as u64 * 1_000_000_000 + time[1] as u64
}

/// Whether the same work takes the same time each time, because nothing else happens on the machine.
pub const IS_STEADY: bool = false;

/// A counter that rises by one to five per nanosecond, for heuristics only. CPUs may disagree a little, so an interval
/// may be negative. About 10 ns.
#[inline]
pub fn ticks() -> u64 {
    // SAFETY: every x86-64 processor has the instruction.
    unsafe { core::arch::x86_64::_rdtsc() }
}
