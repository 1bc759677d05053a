//! One thread: blocks whose lifetimes are nested or random, and buffers of tens of kilobytes and more, every
//! page of which is written, as images, columns and files have them.

use fastrand::Rng;

use crate::frame::{Block, Scale, mix, mixed_size};

const LIFO_LEGS: u64 = 40_000;
const MAX_DEPTH: usize = 2048;
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

/// Runs of pages that an allocator may keep for the next one.
pub fn middle(scale: Scale) -> u64 {
    replaced(scale.of(100_000), 64, 32 << 10, 1 << 20)
}

/// Buffers that allocators get from the kernel and give back to it.
pub fn large(scale: Scale) -> u64 {
    replaced(scale.of(1500), 12, 1 << 20, 16 << 20)
}

/// Replaces a random one of the buffers in each step: the tags of those that went.
fn replaced(steps: u64, buffers: usize, min: usize, max: usize) -> u64 {
    let mut rng = Rng::with_seed(4);
    let mut table: Vec<Option<Block>> = (0..buffers).map(|_| None).collect();
    let mut sum = 0;
    for step in 0..steps {
        let slot = &mut table[rng.usize(0..buffers)];
        sum = slot.take().map_or(sum, |old| mix(sum, old.tag()));
        let mut new = Block::new(mixed_size(&mut rng, min, max), step);
        new.touch();
        *slot = Some(new);
    }
    table.iter().flatten().fold(sum, |sum, block| mix(sum, block.tag()))
}

const GROWING: usize = 32;
const FIRST: usize = 32;
const LAST: usize = 1 << 20;

/// Buffers that grow by half with realloc, as a reader of a file of unknown length has them, until they start anew.
pub fn growing(scale: Scale) -> u64 {
    let mut rng = Rng::with_seed(5);
    let mut buffers: Vec<Block> = (0..GROWING).map(|tag| Block::new(FIRST, tag as u64)).collect();
    let mut sum = 0;
    for step in 0..scale.of(120_000) {
        let old = buffers.swap_remove(rng.usize(0..GROWING));
        sum = mix(sum, old.tag());
        let size = old.size() + old.size() / 2;
        let mut new = if size <= LAST { old.resized(size) } else { Block::new(FIRST, step) };
        new.touch();
        buffers.push(new);
    }
    sum
}
