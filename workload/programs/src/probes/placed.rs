//! A probe: 10,000 threads, created and joined in turn, and what memory they leave behind.
//!
//! `one` runs all of them on the CPU of their creator, `anywhere` where the scheduler puts them.
//!
//! Prints the answer, then the resident memory in kB before and after, then how many of the threads ran on the CPU
//! where their creator had just been. "Before" is when a thousand threads have come and gone, so that what the C
//! library and the allocator keep for the next thread isn't taken for a leak.
//!
//! With a second argument, each thread goes on for so many nanoseconds: what that costs on one CPU is clear, what it
//! costs anywhere is up to the scheduler.

use std::ffi::c_void;
use std::hint::spin_loop;
use std::mem;
use std::ptr::{null, null_mut};
use std::time::{Duration, Instant};

use super::resident_kb;
use crate::frame::Block;
use crate::kernels::threads::{inherit, live};

const WARM_UP: u64 = 1000;
const THREADS: u64 = 10_000;
const BLOCKS: u64 = 64;

/// What follows the name.
pub const ARGUMENTS: &str = "[one|anywhere [NANOSECONDS]]";

/// Measures what the arguments say, or says what is wrong with them.
pub fn run(arguments: &[String]) -> Result<(), String> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (kind, more) = match words[..] {
        [] => ("anywhere", "0"),
        [kind] => (kind, "0"),
        [kind, more] => (kind, more),
        _ => return Err(format!("the arguments are {words:?}; expected {ARGUMENTS}")),
    };
    let more = more.parse().map_err(|_| format!("the second argument is `{more}`; expected {ARGUMENTS}"))?;
    match kind {
        "one" => stay_on_one_cpu(),
        "anywhere" => {}
        _ => return Err(format!("the first argument is `{kind}`; expected {ARGUMENTS}")),
    }
    let more = Duration::from_nanos(more);
    let (warm, _) = threads(0, WARM_UP, more);
    let before = resident_kb();
    let (sum, beside) = threads(warm, THREADS, more);
    let after = resident_kb();
    println!("{sum:016x} {before} {after} {beside}");
    Ok(())
}

/// What so many threads make of a checksum, and how many ran where their creator had been.
fn threads(mut sum: u64, count: u64, more: Duration) -> (u64, u64) {
    let mut beside = 0;
    for seed in 0..count {
        let here = cpu();
        let mut life = Life { seed, more, cpu: -1, left: Vec::new() };
        life.live_in_a_thread();
        sum = inherit(sum, life.left);
        beside += u64::from(life.cpu == here);
    }
    (sum, beside)
}

/// What a thread does, and what it leaves.
struct Life {
    seed: u64,
    more: Duration,
    cpu: i32,
    left: Vec<Block>,
}

impl Life {
    fn live(&mut self) {
        self.cpu = cpu();
        self.left = live(self.seed, BLOCKS);
        if !self.more.is_zero() {
            let start = Instant::now();
            while start.elapsed() < self.more {
                spin_loop();
            }
        }
    }

    /// By the C library: Rust's would map and unmap a stack for signals besides.
    fn live_in_a_thread(&mut self) {
        extern "C" fn start(life: *mut c_void) -> *mut c_void {
            // SAFETY: it is the creator's, which waits.
            unsafe { &mut *life.cast::<Life>() }.live();
            null_mut()
        }
        let mut thread = 0;
        // SAFETY: the thread ends before `self` does, since we join it.
        unsafe {
            let error = libc::pthread_create(&raw mut thread, null(), start, (&raw mut *self).cast());
            assert_eq!(error, 0, "no thread can be made");
            assert_eq!(libc::pthread_join(thread, null_mut()), 0, "the thread ends");
        }
    }
}

/// Has this thread, and those that it makes, run on the last CPU that the process may use: the first serves more
/// interrupts on most machines.
fn stay_on_one_cpu() {
    // SAFETY: zeroes are the empty set. The calls read and write sets of the size that they are given, and each CPU
    // asked for is below it.
    unsafe {
        let (mut allowed, mut one): (libc::cpu_set_t, libc::cpu_set_t) = (mem::zeroed(), mem::zeroed());
        let error = libc::sched_getaffinity(0, size_of_val(&allowed), &raw mut allowed);
        assert_eq!(error, 0, "the CPUs can't be read");
        let last = (0..libc::CPU_SETSIZE as usize).rfind(|&cpu| libc::CPU_ISSET(cpu, &allowed));
        libc::CPU_SET(last.expect("this thread runs on one"), &mut one);
        let error = libc::sched_setaffinity(0, size_of_val(&one), &raw const one);
        assert_eq!(error, 0, "the CPU can't be chosen");
    }
}

fn cpu() -> i32 {
    // SAFETY: it only looks.
    unsafe { libc::sched_getcpu() }
}
