//! One measurement of one kind of reader, or of who waits for readers: Commensal's, liburcu's, crossbeam-epoch's, seize's, arc-swap's.
//!
//! Readers are inlined into the loop that is timed, in the language that they were made for, unless their name says that they are called.

mod flavours;
mod retire;

use flavours::{Flavour, named};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

pub use flavours::{CALLED, checking, reading, waiting};
pub use retire::RETIRING;

/// Rounds of which the best counts.
const ROUNDS: usize = 15;
/// Sections in a round.
const SECTIONS: u64 = 1_000_000;
/// Between two looks at the clock while somebody reads besides.
const BURST: u64 = 200;
/// Grace periods of which the median counts.
const GRACE_PERIODS: usize = 2_000;
/// Objects of a round, and rounds of which the best counts.
const OBJECTS: u64 = 2_000_000;
const RETIRE_ROUNDS: usize = 5;
/// Until another thread surely runs.
const START: Duration = Duration::from_millis(5);

/// What the words ask for: `read 0|1 FLAVOUR`, nanoseconds of a section, with as many threads that read besides; `synchronize FLAVOUR`, nanoseconds until readers have
/// been waited for, with one running; `checkpoint FLAVOUR`, nanoseconds of one that finds nothing new; `retire FLAVOUR`, nanoseconds to allocate, retire and free 64 bytes.
pub fn measure(words: &[&str]) -> Result<f64, String> {
    match words {
        ["read", others @ ("0" | "1"), name] => Ok(read(named(name)?, *others == "1")),
        ["checkpoint", name] => Ok(time_each(named(name)?, |flavour| flavour.checkpoints)),
        ["synchronize", name] => {
            let flavour = named(name)?;
            let wait = flavour.synchronize.ok_or_else(|| format!("with {name}, nobody waits for readers"))?;
            Ok(synchronize(flavour, wait))
        }
        ["retire", name] => {
            let known = RETIRING.iter().find(|(known, _)| known == name);
            let (_, retire) = known.ok_or_else(|| format!("with {name}, nothing is retired"))?;
            Ok(time_retiring(*retire))
        }
        _ => Err(format!(
            "expected read 0|1 FLAVOUR, checkpoint FLAVOUR, synchronize FLAVOUR or retire FLAVOUR, found {words:?}"
        )),
    }
}

fn read(flavour: Flavour, with_another: bool) -> f64 {
    let time = || time_each(flavour, |flavour| flavour.read);
    if with_another { beside_a_reader(flavour, time) } else { time() }
}

/// Nanoseconds of one of what a flavour does so many times.
fn time_each(flavour: Flavour, what: impl Fn(Flavour) -> fn(u64)) -> f64 {
    (flavour.begin)();
    let work = what(flavour);
    let best = (0..ROUNDS).map(|_| {
        let start = Instant::now();
        work(SECTIONS);
        start.elapsed().as_secs_f64() * 1e9 / SECTIONS as f64
    });
    let best = best.fold(f64::INFINITY, f64::min);
    (flavour.end)();
    best
}

fn time_retiring(retire: fn(u64)) -> f64 {
    // As a program that has readers: with a second thread.
    thread::spawn(|| ()).join().expect("the thread does nothing");
    let time = || {
        let start = Instant::now();
        retire(OBJECTS);
        start.elapsed().as_secs_f64() * 1e9 / OBJECTS as f64
    };
    (0..RETIRE_ROUNDS).map(|_| time()).fold(f64::INFINITY, f64::min)
}

fn synchronize(flavour: Flavour, wait: fn()) -> f64 {
    beside_a_reader(flavour, || {
        let time = |_| {
            let start = Instant::now();
            wait();
            start.elapsed().as_nanos() as f64
        };
        let mut times: Vec<f64> = (0..GRACE_PERIODS).map(time).collect();
        times.sort_by(f64::total_cmp);
        times[GRACE_PERIODS / 2]
    })
}

/// Keeps the calling thread on one of the CPUs that it may run on, by number: else the scheduler may put reader and waiter on one, where nobody waits for a
/// running reader. Where there are not as many, or it is forbidden, it runs as the scheduler has it.
fn stay_on(allowed: &CpuSet, number: usize) {
    let cpu = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).nth(number);
    let mut one = CpuSet::new();
    if let Some(cpu) = cpu {
        one.set(cpu);
        let _ = sched_setaffinity(None, &one);
    }
}

fn beside_a_reader<R>(flavour: Flavour, work: impl FnOnce() -> R) -> R {
    let stop = AtomicBool::new(false);
    let allowed = sched_getaffinity(None).unwrap_or_default();
    thread::scope(|scope| {
        scope.spawn(|| {
            stay_on(&allowed, 1);
            (flavour.begin)();
            while !stop.load(Ordering::Relaxed) {
                (flavour.read)(BURST);
                (flavour.checkpoint)();
            }
            (flavour.end)();
        });
        stay_on(&allowed, 0);
        thread::sleep(START);
        let result = work();
        stop.store(true, Ordering::Relaxed);
        let _ = sched_setaffinity(None, &allowed);
        result
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_flavour_reads_and_waits() {
        for name in reading().into_iter().filter(|name| *name != CALLED) {
            assert!(measure(&["read", "1", name]).unwrap() > 0.0, "{name}");
        }
        assert!(measure(&["read", "0", CALLED]).unwrap_err().contains("preloaded"));
        for name in waiting() {
            assert!(measure(&["synchronize", name]).unwrap() > 0.0, "{name}");
        }
        for name in checking() {
            assert!(measure(&["checkpoint", name]).unwrap() > 0.0, "{name}");
        }
        for (name, _) in RETIRING {
            assert!(measure(&["retire", name]).unwrap() > 0.0, "{name}");
        }
        assert!(measure(&["retire", "arc-swap"]).is_err());
        assert!(measure(&["synchronize", "arc-swap"]).is_err());
        assert!(measure(&["read", "0", "dinner"]).unwrap_err().contains("dinner"));
    }
}
