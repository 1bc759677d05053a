//! A server whose threads hand their blocks over to their successors, after Larson and Krishnan, "Memory allocation for
//! long-running server applications" (1998).
//!
//! Two threads run at a time; each replaces random blocks of its inheritance, most of which a thread allocated that is
//! gone. glibc's malloc and free take more than half of its time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, Scope};

use fastrand::Rng;

use crate::block::Block;
use crate::checksum::mix;
use crate::scale::Scale;

const THREADS: u64 = 2;
const GENERATIONS: u64 = 350;
const BLOCKS: usize = 2000;
const STEPS: u64 = 60_000;
const SIZES: std::ops::Range<usize> = 16..1000;

/// Runs it: the sum of what the threads made of their tags.
pub fn run(scale: Scale) -> u64 {
    let total = AtomicU64::new(0);
    let mut rng = Rng::with_seed(3);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            // The first blocks are all the main thread's.
            let blocks = (0..BLOCKS).map(|tag| Block::new(rng.usize(SIZES), tag as u64)).collect();
            let rng = rng.fork();
            let total = &total;
            scope.spawn(move || serve(scope, total, blocks, rng, scale.of(GENERATIONS)));
        }
    });
    total.into_inner()
}

/// One thread's life. The scope ends when the last generation has.
fn serve<'scope>(
    scope: &'scope Scope<'scope, '_>,
    total: &'scope AtomicU64,
    mut blocks: Vec<Block>,
    mut rng: Rng,
    generations_left: u64,
) {
    let mut sum = 0;
    for step in 0..STEPS {
        let slot = &mut blocks[rng.usize(0..BLOCKS)];
        sum = mix(sum, slot.tag());
        *slot = Block::new(rng.usize(SIZES), step);
    }
    // A sum that any order of threads gives alike. Relaxed is enough: the scope joins every thread before it is read.
    total.fetch_add(sum, Ordering::Relaxed);
    if generations_left > 1 {
        scope.spawn(move || serve(scope, total, blocks, rng, generations_left - 1));
    }
}
