//! The tails of a program's mallocs and frees: times of single calls, which `bench/tail.c` takes in all its processes.
//!
//! `bench probe tail PROGRAM WORDS…` runs any program under the allocator that is preloaded into the probe. It prints
//! nine figures of all calls: the 99.9th percentile, the longest, the median, the 99th percentile; the 99.9th percentile
//! and the longest of calls that allocate, and of those that free; and how many calls there were, in millions. All times
//! are in ns. A tenth figure is the longest hold of a lock that our library reports (`locks:json,locks.holds:on`), or
//! the first figure again if there is no such report: what one thread may wait for another under other allocators.

use std::arch::x86_64::_rdtsc;
use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};

/// Where the probe finds the compiled library; if unset, it compiles one.
pub const LIBRARY: &str = "TAIL_LIBRARY";

const SOURCE: &str = include_str!("../../tail.c");
const FINE: usize = 32;
/// Of 64-bit numbers, those below `FINE` alone, and `FINE` for each further power of two.
const BUCKETS: usize = (64 - FINE.ilog2() as usize + 1) * FINE;
const SHARDS: usize = 64;
const KINDS: usize = 2;
/// Numbers of a histogram: the longest call comes before the buckets.
const NUMBERS: usize = 1 + BUCKETS;

/// Compiles the library to a file.
pub fn compile(library: &Path) -> Result<()> {
    let sizes = [("FINE", FINE), ("BUCKETS", BUCKETS), ("SHARDS", SHARDS)].map(|(name, of)| format!("-D{name}={of}"));
    let flags = ["-O2", "-fPIC", "-shared", "-fexceptions", "-x", "c", "-", "-o"];
    let mut compiler = Command::new("cc");
    compiler.args(sizes).args(flags).arg(library).env_remove("LD_PRELOAD").stdin(Stdio::piped());
    let mut compiler = compiler.spawn().context("cc cannot be started")?;
    compiler.stdin.take().expect("it is a pipe").write_all(SOURCE.as_bytes())?;
    ensure!(compiler.wait()?.success(), "cc cannot compile bench/tail.c");
    Ok(())
}

/// Calls of one kind by their ticks.
#[derive(Clone)]
struct Histogram {
    longest: u64,
    calls: Vec<u64>,
}

impl Histogram {
    const fn new() -> Self {
        Histogram { longest: 0, calls: Vec::new() }
    }

    fn add(mut self, numbers: &[u64]) -> Self {
        self.longest = self.longest.max(numbers[0]);
        self.calls.resize(BUCKETS, 0);
        self.calls.iter_mut().zip(&numbers[1..]).for_each(|(sum, calls)| *sum += calls);
        self
    }

    fn count(&self) -> u64 {
        self.calls.iter().sum()
    }

    /// The middle of the bucket with the first call that so many of a thousand do not exceed.
    fn permille(&self, permille: u64) -> f64 {
        let rank = (self.count() * permille).div_ceil(1000).max(1);
        let mut seen = 0;
        let at = self.calls.iter().position(|calls| {
            seen += calls;
            seen >= rank
        });
        let middle = |at| ((start_of(at) + start_of(at + 1) - 1) as f64 / 2.0).min(self.longest as f64);
        at.map_or(f64::NAN, middle)
    }
}

/// The fewest ticks in a bucket.
fn start_of(bucket: usize) -> u64 {
    let shift = (bucket / FINE).saturating_sub(1);
    ((bucket - shift * FINE) as u64) << shift
}

