//! A probe: threads that work in bursts and pause between them, as handlers of requests do, and the page faults of that.
//!
//! Four threads, each with blocks that stay. In a burst a thread takes a random number of blocks of 8 bytes to 16 KB,
//! replaces some of them for a tenth to a half of an interval, and frees all. Then it pauses for 0.1 to 3 intervals. An
//! allocator that gives memory back in such a pause has to fault it in again after it. Bursts begin and end at times
//! that the seed decides, so the same ones overlap in each run.
//!
//! Prints the checksum, the minor page faults from the first burst to the last, and the most bytes that were held.

use std::mem::MaybeUninit;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;

use crate::frame::{Block, in_threads, mix, mixed_size};

const THREADS: u64 = 4;
const STAYS: usize = 1 << 20;
/// Bytes of a burst.
const LEAST: usize = 1 << 20;
const MOST: usize = 8 << 20;
/// Of the time of a burst, and of a pause: the shortest and the longest, in intervals.
const BURST: [f64; 2] = [0.1, 0.5];
const PAUSE: [f64; 2] = [0.1, 3.0];
/// Rounds of replacements in a burst; in each, one block in so many.
const ROUNDS: u32 = 8;
const REPLACES: usize = 8;

/// What follows the name.
pub const ARGUMENTS: &str = "[INTERVAL_MS [BURSTS]]";

/// Measures what the arguments say, or says what is wrong with them.
pub fn run(arguments: &[String]) -> Result<(), String> {
    let number = |at: usize, usual| arguments.get(at).map_or(usual, |word| word.parse().unwrap_or(0));
    let (interval_ms, bursts): (u64, u64) = (number(0, 1000), number(1, 15));
    if !(1..=86_400_000).contains(&interval_ms) || !(1..=1_000_000).contains(&bursts) || arguments.len() > 2 {
        return Err(format!(
            "the arguments are {arguments:?}; expected {ARGUMENTS}, up to 86400000 and 1000000, each at least 1"
        ));
    }
    let (ready, held, interval) = (Barrier::new(THREADS as usize), Held::default(), Duration::from_millis(interval_ms));
    let before = minor_faults();
    let sum = in_threads(THREADS, |seed| {
        let mut rng = Rng::with_seed(seed);
        let stays = blocks(STAYS, &mut rng, &held);
        ready.wait();
        let (start, mut at, mut sum) = (Instant::now(), Duration::ZERO, 0);
        for _ in 0..bursts {
            let mut random = |[least, most]: [f64; 2]| interval.mul_f64(least + rng.f64() * (most - least));
            let (length, pause) = (random(BURST), random(PAUSE));
            sum = burst(sum, &mut rng, &held, |part| sleep_until(start + at + length * part / ROUNDS));
            at += length + pause;
            sleep_until(start + at);
        }
        stays.into_iter().fold(sum, |sum, block| release(sum, block, &held))
    });
    println!("{sum:016x}\nfaults {}\nmemory {}", minor_faults() - before, held.most.into_inner());
    Ok(())
}

/// Bytes that all threads hold, now and at the most.
#[derive(Default)]
struct Held {
    now: AtomicUsize,
    most: AtomicUsize,
}

fn sleep_until(time: Instant) {
    thread::sleep(time.saturating_duration_since(Instant::now()));
}

/// Takes blocks, replaces some in rounds, each when its time has come, and frees all.
fn burst(sum: u64, rng: &mut Rng, held: &Held, wait: impl Fn(u32)) -> u64 {
    let bytes = rng.usize(LEAST..=MOST);
    let (mut all, mut sum) = (blocks(bytes, rng, held), sum);
    for round in 1..=ROUNDS {
        wait(round);
        for _ in 0..all.len() / REPLACES {
            let at = rng.usize(0..all.len());
            sum = release(sum, all.swap_remove(at), held);
            all.push(block(rng, held));
        }
    }
    rng.shuffle(&mut all);
    all.into_iter().fold(sum, |sum, block| release(sum, block, held))
}

fn blocks(bytes: usize, rng: &mut Rng, held: &Held) -> Vec<Block> {
    let (mut total, mut all) = (0, Vec::new());
    while total < bytes {
        let block = block(rng, held);
        total += block.size();
        all.push(block);
    }
    all
}

fn block(rng: &mut Rng, held: &Held) -> Block {
    let mut block = Block::new(mixed_size(rng, 8, 16 << 10), rng.u64(..));
    block.touch();
    let now = held.now.fetch_add(block.size(), Ordering::Relaxed) + block.size();
    held.most.fetch_max(now, Ordering::Relaxed);
    block
}

fn release(sum: u64, block: Block, held: &Held) -> u64 {
    held.now.fetch_sub(block.size(), Ordering::Relaxed);
    mix(sum, block.tag())
}

fn minor_faults() -> i64 {
    let mut usage = MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: `usage` has room for the answer.
    let done = unsafe { libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) };
    assert_eq!(done, 0, "getrusage cannot fail for the process itself");
    // SAFETY: the call filled it.
    unsafe { usage.assume_init() }.ru_minflt
}
