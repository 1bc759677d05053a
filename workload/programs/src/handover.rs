//! Half of the threads allocate, the other half free, with a bounded queue of batches between them, after xmalloc-test:
//! no block is freed by the thread that allocated it.
//!
//! `producer-consumer` has a thread of each kind. `crowd` has four of each, more than most machines have CPUs to spare,
//! so that threads are preempted with work half done. glibc's malloc and free take four fifths of the time of both.

use std::thread;

use crossbeam_channel::{Receiver, Sender, bounded};
use fastrand::Rng;

use crate::block::{Block, mixed_size};
use crate::scale::Scale;

/// Fewer for the pair, whose two threads wait for each other's caches and locks all the time.
const BATCHES_OF_PAIR: u64 = 25_000;
const BATCHES_OF_CROWD: u64 = 40_000;
const BATCH: u64 = 128;
const BATCHES_UNDER_WAY: usize = 16;

/// Runs it with one producer and one consumer.
pub fn run_pair(scale: Scale) -> u64 {
    run(scale, 1, BATCHES_OF_PAIR)
}

/// Runs it with four of each.
pub fn run_crowd(scale: Scale) -> u64 {
    run(scale, 4, BATCHES_OF_CROWD)
}

/// The sum of all tags, which does not depend on who consumes what.
fn run(scale: Scale, pairs: u64, batches: u64) -> u64 {
    let (sender, receiver) = bounded(BATCHES_UNDER_WAY);
    thread::scope(|scope| {
        for seed in 0..pairs {
            let sender = sender.clone();
            scope.spawn(move || produce(sender, seed, scale.of(batches / pairs)));
        }
        // Or the consumers would wait for us.
        drop(sender);
        let consumers: Vec<_> =
            (0..pairs).map(|_| receiver.clone()).map(|queue| scope.spawn(move || consume(queue))).collect();
        consumers.into_iter().map(|thread| thread.join().expect("a consumer ends")).fold(0, u64::wrapping_add)
    })
}

fn produce(queue: Sender<Vec<Block>>, seed: u64, batches: u64) {
    let mut rng = Rng::with_seed(seed);
    for _ in 0..batches {
        let batch = (0..BATCH).map(|_| Block::new(mixed_size(&mut rng, 16, 512), rng.u64(..))).collect();
        queue.send(batch).expect("the consumers wait for us");
    }
}

fn consume(queue: Receiver<Vec<Block>>) -> u64 {
    queue.iter().flatten().map(|block| block.tag()).fold(0, u64::wrapping_add)
}
