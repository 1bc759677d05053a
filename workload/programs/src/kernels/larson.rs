//! A server whose threads hand their blocks over to their successors, after Larson and Krishnan, "Memory allocation for
//! long-running server applications" (1998).
//!
//! Two threads run at a time; each replaces random blocks of its inheritance, most of which a thread allocated that is
//! gone.

use std::thread;

use fastrand::Rng;

use crate::frame::{Block, Scale, in_threads, mix};

const LANES: u64 = 2;
const GENERATIONS: u64 = 250;
const BLOCKS: usize = 2000;
const STEPS: u64 = 60_000;
const SIZES: std::ops::Range<usize> = 16..1000;

/// Runs it: the sum of what the threads made of their tags. Each lane waits for its generations, one after the other.
pub fn run(scale: Scale) -> u64 {
    in_threads(LANES, |lane| {
        let mut rng = Rng::with_seed(lane);
        let mut blocks: Vec<Block> = (0..BLOCKS).map(|tag| Block::new(rng.usize(SIZES), tag as u64)).collect();
        let mut sum: u64 = 0;
        for generation in 0..scale.of(GENERATIONS) {
            let rng = Rng::with_seed(generation * LANES + lane);
            let (mixed, left) = thread::spawn(move || serve(blocks, rng)).join().expect("a generation ends");
            sum = sum.wrapping_add(mixed);
            blocks = left;
        }
        sum
    })
}

/// One thread's life: what it made of the tags, and the blocks that it leaves.
fn serve(mut blocks: Vec<Block>, mut rng: Rng) -> (u64, Vec<Block>) {
    let mut sum = 0;
    for step in 0..STEPS {
        let slot = &mut blocks[rng.usize(0..BLOCKS)];
        sum = mix(sum, slot.tag());
        *slot = Block::new(rng.usize(SIZES), step);
    }
    (sum, blocks)
}
