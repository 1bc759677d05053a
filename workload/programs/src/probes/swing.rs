//! A probe: a load that swings, peaks and goes idle. Two threads have data that stays, 64 MiB in all. Each wakes every
//! millisecond for the requests that came in: these take blocks of 24 bytes to 100 KiB, replace some of what stays, and
//! release the rest a little later. Every other interval a burst of a tenth of a second doubles what is held; at last a
//! peak quadruples it, and then only what stays is kept.
//!
//! The first argument is the interval in which the allocator gives idle memory back, in milliseconds; the second is for
//! how many intervals there are requests before the peak.
//!
//! Prints the answer; then a line each for malloc, for the first write to each page of a block, which is where memory
//! that was given back is missed, and for free: the nanoseconds that 50, 99, 99.9 and 99.99 % of the calls did not
//! exceed, to 6 %, and the longest; then a line with the bytes that were held at the peak, those that stay, and those of
//! anonymous memory that are resident two intervals after the peak.

use std::collections::VecDeque;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;

use super::resident_kb;
use crate::frame::{Block, mix, mixed_size};

const THREADS: u64 = 2;
const LIVE_BYTES: usize = 32 << 20;
const REQUESTS: u64 = 50;
const TICK: Duration = Duration::from_millis(1);
/// Ticks in which a burst grows, and in which the peak does.
const BURST: u64 = 100;
const PEAK: u64 = 200;
/// Blocks of a request, and requests that a thread is in the middle of.
const FEW: usize = 4;
const IN_FLIGHT: usize = 64;
/// One request in so many replaces something that stays.
const REPLACES: u64 = 256;

/// What follows the name.
pub const ARGUMENTS: &str = "[INTERVAL_MS [INTERVALS]]";

/// Measures what the arguments say, or says what is wrong with them.
pub fn run(arguments: &[String]) -> Result<(), String> {
    let number = |at: usize, usual| arguments.get(at).map_or(usual, |word| word.parse().unwrap_or(0));
    let (interval_ms, intervals): (u64, u64) = (number(0, 1000), number(1, 8));
    if !(1..=86_400_000).contains(&interval_ms) || !(1..=10_000).contains(&intervals) || arguments.len() > 2 {
        return Err(format!(
            "the arguments are {arguments:?}; expected {ARGUMENTS}, up to 86400000 and 10000, each at least 1"
        ));
    }
    let (start, end, seen) = (Barrier::new(THREADS as usize), Barrier::new(3), Barrier::new(3));
    thread::scope(|scope| {
        let serve = |seed| {
            let mut worker = Worker::new(seed, LIVE_BYTES);
            start.wait();
            worker.serve(interval_ms, intervals);
            end.wait();
            // Idle, as a server is that waits for requests.
            seen.wait();
            worker
        };
        let threads: Vec<_> = (0..THREADS).map(|seed| scope.spawn(move || serve(seed))).collect();
        end.wait();
        thread::sleep(Duration::from_millis(2 * interval_ms));
        let resident = resident_kb() << 10;
        seen.wait();
        let workers: Vec<Worker> = threads.into_iter().map(|thread| thread.join().expect("it ends")).collect();
        let sum = workers.iter().fold(0, |sum: u64, worker| sum.wrapping_add(worker.sum));
        println!("{sum:016x}");
        for (at, name) in ["malloc", "touch", "free"].into_iter().enumerate() {
            let mut times = Times::default();
            workers.iter().for_each(|worker| times.add(&worker.times[at]));
            let [p50, p99, p999, p9999] = [0.5, 0.99, 0.999, 0.9999].map(|part| times.not_exceeded_by(part));
            println!("{name} {p50} {p99} {p999} {p9999} {}", times.most);
        }
        let of_all = |bytes: fn(&Worker) -> usize| workers.iter().map(bytes).sum::<usize>();
        println!("memory {} {} {resident}", of_all(|worker| worker.peak), of_all(|worker| worker.bytes));
        Ok(())
    })
}

/// One thread of the load.
struct Worker {
    rng: Rng,
    live: Vec<Block>,
    in_flight: VecDeque<[Block; FEW]>,
    /// What a burst holds, the oldest first.
    held: VecDeque<Block>,
    /// What is held in all, and at the most.
    bytes: usize,
    peak: usize,
    sum: u64,
    /// Of malloc, first writes and free.
    times: [Times; 3],
}

impl Worker {
    /// With the data that stays.
    fn new(seed: u64, live_bytes: usize) -> Worker {
        let (live, in_flight, held) = (Vec::new(), VecDeque::with_capacity(IN_FLIGHT + 1), VecDeque::new());
        let rng = Rng::with_seed(seed);
        let mut worker = Worker { rng, live, in_flight, held, bytes: 0, peak: 0, sum: 0, times: Default::default() };
        while worker.bytes < live_bytes {
            let block = worker.block();
            worker.live.push(block);
        }
        worker.times = Default::default();
        worker
    }

