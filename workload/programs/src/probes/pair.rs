//! A probe: one malloc and one free of 64 bytes, or of so many, in nanoseconds. `depth` blocks are allocated, then freed in the same
//! order.
//!
//! The first argument is the setting: `solo`, one thread in a process that never had another; `both`, two threads at
//! once, of which the mean is taken. The second is the number of rounds, the third the depth, if one alone is wanted,
//! the fourth the bytes. A line for each depth has the depth, the best round and the median round.

use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

const SIZE: usize = 64;
const DEPTHS: [usize; 3] = [1, 64, MAX_DEPTH];
const MAX_DEPTH: usize = 1000;
const ROUNDS: usize = 9;
/// What a round of one thread takes, about, and pairs of a round at most.
const ROUND: Duration = Duration::from_millis(20);
const MOST_PAIRS: usize = 2_000_000;
/// Pairs by which it is found out how many fit into a round. The first of them fill caches.
const TRIED: usize = 5000;

/// What follows the name.
pub const ARGUMENTS: &str = "solo|both [ROUNDS [DEPTH [BYTES]]]";

/// Measures what the arguments say, or says what is wrong with them.
pub fn run(arguments: &[String]) -> Result<(), String> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let number = |word: &str| word.parse().unwrap_or(0);
    let (setting, rounds, depths, bytes) = match words[..] {
        [setting] => (setting, ROUNDS, DEPTHS.to_vec(), SIZE),
        [setting, rounds] => (setting, number(rounds), DEPTHS.to_vec(), SIZE),
        [setting, rounds, depth] => (setting, number(rounds), vec![number(depth)], SIZE),
        [setting, rounds, depth, bytes] => (setting, number(rounds), vec![number(depth)], number(bytes)),
        _ => ("", 0, Vec::new(), 0),
    };
    if rounds == 0 || bytes == 0 || depths.iter().any(|depth| !(1..=MAX_DEPTH).contains(depth)) {
        return Err(format!(
            "the arguments are {words:?}; expected {ARGUMENTS}, at least one round and a depth from 1 to 1000"
        ));
    }
    match setting {
        "solo" => report(&depths, rounds, bytes, round),
        "both" => report(&depths, rounds, bytes, both),
        _ => return Err(format!("the setting is `{setting}`; expected {ARGUMENTS}")),
    }
    Ok(())
}

/// Measures rounds of so many pairs as fit: some allocators take a thousand times as long for large blocks as others.
fn report(depths: &[usize], rounds: usize, bytes: usize, measure: fn(usize, usize, usize) -> f64) {
    for &depth in depths {
        round(depth, bytes, TRIED);
        let fitting = ROUND.as_secs_f64() * 1e9 / round(depth, bytes, TRIED);
        let number = (fitting as usize).clamp(TRIED, MOST_PAIRS);
        let mut times: Vec<f64> = (0..rounds).map(|_| measure(depth, bytes, number)).collect();
        times.sort_by(f64::total_cmp);
        println!("{depth} {:.3} {:.3}", times[0], times[rounds / 2]);
    }
}

/// Nanoseconds a pair, the mean of two threads that start together.
fn both(depth: usize, bytes: usize, number: usize) -> f64 {
    let start = Barrier::new(2);
    let work = || {
        // Its own caches fill before it is timed.
        pairs(depth, bytes, number / 20);
        start.wait();
        round(depth, bytes, number)
    };
    thread::scope(|scope| {
        let other = scope.spawn(work);
        (work() + other.join().expect("it ends")) / 2.0
    })
}

/// Nanoseconds a pair in one thread.
fn round(depth: usize, bytes: usize, number: usize) -> f64 {
    let start = Instant::now();
    pairs(depth, bytes, number);
    start.elapsed().as_secs_f64() * 1e9 / number as f64
}

/// At depth 1 the block stays in a register, as it does in a program that needs one for a moment.
#[inline(never)]
fn pairs(depth: usize, bytes: usize, pairs: usize) {
    if depth == 1 {
        for _ in 0..pairs {
            free(malloc(bytes));
        }
        return;
    }
    let mut blocks = [std::ptr::null_mut(); MAX_DEPTH];
    for _ in 0..pairs / depth {
        for block in &mut blocks[..depth] {
            *block = malloc(bytes);
        }
        for block in &blocks[..depth] {
            free(*block);
        }
    }
}

#[inline(always)]
fn malloc(bytes: usize) -> *mut libc::c_void {
    // SAFETY: malloc may be called with any size. `black_box` keeps the optimizer from removing the pair, which it may.
    black_box(unsafe { libc::malloc(black_box(bytes)) })
}

#[inline(always)]
fn free(block: *mut libc::c_void) {
    // SAFETY: `pairs` frees each block once.
    unsafe { libc::free(block) }
}
