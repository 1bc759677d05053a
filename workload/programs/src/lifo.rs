//! A stack of blocks that grows and shrinks at random: the pattern of nested scopes, and the easiest for an allocator.
//!
//! It stands for call trees and obstacks, which free in the reverse order. glibc's malloc and free take four fifths of
//! its time.

use fastrand::Rng;

use crate::block::{Block, mixed_size};
use crate::checksum::mix;
use crate::scale::Scale;

const LEGS: u64 = 40_000;
const MAX_DEPTH: usize = 2048;

/// Runs it: the tags in the order in which blocks are freed.
pub fn run(scale: Scale) -> u64 {
    let mut rng = Rng::with_seed(1);
    let mut stack = Vec::with_capacity(MAX_DEPTH);
    let mut sum = 0;
    for _ in 0..scale.of(LEGS) {
        let depth = rng.usize(0..MAX_DEPTH);
        while stack.len() < depth {
            stack.push(Block::new(mixed_size(&mut rng, 16, 1024), stack.len() as u64));
        }
        for block in stack.drain(depth..).rev() {
            sum = mix(sum, block.tag());
        }
    }
    sum
}
