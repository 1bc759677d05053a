//! A probe: 10,000 threads, created and joined in turn, and what memory they leave behind.
//!
//! `one` runs all of them on the CPU of their creator, `across` on another one, `anywhere` where the scheduler puts
//! them, and `std` too, but made by Rust's library instead of the C library's: each has a stack for signals then,
//! mapped and unmapped.
//!
//! Prints the answer, then the resident memory in kB before and after, then how many of the threads ran on the CPU
//! where their creator had just been. "Before" is when a thousand threads have come and gone, so that what the C
//! library and the allocator keep for the next thread isn't taken for a leak.
//!
//! With a second argument, each thread goes on for so many nanoseconds: what that costs on one CPU is clear, what it
//! costs anywhere is up to the scheduler.

use std::ffi::c_void;
use std::hint::spin_loop;
use std::mem::{self, MaybeUninit};
use std::ptr::null_mut;
use std::thread;
use std::time::{Duration, Instant};

use super::resident_kb;
use crate::frame::Block;
use crate::kernels::threads::{inherit, live};

const WARM_UP: u64 = 1000;
const THREADS: u64 = 10_000;
const BLOCKS: u64 = 64;

/// What follows the name.
pub const ARGUMENTS: &str = "[one|across|anywhere|std [NANOSECONDS]]";

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
    let mut run =
        Run { by_std: kind == "std", attributes: place(kind)?, more: Duration::from_nanos(more), sum: 0, beside: 0 };
    run.threads(WARM_UP);
    let before = resident_kb();
    run.beside = 0;
    run.threads(THREADS);
    let after = resident_kb();
    println!("{:016x} {before} {after} {}", run.sum, run.beside);
    Ok(())
}

/// Chooses the CPUs of this thread and of those that it will make.
fn place(kind: &str) -> Result<Attributes, String> {
    let mut attributes = Attributes::new();
    let cpus = allowed_cpus();
    match kind {
        "one" => pin(cpus[0]),
        "across" => {
            pin(*cpus.get(1).ok_or("one CPU may be used; `across` needs two")?);
            attributes.pin(cpus[0]);
        }
        "anywhere" | "std" => {}
        _ => return Err(format!("the first argument is `{kind}`; expected {ARGUMENTS}")),
    }
    Ok(attributes)
}

struct Run {
    by_std: bool,
    attributes: Attributes,
    more: Duration,
    sum: u64,
    beside: u64,
}

impl Run {
    fn threads(&mut self, count: u64) {
        for seed in 0..count {
            let (here, mut life) = (cpu(), Life { seed, more: self.more, cpu: -1, left: Vec::new() });
            if self.by_std {
                life = thread::spawn(move || life.live()).join().expect("the thread ends");
            } else {
                self.attributes.live(&mut life);
            }
            self.sum = inherit(self.sum, life.left);
            self.beside += u64::from(life.cpu == here);
        }
    }
}

/// What a thread does, and what it leaves.
struct Life {
    seed: u64,
    more: Duration,
    cpu: i32,
    left: Vec<Block>,
}

impl Life {
    fn live(mut self) -> Life {
        self.cpu = cpu();
        self.left = live(self.seed, BLOCKS);
        linger(self.more);
        self
    }
}

fn linger(time: Duration) {
    if !time.is_zero() {
        let start = Instant::now();
        while start.elapsed() < time {
            spin_loop();
        }
    }
}

/// How the C library makes threads.
struct Attributes(libc::pthread_attr_t);

impl Attributes {
    fn new() -> Attributes {
        let mut attributes = MaybeUninit::uninit();
        // SAFETY: it is written by the call, which only fails without memory.
        unsafe {
            assert_eq!(libc::pthread_attr_init(attributes.as_mut_ptr()), 0);
            Attributes(attributes.assume_init())
        }
    }

    /// Lets the threads run on one CPU only.
    fn pin(&mut self, cpu: usize) {
        let set = only(cpu);
        // SAFETY: the attributes are initialised, and the set is of the size that is given.
        let error = unsafe { libc::pthread_attr_setaffinity_np(&raw mut self.0, size_of_val(&set), &raw const set) };
        assert_eq!(error, 0, "the CPU can't be chosen");
    }

    /// Has a thread live, and waits for its end.
    fn live(&self, life: &mut Life) {
        extern "C" fn start(life: *mut c_void) -> *mut c_void {
            // SAFETY: it is the creator's, which waits.
            let life = unsafe { &mut *life.cast::<Life>() };
            let blank = Life { seed: 0, more: Duration::ZERO, cpu: -1, left: Vec::new() };
            *life = mem::replace(life, blank).live();
            null_mut()
        }
        let mut thread = 0;
        // SAFETY: the thread ends before `life` does, since we join it.
        unsafe {
            let error = libc::pthread_create(&raw mut thread, &raw const self.0, start, (&raw mut *life).cast());
            assert_eq!(error, 0, "no thread can be made");
            assert_eq!(libc::pthread_join(thread, null_mut()), 0, "the thread ends");
        }
    }
}

/// The CPUs that this process may use, the last one first: the first serves more interrupts on most machines.
fn allowed_cpus() -> Vec<usize> {
    let mut set = only(0);
    // SAFETY: the call writes the set, whose size it is given.
    let error = unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) };
    assert_eq!(error, 0, "the CPUs can't be read");
    // SAFETY: each CPU asked for is below the set's size.
    (0..libc::CPU_SETSIZE as usize).rev().filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).collect()
}

fn pin(cpu: usize) {
    let set = only(cpu);
    // SAFETY: the call reads the set, whose size it is given.
    let error = unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) };
    assert_eq!(error, 0, "the CPU can't be chosen");
}

fn only(cpu: usize) -> libc::cpu_set_t {
    // SAFETY: zeroes are the empty set, and the CPU is below its size.
    unsafe {
        let mut set = mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        set
    }
}

fn cpu() -> i32 {
    // SAFETY: it only looks.
    unsafe { libc::sched_getcpu() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_made_either_way_give_the_same_answer() {
        let attributes = place("anywhere").expect("it needs nothing");
        let mut sums = [false, true].map(|by_std| {
            let attributes = Attributes(attributes.0);
            let mut run = Run { by_std, attributes, more: Duration::ZERO, sum: 0, beside: 0 };
            run.threads(3);
            run.sum
        });
        sums.sort_unstable();
        assert_eq!(sums[0], sums[1]);
        assert_ne!(sums[0], 0);
    }
}
