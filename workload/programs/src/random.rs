//! A big table in which random blocks are replaced: lifetimes are random, and free meets lines that left the cache.
//!
//! It stands for caches and object tables of long-running programs. glibc's malloc and free take a quarter of its time;
//! most of the rest is waiting for the memory that they hand out.

use fastrand::Rng;

use crate::block::{Block, mixed_size};
use crate::checksum::mix;
use crate::scale::Scale;

const BLOCKS: usize = 1 << 17;
const STEPS: u64 = 5_000_000;

/// Runs it: the tags of the blocks that were replaced.
pub fn run(scale: Scale) -> u64 {
    let mut rng = Rng::with_seed(2);
    let mut table: Vec<Block> = (0..BLOCKS).map(|tag| Block::new(mixed_size(&mut rng, 16, 1024), tag as u64)).collect();
    let mut sum = 0;
    for step in 0..scale.of(STEPS) {
        let slot = &mut table[rng.usize(0..BLOCKS)];
        sum = mix(sum, slot.tag());
        *slot = Block::new(mixed_size(&mut rng, 16, 1024), step);
    }
    sum
}
