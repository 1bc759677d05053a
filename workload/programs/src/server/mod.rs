//! A probe: a server whose load swings, peaks and goes idle. Two threads have data that stays, 64 MiB in all. Each wakes every millisecond for the
//! requests that have come in, which take blocks of 24 bytes to 100 KiB, replace some of what stays, and release the rest a little later. Bursts of a
//! tenth of a second double what is held; at last a peak quadruples it, and then nothing is left to do but to keep what stays.
//!
//! The first argument is the interval in which the allocator gives idle memory back, in milliseconds; bursts are one to two and a half
//! intervals apart. The second is for how many intervals there are requests before the peak.
//!
//! Prints the answer; then a line each for malloc, for the first write to each page of a block, which is where memory that was given back is missed, and
//! for free: the nanoseconds that 50, 99, 99.9 and 99.99 % of the calls did not exceed, and the longest; then a line with the bytes that were
//! held at the peak, those that stay, and those of anonymous memory that are resident when two intervals have passed since the peak. Each call is timed by itself, so
//! looking at the clock is part of all figures.

mod histogram;
mod load;

use std::collections::VecDeque;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;

use crate::block::{Block, mixed_size};
use crate::checksum::mix;
use crate::resident::resident_kb;
use histogram::Histogram;
use load::{Load, TICK_MS};

const THREADS: usize = 2;
const LIVE_BYTES: usize = 32 << 20;
const REQUESTS: u64 = 50;
const INTERVAL_MS: u64 = 1000;
const INTERVALS: u64 = 8;
const SIZES: std::ops::RangeInclusive<usize> = 24..=100 << 10;
/// Blocks of a request.
const FEW: usize = 4;
/// Requests that a thread is in the middle of.
const IN_FLIGHT: usize = 64;
/// One request in so many replaces something that stays.
const REPLACES: u64 = 256;

/// What the arguments should have been.
const EXPECTED: &str = "[INTERVAL_MS [INTERVALS]], up to 86400000 and 10000, each at least 1";
/// A day, and more than anybody waits for.
const MOST_INTERVAL_MS: u64 = 86_400_000;
const MOST_INTERVALS: u64 = 10_000;

/// Measures what the arguments say, or says what is wrong with them.
pub fn run(arguments: &[String]) -> Result<(), String> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let number = |word: &str| word.parse().unwrap_or(0);
    let (interval_ms, intervals) = match words[..] {
        [] => (INTERVAL_MS, INTERVALS),
        [interval] => (number(interval), INTERVALS),
        [interval, intervals] => (number(interval), number(intervals)),
        _ => (0, 0),
    };
    if !(1..=MOST_INTERVAL_MS).contains(&interval_ms) || !(1..=MOST_INTERVALS).contains(&intervals) {
        return Err(format!("the arguments are {words:?}; expected {EXPECTED}"));
    }
    let load = Load::new(LIVE_BYTES, REQUESTS, interval_ms, intervals);
    let served = serve(&load, Duration::from_millis(2 * interval_ms));
    println!("{:016x}", served.sum);
    let times = &served.times;
    for (name, histogram) in [("malloc", &times.malloc), ("touch", &times.touch), ("free", &times.free)] {
        let [p50, p99, p999, p9999] =
            [500_000, 990_000, 999_000, 999_900].map(|of_million| histogram.percentile_ns(of_million));
        println!("{name} {p50} {p99} {p999} {p9999} {}", histogram.most_ns());
    }
    println!("memory {} {} {}", served.peak_bytes, served.live_bytes, served.resident_bytes);
    Ok(())
}

/// What came of it.
struct Served {
    /// Of all tags that were read back, in any order of the threads.
    sum: u64,
    peak_bytes: usize,
    live_bytes: usize,
    resident_bytes: usize,
    times: Times,
}

/// Serves the load, and looks at what is resident when the server has been idle for so long.
fn serve(load: &Load, idle: Duration) -> Served {
    let (start, end, seen) = (Barrier::new(THREADS), Barrier::new(THREADS + 1), Barrier::new(THREADS + 1));
    thread::scope(|scope| {
        let work = |seed| {
            let mut worker = Worker::new(load, seed);
            start.wait();
            worker.work(load);
            end.wait();
            // A server that waits for requests.
            seen.wait();
            worker
        };
        let threads: Vec<_> = (0..THREADS).map(|seed| scope.spawn(move || work(seed as u64))).collect();
        end.wait();
        thread::sleep(idle);
        let resident_bytes = (resident_kb() << 10) as usize;
        seen.wait();
        let mut served = Served { sum: 0, peak_bytes: 0, live_bytes: 0, resident_bytes, times: Times::new() };
        for thread in threads {
            let worker = thread.join().expect("it ends");
            served.live_bytes += worker.bytes;
            served.peak_bytes += worker.peak_bytes;
            served.sum =
                served.sum.wrapping_add(worker.live.iter().fold(worker.sum, |sum, block| mix(sum, block.tag())));
            served.times.add(&worker.times);
        }
        served
    })
}

