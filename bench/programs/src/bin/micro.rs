//! One malloc and one free of 64 bytes, in nanoseconds: `depth` blocks are allocated, then freed in
//! the same order.
//!
//! The argument is the setting: `solo`, one thread in a process that never had another; `parked`,
//! one thread while a second sleeps; `both`, two threads at once, of which the mean is taken. A
//! line for each depth has the depth, the best round and the median round.

use std::env;
use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

const SIZE: usize = 64;
const DEPTHS: [usize; 3] = [1, 64, 1000];
const PAIRS: usize = 2_000_000;
const ROUNDS: usize = 9;
const MAX_DEPTH: usize = 1000;

fn main() {
    match env::args().nth(1).as_deref() {
        Some("solo") => report(round),
        Some("parked") => {
            let sleeper = thread::spawn(thread::park);
            report(round);
            sleeper.thread().unpark();
            sleeper.join().expect("it only slept");
        }
        Some("both") => report(both),
        _ => panic!("usage: micro solo|parked|both"),
    }
}

fn report(mut measure: impl FnMut(usize) -> f64) {
    for depth in DEPTHS {
        let mut rounds: Vec<f64> = (0..ROUNDS).map(|_| measure(depth)).collect();
        rounds.sort_by(f64::total_cmp);
        println!("{depth} {:.3} {:.3}", rounds[0], rounds[ROUNDS / 2]);
    }
}

/// Nanoseconds a pair, the mean of two threads that start together.
fn both(depth: usize) -> f64 {
    let start = Barrier::new(2);
    let work = || {
        // Its own caches fill before it is timed.
        pairs(depth, PAIRS / 20);
        start.wait();
        round(depth)
    };
    thread::scope(|scope| {
        let other = scope.spawn(work);
        (work() + other.join().expect("it ends")) / 2.0
    })
}

/// Nanoseconds a pair in one thread.
fn round(depth: usize) -> f64 {
    let start = Instant::now();
    pairs(depth, PAIRS);
    start.elapsed().as_secs_f64() * 1e9 / PAIRS as f64
}

/// At depth 1 the block stays in a register, as it does in a program that needs one for a moment.
#[inline(never)]
fn pairs(depth: usize, pairs: usize) {
    if depth == 1 {
        for _ in 0..pairs {
            free(malloc());
        }
        return;
    }
    let mut blocks = [std::ptr::null_mut(); MAX_DEPTH];
    for _ in 0..pairs / depth {
        for block in &mut blocks[..depth] {
            *block = malloc();
        }
        for block in &blocks[..depth] {
            free(*block);
        }
    }
}

#[inline(always)]
fn malloc() -> *mut libc::c_void {
    // SAFETY: malloc may be called with any size. `black_box` keeps the optimizer from removing the
    // pair, which it may.
    black_box(unsafe { libc::malloc(black_box(SIZE)) })
}

#[inline(always)]
fn free(block: *mut libc::c_void) {
    // SAFETY: `pairs` frees each block once.
    unsafe { libc::free(block) }
}
