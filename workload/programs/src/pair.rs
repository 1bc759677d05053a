//! A probe: one malloc and one free of 64 bytes, in nanoseconds. `depth` blocks are allocated, then freed in the same
//! order.
//!
//! The first argument is the setting: `solo`, one thread in a process that never had another; `parked`, one thread
//! while a second sleeps; `both`, two threads at once, of which the mean is taken. The second is the number of rounds,
//! the third the depth, if one alone is wanted. A line for each depth has the depth, the best round and the median round.

use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

const SIZE: usize = 64;
const DEPTHS: [usize; 3] = [1, 64, MAX_DEPTH];
const MAX_DEPTH: usize = 1000;
const PAIRS: usize = 2_000_000;
const ROUNDS: usize = 9;

/// What the arguments should have been.
const EXPECTED: &str = "solo|parked|both [ROUNDS [DEPTH]], at least one round and a depth from 1 to 1000";

/// Measures what the arguments say, or says what is wrong with them.
pub fn run(arguments: &[String]) -> Result<(), String> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let number = |word: &str| word.parse().unwrap_or(0);
    let (setting, rounds, depths) = match words[..] {
        [setting] => (setting, ROUNDS, DEPTHS.to_vec()),
        [setting, rounds] => (setting, number(rounds), DEPTHS.to_vec()),
        [setting, rounds, depth] => (setting, number(rounds), vec![number(depth)]),
        _ => ("", 0, Vec::new()),
    };
    if rounds == 0 || depths.iter().any(|depth| !(1..=MAX_DEPTH).contains(depth)) {
        return Err(format!("the arguments are {words:?}; expected {EXPECTED}"));
    }
    match setting {
        "solo" => report(&depths, rounds, round),
        "parked" => {
            let sleeper = thread::spawn(thread::park);
            report(&depths, rounds, round);
            sleeper.thread().unpark();
            sleeper.join().expect("it only slept");
        }
        "both" => report(&depths, rounds, both),
        _ => return Err(format!("the setting is `{setting}`; expected {EXPECTED}")),
    }
    Ok(())
}

fn report(depths: &[usize], rounds: usize, mut measure: impl FnMut(usize) -> f64) {
    for &depth in depths {
        let mut times: Vec<f64> = (0..rounds).map(|_| measure(depth)).collect();
        times.sort_by(f64::total_cmp);
        println!("{depth} {:.3} {:.3}", times[0], times[rounds / 2]);
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
    // SAFETY: malloc may be called with any size. `black_box` keeps the optimizer from removing the pair, which it may.
    black_box(unsafe { libc::malloc(black_box(SIZE)) })
}

#[inline(always)]
fn free(block: *mut libc::c_void) {
    // SAFETY: `pairs` frees each block once.
    unsafe { libc::free(block) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_arguments_are_named() {
        for (arguments, found) in [
            (&["alone"][..], "alone"),
            (&["solo", "0"], "0"),
            (&["solo", "9", "x"], "x"),
            (&["solo", "9", "1001"], "1001"),
            (&[], "[]"),
        ] {
            let arguments: Vec<String> = arguments.iter().map(|word| (*word).to_owned()).collect();
            let why = run(&arguments).expect_err("they are wrong");
            assert!(why.contains(found) && why.contains(EXPECTED), "{why}");
        }
    }
}
