//! Time in nanoseconds: exact for slow paths, and coarse for paths that cannot spend as much.
//!
//! ```text
//!   coarse = ticks / 1024                   until the rate is known, which is right at 2.67 GHz
//!   coarse = ticks · RATE / 2⁶⁴ + OFFSET    from then on; both agree at the moment of the change
//! ```
//!
//! Readers of the exact clock find the rate. The first one notes both clocks, and one at least `LONG_ENOUGH_NS` later
//! divides. A process pays nothing at its start.

use crate::sync::{AtomicU64, Ordering};

unsafe extern "C" {
    /// The C library's function, which reads the kernel's clock page without a system call.
    fn clock_gettime(clock: i32, time: *mut [i64; 2]) -> i32;
}

const CLOCK_MONOTONIC: i32 = 1;
const CLOCK_THREAD_CPUTIME_ID: i32 = 3;
/// Least time between the two readings: the rate is then off by at most one in five thousand.
const LONG_ENOUGH_NS: u64 = 20_000_000;
/// Most ticks between reading both clocks, some two microseconds. More means that the thread was interrupted.
const AT_ONCE: u64 = 5_000;
/// Nanoseconds of 2³² ticks, at 20 MHz to 10 GHz. Any other rate means that one clock stood while the machine slept.
const PLAUSIBLE: core::ops::RangeInclusive<u64> = (1 << 32) / 10..=50 << 32;

process_state! {
    /// Coarse units of 2⁶⁴ ticks; 0: unknown.
    static RATE: AtomicU64 = AtomicU64::new(0);
    static OFFSET: AtomicU64 = AtomicU64::new(0);
    /// Both clocks at the first reading; 0: none. The time is stored last.
    static FIRST_TICKS: AtomicU64 = AtomicU64::new(0);
    static FIRST_NS: AtomicU64 = AtomicU64::new(0);
}

/// Nanoseconds since a fixed moment in the past. Never goes back. About 25 ns.
pub fn now_ns() -> u64 {
    // Relaxed: a thread that misses the rate finds out in `look_at_both`.
    if RATE.load(Ordering::Relaxed) == 0 { look_at_both() } else { exact_ns() }
}

/// Nanoseconds for which the calling thread has run. A system call, some 200 ns.
pub fn thread_ns() -> u64 {
    read(CLOCK_THREAD_CPUTIME_ID)
}

/// Whether the same work always takes the same time, because nothing else runs on the machine.
pub const IS_STEADY: bool = false;

/// Nanoseconds in a unit of [`coarse`].
pub const COARSE_NS: u64 = 384;

/// Time since some moment in units of [`COARSE_NS`], for heuristics: about 10 ns.
///
/// After two readings of [`now_ns`], 20 ms apart, intervals are right to one in a thousand. Before, they may be a third
/// as long as in truth, or three times. An interval may be negative between two CPUs, which disagree a little.
/// Once in a process it may also be negative, if the rate becomes known while a reader is interrupted.
#[inline]
pub fn coarse() -> u64 {
    let ticks = ticks();
    // Acquire pairs with the release in `look_at_both`: a thread that sees the rate sees its offset.
    match RATE.load(Ordering::Acquire) {
        0 => guessed(ticks),
        rate => scaled(ticks, rate).wrapping_add(OFFSET.load(Ordering::Relaxed)),
    }
}

#[inline]
fn scaled(ticks: u64, rate: u64) -> u64 {
    ((u128::from(ticks) * u128::from(rate)) >> 64) as u64
}

#[inline]
fn guessed(ticks: u64) -> u64 {
    ticks >> 10
}

#[inline]
fn ticks() -> u64 {
    // SAFETY: every x86-64 processor has the instruction.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Reads the exact clock, and finds the rate of the other one if enough time has passed.
#[cold]
fn look_at_both() -> u64 {
    let before = ticks();
    let now = exact_ns();
    if ticks().wrapping_sub(before) > AT_ONCE {
        return now;
    }
    // Acquire pairs with the release below: a thread that sees the time sees the ticks.
    let (first_ns, first_ticks) = (FIRST_NS.load(Ordering::Acquire), FIRST_TICKS.load(Ordering::Relaxed));
    let passed_ns = now.saturating_sub(first_ns);
    let ns = ((u128::from(passed_ns) << 32) / u128::from(before.wrapping_sub(first_ticks).max(1))) as u64;
    if first_ns == 0 {
        // One thread notes both. A fork in between leaves a child that never finds the rate.
        if FIRST_TICKS.compare_exchange(0, before, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            FIRST_NS.store(now, Ordering::Release);
        }
    } else if passed_ns >= LONG_ENOUGH_NS && PLAUSIBLE.contains(&ns) {
        // Of several threads at once, the first one sets both.
        let rate = ((u128::from(ns) << 32) / u128::from(COARSE_NS)) as u64;
        let offset = guessed(before).wrapping_sub(scaled(before, rate));
        if OFFSET.compare_exchange(0, offset, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            RATE.store(rate, Ordering::Release);
        }
    } else if passed_ns >= LONG_ENOUGH_NS {
        // Start again. A thread that mixes two beginnings finds another implausible rate.
        FIRST_NS.store(0, Ordering::Relaxed);
        FIRST_TICKS.store(0, Ordering::Relaxed);
    }
    now
}

fn exact_ns() -> u64 {
    read(CLOCK_MONOTONIC)
}

fn read(clock: i32) -> u64 {
    let mut time = [0; 2];
    // SAFETY: the function writes one timespec, which is two 64-bit words here.
    unsafe { clock_gettime(clock, &mut time) };
    time[0] as u64 * 1_000_000_000 + time[1] as u64
}