/// Runs a program and tells the times of its calls.
pub fn figures(words: &[&str]) -> Result<Vec<f64>> {
    let (program, words) = words.split_first().context("expected a program")?;
    let scratch = tempfile::tempdir()?;
    let own = scratch.path().join("libtail.so");
    let library = match env::var_os(LIBRARY) {
        Some(library) => library,
        None => compile(&own).map(|()| own.into_os_string())?,
    };
    let counts = scratch.path().join("counts");
    File::create(&counts)?.set_len((SHARDS * KINDS * NUMBERS * size_of::<u64>()) as u64)?;
    // The C library, preloaded: a program that is linked with an allocator would use that. It changes nothing else.
    let allocator = env::var_os("LD_PRELOAD").filter(|preload| !preload.is_empty()).unwrap_or("libc.so.6".into());
    let preload = [library, OsString::from(":"), allocator].into_iter().collect::<OsString>();
    let mut command = Command::new(program);
    command.args(words).env("LD_PRELOAD", preload).env("TAIL_FILE", &counts).stdin(Stdio::null());
    let (start, start_ticks) = (Instant::now(), ticks());
    let output = command.stdout(Stdio::null()).output().with_context(|| format!("cannot run {program}"))?;
    let ns_per_tick = start.elapsed().as_secs_f64() * 1e9 / (ticks() - start_ticks) as f64;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{program} ended with {}: {}", output.status, said.trim());
    let [allocating, freeing] = read(&fs::read(&counts)?);
    let numbers = |of: &Histogram| [&[of.longest], &of.calls[..]].concat();
    let all = allocating.clone().add(&numbers(&freeing));
    ensure!(all.count() > 0, "{program} made no call that was timed");
    let [tail, longest] = [all.permille(999), all.longest as f64];
    let halves = [&allocating, &freeing].map(|half| [half.permille(999), half.longest as f64]);
    let times = [tail, longest, all.permille(500), all.permille(990), halves[0][0], halves[0][1], halves[1][0]];
    let mut figures: Vec<f64> = times.into_iter().chain([halves[1][1]]).map(|time| time * ns_per_tick).collect();
    let hold_ns = longest_hold(&said);
    figures.extend([all.count() as f64 / 1e6, hold_ns.unwrap_or(figures[0])]);
    Ok(figures)
}

/// The sums over all shards.
fn read(bytes: &[u8]) -> [Histogram; KINDS] {
    let numbers: Vec<u64> = bytes.as_chunks().0.iter().map(|bytes: &[u8; 8]| u64::from_ne_bytes(*bytes)).collect();
    let halves = numbers.chunks_exact(NUMBERS).enumerate();
    halves.fold([const { Histogram::new() }; KINDS], |mut sums, (at, numbers)| {
        let sum = &mut sums[at % KINDS];
        *sum = std::mem::replace(sum, Histogram::new()).add(numbers);
        sums
    })
}

fn ticks() -> u64 {
    // SAFETY: every x86-64 processor has the instruction.
    unsafe { _rdtsc() }
}

/// The longest hold in the reports of all processes; tells a person which lock it was.
fn longest_hold(said: &str) -> Option<f64> {
    let hold = |line: &str| {
        let (_, behind) = line.split_once("\"max_hold_ns\": ")?;
        behind.split(',').next()?.parse::<u64>().ok()
    };
    let (hold_ns, line) = said.lines().filter_map(|line| Some((hold(line)?, line))).max()?;
    eprintln!("longest hold: {}", line.trim());
    Some(hold_ns as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_at_most_a_part_in_fine_wide_and_follow_each_other() {
        let wide = |bucket: usize| start_of(bucket + 1) - start_of(bucket);
        assert!((0..BUCKETS - 1).all(|bucket| wide(bucket) <= (start_of(bucket) / FINE as u64).max(1)));
        assert_eq!([0, 31, 32, 63, 64, 65].map(start_of), [0, 31, 32, 63, 64, 66]);
        assert!(start_of(BUCKETS - 1) > u64::MAX / 64 * 62, "the last one takes the largest number");
    }

    #[test]
    fn percentile_is_the_call_of_that_rank() {
        let mut numbers = vec![0; NUMBERS];
        (numbers[0], numbers[1 + 5], numbers[1 + 20]) = (20, 998, 2);
        let histogram = Histogram::new().add(&numbers);
        assert_eq!([500, 998, 999].map(|permille| histogram.permille(permille)), [5.0, 5.0, 20.0]);
        assert_eq!(histogram.add(&numbers).count(), 2000);
    }

    #[test]
    fn calls_of_a_program_and_its_children_are_counted() {
        let of = |script: &str| figures(&["/bin/sh", "-c", script]).expect("it runs");
        let [one, two] = ["true", "for n in 1 2 3 4 5 6 7 8; do (x=$n; y=$x); done"].map(of);
        assert!(two[8] > one[8], "{} calls, and with children {}", one[8], two[8]);
        assert!(one[1] >= one[0] && one[0] >= one[2] && one[2] > 0.0, "{one:?}");
        assert!(figures(&["/bin/false"]).is_err() && figures(&["/no/such/program"]).is_err());
    }

    #[test]
    fn longest_hold_is_that_of_all_reports() {
        let report = "{ \"locks\": [\n { \"max_wait_ns\": 9, \"max_hold_ns\": 40, \"type\": \"shard\" },\n";
        let other = "{ \"max_wait_ns\": 9, \"max_hold_ns\": 7, \"type\": \"drain\" }\n], \"lost\": {} }\n";
        assert_eq!(longest_hold(&[other, report, other].concat()), Some(40.0));
        assert_eq!(longest_hold("no report"), None);
    }
}
