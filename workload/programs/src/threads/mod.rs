//! Threads that come and go, as in a server that has one for each connection: what an allocator sets up for a thread,
//! it must give back when the thread has gone.
//!
//! Each allocates blocks, frees most of them and leaves some for the main thread to free. A few are alive at a time.
//! glibc's malloc and free take nine tenths of the instructions outside the kernel, which takes a third of the time.
//! `placed` is the probe that measures the memory which such threads leave behind.

mod placed;

use std::collections::VecDeque;
use std::thread::{self, JoinHandle};

use fastrand::Rng;

use crate::block::{Block, mixed_size};
use crate::checksum::mix;
use crate::scale::Scale;

pub use placed::run as run_placed;

const THREADS: u64 = 5_000;
const ALIVE: usize = 3;
const BLOCKS: u64 = 768;
/// One block in eight outlives its thread.
const LEFT: usize = 8;

/// Runs it: the tags of the blocks that were left, thread by thread.
pub fn run(scale: Scale) -> u64 {
    let mut alive: VecDeque<JoinHandle<Vec<Block>>> = VecDeque::with_capacity(ALIVE);
    let mut sum = 0;
    for seed in 0..scale.of(THREADS) {
        if alive.len() == ALIVE {
            sum = bury(sum, alive.pop_front());
        }
        alive.push_back(thread::spawn(move || live(seed, BLOCKS)));
    }
    while !alive.is_empty() {
        sum = bury(sum, alive.pop_front());
    }
    sum
}

/// Waits for a thread's end and frees what it left.
fn bury(sum: u64, thread: Option<JoinHandle<Vec<Block>>>) -> u64 {
    let left = thread.map(|thread| thread.join().expect("the thread ends")).unwrap_or_default();
    inherit(sum, left)
}

/// What a thread does, and the blocks that it leaves.
fn live(seed: u64, blocks: u64) -> Vec<Block> {
    let mut rng = Rng::with_seed(seed);
    let blocks: Vec<Block> = (0..blocks).map(|tag| Block::new(mixed_size(&mut rng, 16, 4096), tag)).collect();
    blocks.into_iter().step_by(LEFT).collect()
}

/// Mixes the tags of blocks that a thread left, and frees the blocks.
fn inherit(sum: u64, left: Vec<Block>) -> u64 {
    left.iter().fold(sum, |sum, block| mix(sum, block.tag()))
}
