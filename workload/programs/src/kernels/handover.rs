//! Half of the threads allocate, the other half free, with a bounded queue of batches between them, after xmalloc-test:
//! no block is freed by the thread that allocated it.
//!
//! `producer-consumer` has a thread of each kind. `producers-consumers` has four of each, more than most machines have
//! CPUs to spare, so that threads are preempted with work half done.

use std::sync::Mutex;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use fastrand::Rng;

use crate::frame::{Block, Scale, in_threads, mixed_size};

/// Fewer for the pair, whose two threads wait for each other's caches and locks all the time.
const BATCHES_OF_PAIR: u64 = 50_000;
const BATCHES_OF_SEVERAL: u64 = 80_000;
const BATCH: u64 = 128;
const BATCHES_UNDER_WAY: usize = 16;

/// Runs it with one producer and one consumer.
pub fn pair(scale: Scale) -> u64 {
    run(1, scale.of(BATCHES_OF_PAIR))
}

/// Runs it with four of each.
pub fn several(scale: Scale) -> u64 {
    run(4, scale.of(BATCHES_OF_SEVERAL / 4))
}

/// The sum of all tags, which does not depend on who consumes what.
fn run(pairs: u64, batches_each: u64) -> u64 {
    let (sender, receiver) = sync_channel(BATCHES_UNDER_WAY);
    let receiver = Mutex::new(receiver);
    thread::scope(|scope| {
        for seed in 0..pairs {
            let sender = sender.clone();
            scope.spawn(move || produce(sender, seed, batches_each));
        }
        // Or the consumers would wait for us.
        drop(sender);
        in_threads(pairs, |_| {
            // The lock is held while a batch is taken, not while it is freed.
            let next = || receiver.lock().expect("no consumer panicked").recv().ok();
            std::iter::from_fn(next).flatten().map(|block: Block| block.tag()).fold(0, u64::wrapping_add)
        })
    })
}

fn produce(queue: SyncSender<Vec<Block>>, seed: u64, batches: u64) {
    let mut rng = Rng::with_seed(seed);
    for _ in 0..batches {
        let batch = (0..BATCH).map(|_| Block::new(mixed_size(&mut rng, 16, 512), rng.u64(..))).collect();
        queue.send(batch).expect("the consumers wait for us");
    }
}
