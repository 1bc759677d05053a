//! Threads that build linked structures, keep some over generations of threads, and swap some with each other through a
//! common table, after mimalloc's mstress. Blocks of a dead generation are freed by later ones.
//!
//! glibc's malloc and free take more than half of its time.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use fastrand::Rng;

use crate::block::{Block, mixed_size};
use crate::scale::Scale;

const THREADS: u64 = 2;
const GENERATIONS: u64 = 24;
const STEPS: usize = 40_000;
const TRANSFERS: usize = 1000;

/// A chain of nodes, each with a block of its own.
struct Chain {
    block: Block,
    next: Option<Box<Chain>>,
}

/// Where threads leave chains for each other. Which thread finds which chain is up to the scheduler; the sum of all
/// tags that are ever freed is not.
type Transfers = Vec<Mutex<Option<Chain>>>;

/// Runs it: the sum of all tags.
pub fn run(scale: Scale) -> u64 {
    let transfers: Transfers = (0..TRANSFERS).map(|_| Mutex::new(None)).collect();
    let total = AtomicU64::new(0);
    let mut kept: Vec<Vec<Chain>> = (0..THREADS).map(|_| Vec::new()).collect();
    for generation in 0..scale.of(GENERATIONS) {
        kept = thread::scope(|scope| {
            let workers: Vec<_> = kept
                .drain(..)
                .enumerate()
                .map(|(lane, kept)| {
                    let seed = generation * THREADS + lane as u64;
                    let (transfers, total) = (&transfers, &total);
                    scope.spawn(move || live(seed, kept, transfers, total))
                })
                .collect();
            workers.into_iter().map(|worker| worker.join().expect("a worker ends")).collect()
        });
    }
    let left = transfers.into_iter().filter_map(|slot| slot.into_inner().expect("no worker panicked"));
    kept.into_iter().flatten().chain(left).map(drain).fold(total.into_inner(), u64::wrapping_add)
}

/// One thread's life: it builds chains, drops two in three of them at random, and gives back what it kept.
fn live(seed: u64, mut kept: Vec<Chain>, transfers: &Transfers, total: &AtomicU64) -> Vec<Chain> {
    let mut rng = Rng::with_seed(seed);
    let mut sum: u64 = 0;
    for _ in 0..STEPS {
        kept.push(build(&mut rng));
        if rng.u8(0..3) != 0 {
            sum = sum.wrapping_add(drain(kept.swap_remove(rng.usize(0..kept.len()))));
        }
        if rng.u8(0..4) == 0 && !kept.is_empty() {
            let given = kept.swap_remove(rng.usize(0..kept.len()));
            let slot = &transfers[rng.usize(0..TRANSFERS)];
            let found = slot.lock().expect("no worker panicked").replace(given);
            sum = sum.wrapping_add(found.map_or(0, drain));
        }
    }
    // Most of a generation dies with it.
    for chain in kept.drain(kept.len() / 4..) {
        sum = sum.wrapping_add(drain(chain));
    }
    // Relaxed is enough: the scope joins every thread before it is read.
    total.fetch_add(sum, Ordering::Relaxed);
    kept
}

/// A chain of 1 to 8 nodes; every hundredth block is much larger than the rest.
fn build(rng: &mut Rng) -> Chain {
    let mut chain = node(rng, None);
    for _ in 0..rng.u8(0..8) {
        chain = node(rng, Some(Box::new(chain)));
    }
    chain
}

fn node(rng: &mut Rng, next: Option<Box<Chain>>) -> Chain {
    let max = if rng.u8(0..100) == 0 { 16 << 10 } else { 256 };
    let size = mixed_size(rng, 16, max);
    Chain { block: Block::new(size, rng.u64(..)), next }
}

/// Frees a chain from its head to its end, and returns the sum of its tags.
fn drain(mut chain: Chain) -> u64 {
    let mut sum = chain.block.tag();
    while let Some(next) = chain.next.take() {
        chain = *next;
        sum = sum.wrapping_add(chain.block.tag());
    }
    sum
}
