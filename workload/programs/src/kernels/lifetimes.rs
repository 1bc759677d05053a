//! Blocks whose lifetimes are nested, queued or random, in one thread.

use std::collections::VecDeque;

use fastrand::Rng;

use crate::frame::{Block, Scale, mix, mixed_size};

const LIFO_LEGS: u64 = 40_000;
const MAX_DEPTH: usize = 2048;
const FIFO_STEPS: u64 = 15_000_000;
const QUEUE: usize = 4096;
const RANDOM_STEPS: u64 = 5_000_000;
const TABLE: usize = 1 << 17;

/// A stack that grows and shrinks at random, as nested scopes and obstacks do: the tags in the order of the frees.
pub fn lifo(scale: Scale) -> u64 {
    let mut rng = Rng::with_seed(1);
    let mut stack = Vec::with_capacity(MAX_DEPTH);
    let mut sum = 0;
    for _ in 0..scale.of(LIFO_LEGS) {
        let depth = rng.usize(0..MAX_DEPTH);
        while stack.len() < depth {
            stack.push(small(&mut rng, stack.len() as u64));
        }
        for block in stack.drain(depth..).rev() {
            sum = mix(sum, block.tag());
        }
    }
    sum
}

/// A queue of a constant length, as in a pipeline: each block is freed when 4096 younger ones are there.
pub fn fifo(scale: Scale) -> u64 {
    let mut rng = Rng::with_seed(2);
    let mut queue = VecDeque::with_capacity(QUEUE);
    let mut sum = 0;
    for step in 0..scale.of(FIFO_STEPS) {
        if queue.len() == QUEUE {
            sum = queue.pop_front().map_or(sum, |oldest: Block| mix(sum, oldest.tag()));
        }
        queue.push_back(small(&mut rng, step));
    }
    queue.iter().fold(sum, |sum, block| mix(sum, block.tag()))
}

/// A big table in which random blocks are replaced, as in caches: a free meets lines that left the CPU's cache.
pub fn random(scale: Scale) -> u64 {
    let mut rng = Rng::with_seed(3);
    let mut table: Vec<Block> = (0..TABLE).map(|tag| small(&mut rng, tag as u64)).collect();
    let mut sum = 0;
    for step in 0..scale.of(RANDOM_STEPS) {
        let slot = &mut table[rng.usize(0..TABLE)];
        sum = mix(sum, slot.tag());
        *slot = small(&mut rng, step);
    }
    sum
}

fn small(rng: &mut Rng, tag: u64) -> Block {
    Block::new(mixed_size(rng, 16, 1024), tag)
}
