//! A probe: the memory that a process still has some seconds after a peak.
//!
//! Two threads allocate so many MiB in all, blocks of 16 bytes to 64 KiB, as a burst of requests does. They free all but
//! one block in 64, and sleep. Each thread has worked a little 0.1 s before, since some allocators start nothing for what
//! is younger. There are two, since some allocators give memory back in the background only in processes
//! with threads.

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use fastrand::Rng;

use super::resident_kb;
use crate::frame::{Block, mixed_size};

const THREADS: usize = 2;
const STAYS: usize = 64;
/// What a thread allocates before.
const FIRST: usize = 1 << 20;
const AGE: Duration = Duration::from_millis(100);

/// What follows the name.
pub const ARGUMENTS: &str = "[MIB [SECONDS]]";

/// Measures what the arguments say, or says what is wrong with them.
pub fn run(arguments: &[String]) -> Result<(), String> {
    let number = |at: usize, usual| arguments.get(at).map_or(usual, |word| word.parse().unwrap_or(0));
    let (mib, seconds) = (number(0, 64), number(1, 3));
    if !(1..=1 << 16).contains(&mib) || !(1..=3600).contains(&seconds) || arguments.len() > 2 {
        return Err(format!("the arguments are {arguments:?}; expected {ARGUMENTS}, 1 to 65536 and 1 to 3600"));
    }
    let (freed, seen) = (Barrier::new(THREADS + 1), Barrier::new(THREADS + 1));
    thread::scope(|scope| {
        let burst = |seed| {
            drop(few_of(FIRST, seed));
            thread::sleep(AGE);
            let live = few_of((mib << 20) / THREADS, seed);
            freed.wait();
            seen.wait();
            live.iter().map(Block::size).sum::<usize>()
        };
        let threads: Vec<_> = (0..THREADS).map(|seed| scope.spawn(move || burst(seed as u64))).collect();
        freed.wait();
        thread::sleep(Duration::from_secs(seconds as u64));
        let resident = resident_kb();
        seen.wait();
        let live: usize = threads.into_iter().map(|thread| thread.join().expect("it only slept")).sum();
        println!("{} {resident}", live >> 10);
    });
    Ok(())
}

/// Allocates and writes so many bytes, and frees most blocks.
fn few_of(bytes: usize, seed: u64) -> Vec<Block> {
    let mut rng = Rng::with_seed(seed);
    let (mut held, mut blocks) = (0, Vec::new());
    while held < bytes {
        let mut block = Block::new(mixed_size(&mut rng, 16, 64 << 10), held as u64);
        block.touch();
        held += block.size();
        blocks.push(block);
    }
    blocks.into_iter().step_by(STAYS).collect()
}
