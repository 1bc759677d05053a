//! Upkeep: one arm of one row of `lab stagger`.

use super::super::workload::stagger::{Arm, Load, Mark, Online, Size, stagger};
use super::{Machine, named, number, unexpected};

const EXPECTED: &str = "run or drains, then CPUS THREADS INTERVAL_US INTERVALS GAP_US HOLD_NS OTHERS_HOLD_NS LATENCY_NS \
                        PAUSED_PERCENT EQUAL_RUN_RATE SHEPHERD ONLINE SEED ARM";
const MOST: u64 = 1_000_000_000;

/// Measures what the words say: the figures, or each drain's CPU, time in intervals, and 1 if it waited; or what is
/// wrong with the words.
pub fn measure(words: &[&str], machine: &impl Machine) -> Result<Vec<f64>, String> {
    let [what @ ("run" | "drains"), of_size @ .., equal_rate, shepherd, online, seed, way] = words else {
        return unexpected(words, EXPECTED);
    };
    let [cpus, threads, interval, intervals, gap, hold, others_hold, latency, paused] = *of_size else {
        return unexpected(words, EXPECTED);
    };
    let has_equal_rate = number("answer whether all run as often", equal_rate, 0..=1)? == 1;
    let online: Online = named(online)?;
    let arm = Arm { way: named(way)?, has_equal_rate, shepherd: named(shepherd)?, online };
    let load = Load {
        gap_ns: number("time between bursts, in µs,", gap, 1..=MOST)? * 1000,
        hold_ns: number("time of a hold, in ns,", hold, 0..=MOST)?,
        others_hold_ns: number("time of another user's hold, in ns,", others_hold, 0..=MOST)?,
        latency_ns: number("time from a timer to what it starts, in ns,", latency, 0..=MOST)?,
        paused: number("percentage of pauses", paused, 0..=99)?,
    };
    let cpus = number("number of CPUs", cpus, 1..=1024)?;
    let size = Size {
        cpus,
        threads: number("number of threads", threads, 1..=online.of(cpus))?,
        interval_ns: number("interval, in µs,", interval, 1..=MOST)? * 1000,
        intervals: number("number of intervals", intervals, 1..=10_000)?,
    };
    let seed = number("seed", seed, 0..=u64::MAX)?;
    let mut drains = Vec::new();
    let figures = stagger(arm, size, (load, seed), &machine.threads(size.threads)?, |mark: Mark| {
        let waited = f64::from(u8::from(mark.has_waited));
        drains.extend([f64::from(mark.cpu), mark.at_ns as f64 / size.interval_ns as f64, waited]);
    });
    let figures = figures.ok_or_else(|| "there is no memory for so many CPUs".to_owned())?;
    Ok(if *what == "drains" { drains } else { figures.into() })
}
