//! Threads that free each other's blocks of 8 to 16,000 bytes, after rpmalloc's benchmark: each allocates a batch,
//! leaves it at a common place, and frees the batch that it finds there.

use std::mem;
use std::sync::Mutex;

use fastrand::Rng;

use crate::frame::{Block, Scale, in_threads};

const THREADS: u64 = 4;
const ROUNDS: u64 = 8000;
const BATCH: u64 = 100;
const PLACES: usize = 16;
const SIZES: std::ops::RangeInclusive<usize> = Block::MIN_SIZE..=16_000;

/// Runs it: the sum of all tags. Which thread finds which batch is up to the scheduler; the sum is not.
pub fn run(scale: Scale) -> u64 {
    let places: Vec<Mutex<Vec<Block>>> = (0..PLACES).map(|_| Mutex::default()).collect();
    let of = |batch: Vec<Block>| batch.iter().map(Block::tag).fold(0, u64::wrapping_add);
    let freed = in_threads(THREADS, |seed| {
        let mut rng = Rng::with_seed(seed);
        let mut sum: u64 = 0;
        for _ in 0..scale.of(ROUNDS) {
            let batch = (0..BATCH).map(|_| Block::new(rng.usize(SIZES), rng.u64(..))).collect();
            let place = &places[rng.usize(0..PLACES)];
            let found = mem::replace(&mut *place.lock().expect("no thread panicked"), batch);
            sum = sum.wrapping_add(of(found));
        }
        sum
    });
    let left = places.into_iter().map(|place| of(place.into_inner().expect("no thread panicked")));
    left.fold(freed, u64::wrapping_add)
}