/// How long the calls took.
struct Times {
    malloc: Histogram,
    touch: Histogram,
    free: Histogram,
}

impl Times {
    fn new() -> Times {
        Times { malloc: Histogram::new(), touch: Histogram::new(), free: Histogram::new() }
    }

    fn add(&mut self, other: &Times) {
        self.malloc.add(&other.malloc);
        self.touch.add(&other.touch);
        self.free.add(&other.free);
    }
}

/// One thread of the server.
struct Worker {
    rng: Rng,
    live: Vec<Block>,
    in_flight: VecDeque<[Block; FEW]>,
    /// What a surge holds, the oldest first.
    held: VecDeque<Block>,
    held_bytes: usize,
    /// What is held in all, and at the most.
    bytes: usize,
    peak_bytes: usize,
    sum: u64,
    times: Times,
}

impl Worker {
    /// With the data that stays, and room for what it will have to remember, so that it allocates nothing else.
    fn new(load: &Load, seed: u64) -> Worker {
        let room = load.live_bytes / SIZES.end() * 64;
        let mut worker = Worker {
            rng: Rng::with_seed(seed),
            live: Vec::with_capacity(room),
            in_flight: VecDeque::with_capacity(IN_FLIGHT + 1),
            held: VecDeque::with_capacity(room),
            held_bytes: 0,
            bytes: 0,
            peak_bytes: 0,
            sum: 0,
            times: Times::new(),
        };
        while worker.bytes < load.live_bytes {
            let block = worker.block();
            worker.live.push(block);
        }
        // Setting up is no request.
        worker.times = Times::new();
        worker
    }

    /// All ticks, each when its time has come, or later.
    fn work(&mut self, load: &Load) {
        let start = Instant::now();
        for tick in 0..load.ticks {
            let due = start + Duration::from_millis(tick * TICK_MS);
            thread::sleep(due.saturating_duration_since(Instant::now()));
            (0..load.requests).for_each(|_| self.serve());
            self.hold(load.held_bytes(tick));
        }
        while let Some(request) = self.in_flight.pop_front() {
            request.into_iter().for_each(|block| self.release(block));
        }
    }

    fn serve(&mut self) {
        let mut request = [(); FEW].map(|()| self.block());
        if self.rng.u64(0..REPLACES) == 0 {
            let at = self.rng.usize(0..self.live.len());
            std::mem::swap(&mut self.live[at], &mut request[0]);
        }
        self.in_flight.push_back(request);
        if self.in_flight.len() > IN_FLIGHT
            && let Some(request) = self.in_flight.pop_front()
        {
            request.into_iter().for_each(|block| self.release(block));
        }
    }

    /// Allocates or releases until so much is held.
    fn hold(&mut self, bytes: usize) {
        while self.held_bytes < bytes {
            let block = self.block();
            self.held_bytes += block.size();
            self.held.push_back(block);
        }
        while self.held_bytes > bytes
            && let Some(block) = self.held.pop_front()
        {
            self.held_bytes -= block.size();
            self.release(block);
        }
    }

    fn block(&mut self) -> Block {
        let size = mixed_size(&mut self.rng, 16, 128 << 10).clamp(*SIZES.start(), *SIZES.end());
        let start = Instant::now();
        let mut block = Block::untagged(size);
        let taken = Instant::now();
        block.put_tag(self.rng.u64(..));
        block.touch();
        let touched = Instant::now();
        self.times.malloc.record((taken - start).as_nanos() as u64);
        self.times.touch.record((touched - taken).as_nanos() as u64);
        self.bytes += size;
        self.peak_bytes = self.peak_bytes.max(self.bytes);
        block
    }

    fn release(&mut self, block: Block) {
        self.sum = mix(self.sum, block.tag());
        self.bytes -= block.size();
        let start = Instant::now();
        drop(block);
        self.times.free.record(start.elapsed().as_nanos() as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_and_the_bytes_are_the_same_twice() {
        let load = Load::new(1 << 20, 10, 20, 10);
        let [first, second] = [(); 2].map(|()| serve(&load, Duration::from_millis(1)));
        assert_eq!(first.sum, second.sum);
        assert_eq!((first.live_bytes, first.peak_bytes), (second.live_bytes, second.peak_bytes));
        let live = THREADS * load.live_bytes;
        assert!((live / 2..live * 2).contains(&first.live_bytes), "{} stay", first.live_bytes);
        assert!(first.peak_bytes >= 4 * live, "{} at the peak", first.peak_bytes);
        assert!(first.resident_bytes >= first.live_bytes);
        assert!(first.times.malloc.percentile_ns(500_000) > 0);
    }

    #[test]
    fn bad_arguments_are_named() {
        for (arguments, found) in
            [(&["soon"][..], "soon"), (&["1000", "0"], "0"), (&["1", "1", "x"], "x"), (&["86400001"], "86400001")]
        {
            let arguments: Vec<String> = arguments.iter().map(|word| (*word).to_owned()).collect();
            let why = run(&arguments).expect_err("they are wrong");
            assert!(why.contains(found) && why.contains(EXPECTED), "{why}");
        }
    }
}
