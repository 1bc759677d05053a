//! A stack of blocks that grows and shrinks at random: the pattern of nested scopes, and the
//! easiest for an allocator.

use programs::{Block, Rng, answer, mix, mixed_size};

const LEGS: usize = 130_000;
const MAX_DEPTH: usize = 2048;

fn main() {
    let mut rng = Rng::with_seed(1);
    let mut stack = Vec::with_capacity(MAX_DEPTH);
    let mut sum = 0;
    for _ in 0..LEGS {
        let depth = rng.usize(0..MAX_DEPTH);
        while stack.len() < depth {
            stack.push(Block::new(mixed_size(&mut rng, 16, 1024), stack.len() as u64));
        }
        for block in stack.drain(depth..).rev() {
            sum = mix(sum, block.tag());
        }
    }
    answer(sum);
}
