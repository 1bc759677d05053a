//! One measurement of one way to count: with Commensal's counters by a direct handle and behind the facade `metrics`, and with those of the crates
//! `prometheus` and `prometheus-client`.
//!
//! All threads increment the same counter, which one of them has used before the others came. What is taken each of them counts until the first has
//! used up its time: what the others then had left would be done without anybody in their way.

mod arms;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

pub use arms::names;

/// Rounds of which the median counts, and how long each takes. Of threads that are in each other's way there is no best: it would be the round in
/// which one was held up elsewhere.
const ROUNDS: usize = 15;
const ROUND: Duration = Duration::from_millis(2);
/// Between two looks at the clock.
const BATCH: u64 = 2_000;
const MOST_THREADS: usize = 64;

/// So many increments.
type Work = Box<dyn Fn(u64) + Send + Sync>;

/// What the words ask for: `THREADS ARM`, nanoseconds of an increment.
pub fn measure(words: &[&str]) -> Result<f64, String> {
    let [threads, name] = words else {
        return Err(format!("expected THREADS ARM, found {words:?}"));
    };
    let threads = threads.parse().ok().filter(|threads| (1..=MOST_THREADS).contains(threads));
    let threads = threads.ok_or_else(|| format!("expected 1 to {MOST_THREADS} threads, found {words:?}"))?;
    Ok(increment_ns(&arms::named(name)?, threads))
}

fn increment_ns(work: &Work, threads: usize) -> f64 {
    let allowed = sched_getaffinity(None).unwrap_or_default();
    // The first to use it.
    work(BATCH);
    let (here, is_over) = (AtomicUsize::new(0), [const { AtomicBool::new(false) }; ROUNDS]);
    let rounds = |number: usize| {
        stay_on(&allowed, number);
        // Whoever comes new is known before it counts.
        work(BATCH);
        let round = |(round, is_over): (usize, &AtomicBool)| {
            here.fetch_add(1, Ordering::Relaxed);
            // Awake: who has to be woken comes when the others are done.
            while here.load(Ordering::Relaxed) < (round + 1) * threads {
                thread::yield_now();
            }
            let (begin, mut done) = (Instant::now(), 0);
            while !is_over.load(Ordering::Relaxed) {
                work(BATCH);
                done += BATCH;
                is_over.fetch_or(begin.elapsed() >= ROUND, Ordering::Relaxed);
            }
            (begin.elapsed().as_secs_f64() * 1e9, done as f64)
        };
        is_over.iter().enumerate().map(round).collect::<Vec<_>>()
    };
    let all: Vec<Vec<(f64, f64)>> = thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|number| scope.spawn(move || rounds(number))).collect();
        let own = rounds(0);
        let others = others.into_iter().map(|other| other.join().expect("no arm panics"));
        [own].into_iter().chain(others).collect()
    });
    let of_round = |round: usize| {
        let sum = all.iter().map(|rounds| rounds[round]).fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        sum.0 / sum.1
    };
    let mut rounds: Vec<f64> = (0..ROUNDS).map(of_round).collect();
    rounds.sort_by(f64::total_cmp);
    rounds[ROUNDS / 2]
}

/// Keeps the calling thread on one of the CPUs that it may run on, by number, where there are as many.
fn stay_on(allowed: &CpuSet, number: usize) {
    let mut one = CpuSet::new();
    if let Some(cpu) = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).nth(number) {
        one.set(cpu);
        let _ = sched_setaffinity(None, &one);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_arm_counts() {
        for name in names() {
            for threads in ["1", "2"] {
                assert!(measure(&[threads, name]).expect("it counts") > 0.0, "{name}");
            }
        }
        assert!(measure(&["0", "prometheus"]).is_err());
        assert!(measure(&["1", "abacus"]).expect_err("no arm").contains("abacus"));
    }
}
