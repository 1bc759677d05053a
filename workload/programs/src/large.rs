//! Blocks of 32 KiB to 4 MiB with random lifetimes, every page written; one step in eight grows a buffer with realloc
//! from the one size to the other, as a reader of a file of unknown length does.
//!
//! It stands for programs that handle images, columns and files in whole buffers. Under glibc, it spends hardly any
//! time in malloc, but two thirds in the kernel, which maps, clears and unmaps what malloc asks for, and most of the
//! rest with realloc's copies.

use fastrand::Rng;

use crate::block::{Block, mixed_size};
use crate::checksum::mix;
use crate::scale::Scale;

const MIN: usize = 32 << 10;
const MAX: usize = 4 << 20;
const BLOCKS: usize = 48;
const STEPS: u64 = 10_000;

/// Runs it: the tags of the blocks that were replaced.
pub fn run(scale: Scale) -> u64 {
    let mut rng = Rng::with_seed(5);
    let mut table: Vec<Block> = (0..BLOCKS).map(|tag| touched(&mut rng, tag as u64)).collect();
    let mut sum = 0;
    for step in 0..scale.of(STEPS) {
        let slot = &mut table[rng.usize(0..BLOCKS)];
        sum = mix(sum, slot.tag());
        *slot = if step % 8 == 0 { grown(&mut rng, step) } else { touched(&mut rng, step) };
    }
    sum
}

fn touched(rng: &mut Rng, tag: u64) -> Block {
    let mut block = Block::new(mixed_size(rng, MIN, MAX), tag);
    block.touch();
    block
}

/// A buffer that grew by half at a time until it had a random size.
fn grown(rng: &mut Rng, tag: u64) -> Block {
    let target = mixed_size(rng, MIN, MAX);
    let mut size = MIN;
    let mut block = Block::new(size, tag);
    while size < target {
        size += size / 2;
        block = block.resized(size);
        block.touch();
    }
    block
}
