//! Upkeep: one arm of one row of `lab stagger`.

use super::super::workload::stagger::{Arm, Load, Mark, Online, Shepherd, Size, Way, stagger};
use super::{Machine, named, number, number_in};

const EXPECTED: &str = "run or drains, then CPUS THREADS INTERVAL_US INTERVALS GAP_US HOLD_NS OTHERS_HOLD_NS LATENCY_NS PAUSED_PERCENT EQUAL_RUN_RATE SHEPHERD ONLINE SEED ARM";
const MOST_CPUS: usize = 1024;
const MOST_US: usize = 1_000_000_000;
const MOST_INTERVALS: usize = 10_000;
const MOST_NS: usize = 1_000_000_000;

/// Measures what the words say: the figures, or each drain's CPU, time in intervals, and 1 if it waited; or what is wrong with the words.
pub fn measure(words: &[&str], machine: &impl Machine) -> Result<Vec<f64>, String> {
    let [what @ ("run" | "drains"), cpus, threads, interval, intervals, ref words @ ..] = *words else {
        return Err(format!("the arguments are {words:?}; expected {EXPECTED}"));
    };
    let [gap, hold, others_hold, latency, paused, equal_rate, shepherd, online, seed, way] = *words else {
        return Err(format!("there are {} arguments more; expected {EXPECTED}", words.len()));
    };
    let way = named(way, &Way::ALL, Way::word)?;
    let shepherd = named(shepherd, &Shepherd::ALL, Shepherd::word)?;
    let online = named(online, &Online::ALL, Online::word)?;
    let has_equal_rate = number_in("answer whether all run as often", equal_rate, 0..=1)? == 1;
    let seed = number_in("seed", seed, 0..=usize::MAX)? as u64;
    let nanoseconds = |what, word| Ok::<_, String>(number_in(what, word, 0..=MOST_NS)? as u64);
    let load = Load {
        gap_ns: number("time between bursts, in µs,", gap, MOST_US)? as u64 * 1000,
        hold_ns: nanoseconds("time of a hold, in ns,", hold)?,
        others_hold_ns: nanoseconds("time of another user's hold, in ns,", others_hold)?,
        latency_ns: nanoseconds("time from a timer to what it starts, in ns,", latency)?,
        paused: number_in("percentage of pauses", paused, 0..=99)? as u32,
    };
    let cpus = number("number of CPUs", cpus, MOST_CPUS)? as u32;
    let threads = number("number of threads", threads, online.of(cpus) as usize)? as u32;
    let interval_ns = number("interval, in µs,", interval, MOST_US)? as u64 * 1000;
    let intervals = number("number of intervals", intervals, MOST_INTERVALS)? as u64;
    let size = Size { cpus, threads, interval_ns, intervals };
    let arm = Arm { way, has_equal_rate, shepherd, online };
    let mut drains = Vec::new();
    let of = stagger(arm, size, (load, seed), &machine.threads(threads)?, |mark: Mark| {
        let waited = f64::from(u8::from(mark.has_waited));
        drains.extend([f64::from(mark.cpu), mark.at_ns as f64 / interval_ns as f64, waited]);
    });
    let of = of.ok_or_else(|| "there is no memory for so many CPUs".to_owned())?;
    if what == "drains" {
        return Ok(drains);
    }
    let waits = of.waits;
    let average_ns = waits.total_wait_ns as f64 / waits.contended.max(1) as f64;
    let [total, most] = [waits.total_wait_ns, waits.max_wait_ns].map(|ns| ns as f64 / 1e6);
    let waited = [waits.contended as f64, total, most, average_ns / 1e3];
    let done = [of.drains_per_interval, of.pages_per_interval, of.periods[0], of.periods[1]];
    let besides = [f64::from(of.stranded_pages), of.ahead_max as f64, of.load_waits.contended as f64, of.missed as f64];
    Ok([waited, done, besides].concat())
}
