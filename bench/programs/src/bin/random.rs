//! A big table in which random blocks are replaced: lifetimes are random, and free meets lines that
//! left the cache.

use programs::{Block, Rng, answer, mix, mixed_size};

const BLOCKS: usize = 1 << 16;
const STEPS: u64 = 25_000_000;

fn main() {
    let mut rng = Rng::with_seed(2);
    let mut table: Vec<Block> = (0..BLOCKS).map(|tag| Block::new(mixed_size(&mut rng, 16, 1024), tag as u64)).collect();
    let mut sum = 0;
    for step in 0..STEPS {
        let slot = &mut table[rng.usize(0..BLOCKS)];
        sum = mix(sum, slot.tag());
        *slot = Block::new(mixed_size(&mut rng, 16, 1024), step);
    }
    answer(sum);
}
