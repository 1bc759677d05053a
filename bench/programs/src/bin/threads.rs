//! 10,000 threads, created and joined in turn. Each allocates blocks, frees most of them and leaves
//! some for the main thread to free: what an allocator sets up for a thread, it must give back when
//! the thread has gone.
//!
//! Prints the answer, then the resident memory in kB before and after. "Before" is when a thousand
//! threads have come and gone, so that what the C library and the allocator keep for the next
//! thread isn't taken for a leak.

use std::fs;
use std::thread;

use programs::{Block, Rng, mix, mixed_size};

const WARM_UP: u64 = 1000;
const THREADS: u64 = 10_000;
const BLOCKS: u64 = 64;
/// One block in eight outlives its thread.
const LEFT: usize = 8;

fn main() {
    let mut sum = 0;
    for seed in 0..WARM_UP {
        sum = mix(sum, live_and_die(seed));
    }
    let before = resident_kb();
    for seed in 0..THREADS {
        sum = mix(sum, live_and_die(seed));
    }
    let after = resident_kb();
    println!("{sum:016x} {before} {after}");
}

fn live_and_die(seed: u64) -> u64 {
    let left = thread::spawn(move || live(seed)).join().expect("the thread ends");
    left.iter().fold(0, |sum, block| mix(sum, block.tag()))
}

fn live(seed: u64) -> Vec<Block> {
    let mut rng = Rng::with_seed(seed);
    let blocks: Vec<Block> = (0..BLOCKS).map(|tag| Block::new(mixed_size(&mut rng, 16, 4096), tag)).collect();
    blocks.into_iter().step_by(LEFT).collect()
}

/// The kernel's exact count, page by page; the one in /proc/self/status lags behind on some
/// kernels.
fn resident_kb() -> u64 {
    let rollup = fs::read_to_string("/proc/self/smaps_rollup").expect("/proc is mounted");
    let line = rollup.lines().find(|line| line.starts_with("Rss:")).expect("the kernel reports Rss");
    line.split_whitespace().nth(1).and_then(|kb| kb.parse().ok()).expect("Rss is a number of kB")
}