    /// All ticks, each when its time has come, or later; then the peak, which goes at once.
    fn serve(&mut self, interval_ms: u64, intervals: u64) {
        let (start, stays) = (Instant::now(), self.bytes);
        let end = interval_ms * intervals;
        for tick in 0..end + PEAK {
            thread::sleep((TICK * tick as u32).saturating_sub(start.elapsed()));
            (0..REQUESTS).for_each(|_| self.request());
            let into_burst = tick % (2 * interval_ms);
            let part = match tick.checked_sub(end) {
                Some(into_peak) => 3.0 * (into_peak + 1) as f64 / PEAK as f64,
                None if into_burst < BURST => into_burst as f64 / BURST as f64,
                None => 0.0,
            };
            self.hold((stays as f64 * part) as usize);
        }
        self.hold(0);
        while let Some(request) = self.in_flight.pop_front() {
            request.into_iter().for_each(|block| self.release(block));
        }
    }

    fn request(&mut self) {
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

    /// Allocates or releases until so much is held besides.
    fn hold(&mut self, bytes: usize) {
        let mut held: usize = self.held.iter().map(Block::size).sum();
        while held < bytes {
            let block = self.block();
            held += block.size();
            self.held.push_back(block);
        }
        while held > bytes
            && let Some(block) = self.held.pop_front()
        {
            held -= block.size();
            self.release(block);
        }
    }

    fn block(&mut self) -> Block {
        let size = mixed_size(&mut self.rng, 16, 128 << 10).clamp(24, 100 << 10);
        let start = Instant::now();
        let mut block = Block::untagged(size);
        let taken = Instant::now();
        block.put_tag(self.rng.u64(..));
        block.touch();
        self.times[0].record(taken - start);
        self.times[1].record(taken.elapsed());
        self.bytes += size;
        self.peak = self.peak.max(self.bytes);
        block
    }

    fn release(&mut self, block: Block) {
        self.sum = mix(self.sum, block.tag());
        self.bytes -= block.size();
        let start = Instant::now();
        drop(block);
        self.times[2].record(start.elapsed());
    }
}

/// How often something took how long: each doubling in 16 equal parts, up to some minutes. Recording allocates nothing.
struct Times {
    counts: [u64; Times::BUCKETS],
    most: u64,
}

impl Default for Times {
    fn default() -> Times {
        Times { counts: [0; Times::BUCKETS], most: 0 }
    }
}

impl Times {
    const BUCKETS: usize = 34 * 16;

    fn record(&mut self, time: Duration) {
        let ns = time.as_nanos() as u64;
        let doubling = ns.max(16).ilog2() - 4;
        self.counts[((u64::from(doubling) * 16 + (ns >> doubling)) as usize).min(Times::BUCKETS - 1)] += 1;
        self.most = self.most.max(ns);
    }

    fn add(&mut self, other: &Times) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(count, more)| *count += more);
        self.most = self.most.max(other.most);
    }

    /// Nanoseconds that this part of the calls did not exceed, to the bucket.
    fn not_exceeded_by(&self, part: f64) -> u64 {
        let mut left = (self.counts.iter().sum::<u64>() as f64 * part).ceil() as u64;
        let found = self.counts.iter().position(|&count| {
            left = left.saturating_sub(count);
            left == 0
        });
        let bucket = found.unwrap_or(0) as u64;
        let doubling = (bucket / 16).saturating_sub(1);
        (((bucket + 1 - doubling * 16) << doubling) - 1).min(self.most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_sorted_values() {
        let mut times = Times::default();
        (1..=10_000).for_each(|ns| times.record(Duration::from_nanos(ns)));
        for (part, ns) in [(0.5, 5000), (0.999, 9990), (1.0, 10_000)] {
            let found = times.not_exceeded_by(part);
            assert!((ns..=ns + ns / 16).contains(&found), "{part}: {found}");
        }
        assert_eq!((times.most, Times::default().not_exceeded_by(0.5)), (10_000, 0));
    }

    #[test]
    fn load_run_twice_gives_the_same_answer() {
        let run = || {
            let mut worker = Worker::new(1, 1 << 20);
            let stays = worker.bytes;
            worker.serve(20, 2);
            assert!(worker.peak >= 3 * stays, "{} at the peak", worker.peak);
            (worker.sum, worker.bytes, worker.peak)
        };
        assert_eq!(run(), run());
    }
}
