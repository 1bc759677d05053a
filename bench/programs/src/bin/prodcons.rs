//! Half of the threads allocate, the other half free, with a bounded queue of batches between them,
//! after xmalloc-test: no block is freed by the thread that allocated it. The argument is the
//! number of threads.

use std::env;
use std::thread;

use crossbeam_channel::{Receiver, Sender, bounded};
use programs::{Block, Rng, answer, mixed_size};

const BLOCKS: u64 = 13_000_000;
const BATCH: u64 = 128;
const BATCHES_UNDER_WAY: usize = 16;

fn main() {
    let threads: u64 = env::args().nth(1).and_then(|n| n.parse().ok()).expect("usage: prodcons THREADS");
    let pairs = threads / 2;
    let (sender, receiver) = bounded(BATCHES_UNDER_WAY);
    let sum = thread::scope(|scope| {
        for seed in 0..pairs {
            let sender = sender.clone();
            scope.spawn(move || produce(sender, seed, BLOCKS / BATCH / pairs));
        }
        // Or the consumers would wait for us.
        drop(sender);
        let consumers: Vec<_> =
            (0..pairs).map(|_| receiver.clone()).map(|queue| scope.spawn(move || consume(queue))).collect();
        consumers.into_iter().map(|thread| thread.join().expect("a consumer ends")).fold(0, u64::wrapping_add)
    });
    answer(sum);
}

fn produce(queue: Sender<Vec<Block>>, seed: u64, batches: u64) {
    let mut rng = Rng::with_seed(seed);
    for _ in 0..batches {
        let batch = (0..BATCH).map(|tag| Block::new(mixed_size(&mut rng, 16, 512), tag)).collect();
        queue.send(batch).expect("the consumers wait for us");
    }
}

/// The sum of the tags, which doesn't depend on who consumes what.
fn consume(queue: Receiver<Vec<Block>>) -> u64 {
    queue.iter().flatten().map(|block| block.tag()).fold(0, u64::wrapping_add)
}
