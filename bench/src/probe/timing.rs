//! Best rounds, and threads that stay on CPUs of their own.

use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Nanoseconds of one of so many in a round, the best of some rounds: whatever disturbs a round makes it longer.
pub fn best_ns(rounds: usize, times: u64, mut round: impl FnMut(u64)) -> f64 {
    let one = |_| {
        let start = Instant::now();
        round(times);
        start.elapsed().as_secs_f64() * 1e9 / times as f64
    };
    (0..rounds).map(one).fold(f64::INFINITY, f64::min)
}

/// Mean nanoseconds of what may take long: as often as the time allows, but at least so often.
pub fn mean_ns(budget: Duration, least: u32, mut work: impl FnMut()) -> f64 {
    let (start, mut done) = (Instant::now(), 0);
    while done < least || start.elapsed() < budget {
        work();
        done += 1;
    }
    start.elapsed().as_secs_f64() * 1e9 / f64::from(done)
}

/// The CPUs that the calling thread may run on.
pub fn allowed() -> CpuSet {
    sched_getaffinity(None).unwrap_or_default()
}

/// Keeps the calling thread on one of these CPUs, by number: else the scheduler may put two threads on one, where none is in the other's way. Where there
/// are not as many, or it is forbidden, it runs as the scheduler has it.
pub fn stay_on(allowed: &CpuSet, number: usize) {
    let mut one = CpuSet::new();
    if let Some(cpu) = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).nth(number) {
        one.set(cpu);
        let _ = sched_setaffinity(None, &one);
    }
}
