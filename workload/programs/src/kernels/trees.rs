//! Threads that each keep some trees, drop one at random and build another. Nodes have mixed sizes, and a tree goes
//! from its leaves upwards.

use fastrand::Rng;

use crate::frame::{Block, Scale, in_threads, mix, mixed_size};

const THREADS: u64 = 3;
const TREES: usize = 64;
const STEPS: u64 = 16_000;
const MAX_DEPTH: u32 = 8;

struct Node {
    block: Block,
    children: Vec<Node>,
}

/// Runs it: the sum of what each thread found in the trees that it dropped.
pub fn run(scale: Scale) -> u64 {
    in_threads(THREADS, |seed| {
        let mut rng = Rng::with_seed(seed);
        let mut trees: Vec<Node> = (0..TREES).map(|_| build(&mut rng, 1)).collect();
        let mut sum = 0;
        for _ in 0..scale.of(STEPS) {
            let depth = rng.u32(1..=MAX_DEPTH);
            let slot = &mut trees[rng.usize(0..TREES)];
            sum = slot.walk(sum);
            *slot = build(&mut rng, depth);
        }
        sum
    })
}

fn build(rng: &mut Rng, depth: u32) -> Node {
    let block = Block::new(mixed_size(rng, 16, 512), rng.u64(..));
    let children = if depth == 0 { 0 } else { rng.usize(1..=3) };
    Node { block, children: (0..children).map(|_| build(rng, depth - 1)).collect() }
}

impl Node {
    fn walk(&self, sum: u64) -> u64 {
        self.children.iter().fold(mix(sum, self.block.tag()), |sum, child| child.walk(sum))
    }
}
