//! Several threads: they come and go, sleep, free each other's blocks, or hand them over.

use std::collections::VecDeque;
use std::mem;
use std::sync::mpsc::{SyncSender, channel, sync_channel};
use std::sync::{Barrier, Mutex};
use std::thread::{self, JoinHandle};

use fastrand::Rng;

use crate::frame::{Block, Scale, in_threads, mix, mixed_size};

const IN_TURN: u64 = 5_000;
const ALIVE: usize = 3;
const BLOCKS_OF_THREAD: u64 = 768;
/// One block in eight outlives its thread.
const LEFT: usize = 8;

/// As in a server with a thread for each connection: each allocates, frees most of it, and leaves some for the main
/// thread to free. A few are alive at a time. The tags of the blocks that were left, thread by thread.
pub fn in_turn(scale: Scale) -> u64 {
    let mut alive: VecDeque<JoinHandle<Vec<Block>>> = VecDeque::with_capacity(ALIVE);
    let mut sum = 0;
    for seed in 0..scale.of(IN_TURN) {
        if alive.len() == ALIVE {
            sum = bury(sum, alive.pop_front());
        }
        alive.push_back(thread::spawn(move || live(seed, BLOCKS_OF_THREAD)));
    }
    while !alive.is_empty() {
        sum = bury(sum, alive.pop_front());
    }
    sum
}

/// Waits for a thread's end and frees what it left.
fn bury(sum: u64, thread: Option<JoinHandle<Vec<Block>>>) -> u64 {
    let left = thread.map(|thread| thread.join().expect("the thread ends")).unwrap_or_default();
    inherit(sum, left)
}

/// What a thread does, and the blocks that it leaves.
pub fn live(seed: u64, blocks: u64) -> Vec<Block> {
    let mut rng = Rng::with_seed(seed);
    let blocks: Vec<Block> = (0..blocks).map(|tag| Block::new(mixed_size(&mut rng, 16, 4096), tag)).collect();
    blocks.into_iter().step_by(LEFT).collect()
}

/// Mixes the tags of blocks that a thread left, and frees the blocks.
pub fn inherit(sum: u64, left: Vec<Block>) -> u64 {
    left.iter().fold(sum, |sum, block| mix(sum, block.tag()))
}

const IDLE: u64 = 64;
const PASSES: u64 = 30;
const BYTES_EACH: usize = 2 << 20;

/// As in a pool with more threads than work: one after the other has two megabytes, some times over, frees them, and
/// sleeps until the last one has. Peak memory tells what is kept for sleepers.
pub fn idle(scale: Scale) -> u64 {
    let last = Barrier::new(IDLE as usize + 1);
    let passes = scale.of(PASSES);
    thread::scope(|scope| {
        let (mut sum, last) = (0, &last);
        for seed in 0..IDLE {
            let (tell, told) = channel();
            scope.spawn(move || {
                tell.send((0..passes).fold(seed, filled)).expect("the main thread waits");
                last.wait();
            });
            sum = mix(sum, told.recv().expect("the thread tells"));
        }
        last.wait();
        sum
    })
}

/// Allocates so many bytes in small blocks, and frees them.
fn filled(sum: u64, pass: u64) -> u64 {
    let mut rng = Rng::with_seed(pass);
    let (mut bytes, mut blocks) = (0, Vec::new());
    while bytes < BYTES_EACH {
        let size = mixed_size(&mut rng, 16, 4096);
        blocks.push(Block::new(size, size as u64));
        bytes += size;
    }
    inherit(sum, blocks)
}

const SWAPPING: u64 = 4;
const ROUNDS: u64 = 8000;
const SWAPPED: u64 = 100;
const PLACES: usize = 16;
const SWAPPED_SIZES: std::ops::RangeInclusive<usize> = Block::MIN_SIZE..=16_000;

/// Threads that free each other's blocks of 8 to 16,000 bytes, after rpmalloc's benchmark: each allocates a batch,
/// leaves it at a common place, and frees the batch that it finds there. The sum of all tags. Which thread finds which
/// batch is up to the scheduler; the sum is not.
pub fn foreign(scale: Scale) -> u64 {
    let places: Vec<Mutex<Vec<Block>>> = (0..PLACES).map(|_| Mutex::default()).collect();
    let of = |batch: Vec<Block>| batch.iter().map(Block::tag).fold(0, u64::wrapping_add);
    let freed = in_threads(SWAPPING, |seed| {
        let mut rng = Rng::with_seed(seed);
        let mut sum: u64 = 0;
        for _ in 0..scale.of(ROUNDS) {
            let batch = (0..SWAPPED).map(|_| Block::new(rng.usize(SWAPPED_SIZES), rng.u64(..))).collect();
            let place = &places[rng.usize(0..PLACES)];
            let found = mem::replace(&mut *place.lock().expect("no thread panicked"), batch);
            sum = sum.wrapping_add(of(found));
        }
        sum
    });
    let left = places.into_iter().map(|place| of(place.into_inner().expect("no thread panicked")));
    left.fold(freed, u64::wrapping_add)
}

/// Fewer for the pair, whose two threads wait for each other's caches and locks all the time.
const BATCHES_OF_PAIR: u64 = 50_000;
const BATCHES_OF_SEVERAL: u64 = 80_000;
const BATCH: u64 = 128;
const BATCHES_UNDER_WAY: usize = 16;

/// One thread allocates and another frees, with a bounded queue of batches between them, after xmalloc-test.
pub fn pair(scale: Scale) -> u64 {
    hand_over(1, scale.of(BATCHES_OF_PAIR))
}

/// Four threads of each kind, more than most machines have CPUs to spare: threads are preempted with work half done.
pub fn several(scale: Scale) -> u64 {
    hand_over(4, scale.of(BATCHES_OF_SEVERAL / 4))
}

/// The sum of all tags, which does not depend on who consumes what.
fn hand_over(pairs: u64, batches_each: u64) -> u64 {
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

const LANES: u64 = 2;
const GENERATIONS: u64 = 250;
const INHERITED: usize = 2000;
const REPLACED: u64 = 60_000;
const INHERITED_SIZES: std::ops::Range<usize> = 16..1000;

/// A server whose threads hand their blocks over to their successors, after Larson and Krishnan, "Memory allocation for
/// long-running server applications" (1998). Two threads run at a time; each replaces random blocks of its inheritance,
/// most of which a thread allocated that is gone. The sum of what the threads made of their tags. Each lane waits for
/// its generations, one after the other.
pub fn larson(scale: Scale) -> u64 {
    in_threads(LANES, |lane| {
        let mut rng = Rng::with_seed(lane);
        let mut blocks: Vec<Block> =
            (0..INHERITED).map(|tag| Block::new(rng.usize(INHERITED_SIZES), tag as u64)).collect();
        let mut sum: u64 = 0;
        for generation in 0..scale.of(GENERATIONS) {
            let rng = Rng::with_seed(generation * LANES + lane);
            let (mixed, left) = thread::spawn(move || serve(blocks, rng)).join().expect("a generation ends");
            sum = sum.wrapping_add(mixed);
            blocks = left;
        }
        sum
    })
}

/// One thread's life: what it made of the tags, and the blocks that it leaves.
fn serve(mut blocks: Vec<Block>, mut rng: Rng) -> (u64, Vec<Block>) {
    let mut sum = 0;
    for step in 0..REPLACED {
        let slot = &mut blocks[rng.usize(0..INHERITED)];
        sum = mix(sum, slot.tag());
        *slot = Block::new(rng.usize(INHERITED_SIZES), step);
    }
    (sum, blocks)
}
