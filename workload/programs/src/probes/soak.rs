//! A probe: a mixed load for many minutes, after which the process must be no larger than near its start.
//!
//! Rounds of six seconds, in which two to four threads come, work in bursts, pause and go. Blocks have 16 bytes to
//! 1 MiB. Some outlive their threads, and a later thread frees them. A child is forked in each round. Each tenth of the
//! time has the same rounds. The memory of the process is counted four times a second. If its mean or its least in a
//! tenth is more than 2 % above that of the second tenth, the probe fails.
//!
//! Prints a line for each tenth: the mean and the least, in kB, and the minutes left.

use std::sync::Mutex;
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use fastrand::Rng;

use super::resident_kb;
use crate::frame::{Block, mixed_size};

const TENTHS: u64 = 10;
const ROUND: Duration = Duration::from_secs(6);
/// Rounds of a minute.
const ROUNDS: u64 = 10;
const SAMPLE: Duration = Duration::from_millis(250);
/// Blocks that stay, of these sizes, and bytes of a burst.
const STAY: usize = 400;
const SIZES: [usize; 2] = [16, 1 << 20];
const BURST: usize = 8 << 20;
/// Most that a tenth may have beyond the second, in parts.
const DRIFT: f64 = 0.02;

/// What follows the name.
pub const ARGUMENTS: &str = "[MINUTES]";

/// Measures what the arguments say, or says what is wrong.
pub fn run(arguments: &[String]) -> Result<(), String> {
    let minutes: u64 = arguments.first().map_or(Ok(60), |word| word.parse()).unwrap_or(0);
    if !(1..=10_000).contains(&minutes) || arguments.len() > 1 {
        return Err(format!("the arguments are {arguments:?}; expected {ARGUMENTS}, 1 to 10000"));
    }
    let mut rng = Rng::with_seed(1);
    let stay = Mutex::new((0..STAY).map(|_| block(&mut rng)).collect());
    let mut tenths = Vec::new();
    let start = Instant::now();
    // A tenth of a minute is a round.
    let rounds = minutes * ROUNDS / TENTHS;
    for tenth in 0..TENTHS {
        let mut seen = Seen::default();
        for number in 0..rounds {
            let end = start + ROUND * (tenth * rounds + number + 1) as u32;
            round(number, end, &stay, &mut seen);
        }
        tenths.push(seen);
        let left = minutes as f64 * (TENTHS - tenth - 1) as f64 / TENTHS as f64;
        println!("tenth {}: mean {:.0} kB, least {} kB; {left:.1} min left", tenth + 1, seen.mean(), seen.least_kb);
    }
    judge(&tenths)
}

/// Whether no later tenth has much more than the second.
fn judge(tenths: &[Seen]) -> Result<(), String> {
    let figures: [fn(&Seen) -> f64; 2] = [Seen::mean, |seen| seen.least_kb as f64];
    let drift = |figure: fn(&Seen) -> f64| {
        let later = tenths[2..].iter().map(figure).fold(0.0, f64::max);
        later / figure(&tenths[1]) - 1.0
    };
    let [mean, least] = figures.map(drift);
    let said = format!("drift: mean {:+.1} %, least {:+.1} %", 100.0 * mean, 100.0 * least);
    println!("{said}");
    if mean.max(least) <= DRIFT { Ok(()) } else { Err(format!("{said}; expected at most 2 %")) }
}

/// The memory of a tenth.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    samples: u64,
    sum_kb: u64,
    least_kb: u64,
}

impl Seen {
    fn add(&mut self, kb: u64) {
        self.least_kb = if self.samples == 0 { kb } else { self.least_kb.min(kb) };
        (self.samples, self.sum_kb) = (self.samples + 1, self.sum_kb + kb);
    }

    fn mean(&self) -> f64 {
        self.sum_kb as f64 / self.samples as f64
    }
}

fn round(number: u64, end: Instant, stay: &Mutex<Vec<Block>>, seen: &mut Seen) {
    let mut rng = Rng::with_seed(number);
    let threads = rng.usize(2..=4);
    scope(|scope| {
        for _ in 0..threads {
            let rng = rng.fork();
            scope.spawn(move || work(rng, end, stay));
        }
        fork_one();
        while Instant::now() + SAMPLE < end {
            sleep(SAMPLE);
            seen.add(resident_kb());
        }
    });
    sleep(end.saturating_duration_since(Instant::now()));
}

/// A thread of a round: three bursts and pauses.
fn work(mut rng: Rng, end: Instant, stay: &Mutex<Vec<Block>>) {
    for _ in 0..3 {
        let (mut own, mut bytes) = (Vec::new(), 0);
        while bytes < BURST {
            own.push(block(&mut rng));
            bytes += own.last().map_or(0, Block::size);
        }
        sleep(Duration::from_millis(rng.u64(10..300)));
        let mut stay = stay.lock().expect("no thread panics");
        let at = rng.usize(..stay.len());
        // Blocks of one thread, freed by another; of about one size, so that the same amount stays.
        if let Some(last) = own.iter_mut().find(|block| block.size().ilog2() == stay[at].size().ilog2()) {
            std::mem::swap(&mut stay[at], last);
        }
        drop(stay);
        rng.shuffle(&mut own);
        drop(own);
        let pause = Duration::from_millis(rng.u64(50..1500));
        sleep(pause.min(end.saturating_duration_since(Instant::now())));
    }
}

fn block(rng: &mut Rng) -> Block {
    let mut block = Block::new(mixed_size(rng, SIZES[0], SIZES[1]), rng.u64(..));
    block.touch();
    block
}

/// A child that allocates a little, and ends.
fn fork_one() {
    // SAFETY: the child only allocates and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        drop((1..100).map(|size| Block::new(size * 16, 1)).collect::<Vec<_>>());
        // SAFETY: it ends the child at once.
        unsafe { libc::_exit(0) };
    }
    let mut status = 0;
    // SAFETY: `status` has room for the answer.
    let waited = unsafe { libc::waitpid(child, &mut status, 0) };
    assert!(child > 0 && waited == child && status == 0, "a child ended with {status}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_tenth_that_has_more_fails() {
        let tenths = |last: u64| {
            let seen = |kb| {
                let mut seen = Seen::default();
                [kb, kb + 10].into_iter().for_each(|kb| seen.add(kb));
                seen
            };
            [500, 1000, 1000, last].map(seen)
        };
        assert!(judge(&tenths(1015)).is_ok() && judge(&tenths(900)).is_ok());
        assert!(judge(&tenths(1030)).is_err());
    }
}
