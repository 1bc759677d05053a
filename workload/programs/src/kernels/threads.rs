//! Threads that come and go, and threads that had memory and sleep: what an allocator sets up for a thread, and keeps
//! for it.

use std::collections::VecDeque;
use std::sync::Barrier;
use std::sync::mpsc::channel;
use std::thread::{self, JoinHandle};

use fastrand::Rng;

use crate::frame::{Block, Scale, mix, mixed_size};

const THREADS: u64 = 5_000;
const ALIVE: usize = 3;
const BLOCKS: u64 = 768;
/// One block in eight outlives its thread.
const LEFT: usize = 8;

/// As in a server with a thread for each connection: each allocates, frees most of it, and leaves some for the main
/// thread to free. A few are alive at a time. The tags of the blocks that were left, thread by thread.
pub fn in_turn(scale: Scale) -> u64 {
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
pub fn live(seed: u64, blocks: u64) -> Vec<Block> {
    let mut rng = Rng::with_seed(seed);
    let blocks: Vec<Block> = (0..blocks).map(|tag| Block::new(mixed_size(&mut rng, 16, 4096), tag)).collect();
    blocks.into_iter().step_by(LEFT).collect()
}

/// Mixes the tags of blocks that a thread left, and frees the blocks.
pub fn inherit(sum: u64, left: Vec<Block>) -> u64 {
    left.iter().fold(sum, |sum, block| mix(sum, block.tag()))
}

const IDLE: u64 = 64;
const PASSES: u64 = 30;
const BYTES_EACH: usize = 2 << 20;

/// As in a pool with more threads than work: one after the other has two megabytes, some times over, frees them, and
/// sleeps until the last one has. Peak memory tells what is kept for sleepers.
pub fn idle(scale: Scale) -> u64 {
    let last = Barrier::new(IDLE as usize + 1);
    let passes = scale.of(PASSES);
    thread::scope(|scope| {
        let (mut sum, last) = (0, &last);
        for seed in 0..IDLE {
            let (tell, told) = channel();
            scope.spawn(move || {
                tell.send((0..passes).fold(seed, filled)).expect("the main thread waits");
                last.wait();
            });
            sum = mix(sum, told.recv().expect("the thread tells"));
        }
        last.wait();
        sum
    })
}

/// Allocates so many bytes in small blocks, and frees them.
fn filled(sum: u64, pass: u64) -> u64 {
    let mut rng = Rng::with_seed(pass);
    let (mut bytes, mut blocks) = (0, Vec::new());
    while bytes < BYTES_EACH {
        let size = mixed_size(&mut rng, 16, 4096);
        blocks.push(Block::new(size, size as u64));
        bytes += size;
    }
    inherit(sum, blocks)
}
