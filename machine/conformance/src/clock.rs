//! `machine::clock`: monotonic time, and a rough measure that is cheaper.

use crate::case::{Findings, Outcome, demand, ensure, operations};
use crate::runner::{Placement, Runner, crowd};
use machine::sync::{AtomicU64, Ordering};
use machine::{clock, thread};

operations! {
    /// Nanoseconds since some moment: a reading is not less than any that happened before it, on whichever thread.
    now_ns: fn() -> u64 = clock::now_ns,
    /// Rises by one to five in a nanosecond, on one CPU; may differ a little between CPUs.
    ticks: fn() -> u64 = clock::ticks,
}

crate::cases! {
    CASES of Operations::MACHINE;
    "clock::now_ns" => monotonic, {
        "each thread has its own" { now_ns: || clock::now_ns() + thread::identity() % 2 * 1_000_000 }
    }
    "clock::ticks" => ticking, {
        "too fast" { ticks: || clock::ticks() * 8 }
        "stands still" { ticks: || 7 }
    }
}

/// The body of [`Operations::now_ns`].
pub fn monotonic(runner: &dyn Runner, operations: &Operations) -> Outcome {
    const READINGS: usize = 50_000;
    let (latest, findings) = (AtomicU64::new(0), Findings::new());
    let job = |_| {
        for _ in 0..READINGS {
            // Acquire and release: who sees a reading reads after it.
            let before = latest.load(Ordering::Acquire);
            let now = (operations.now_ns)();
            demand!(findings, before <= now, "the clock went back: before, now", before, now);
            latest.fetch_max(now, Ordering::AcqRel);
        }
    };
    runner.run(Placement::Moved, crowd(runner.width(), &job), None);
    findings.outcome()?;
    Ok(format!("{} readings", READINGS * runner.width()))
}

/// The body of [`Operations::ticks`]. It allows a quarter for reading two clocks one after the other, and tries again
/// if the thread was descheduled in between.
pub fn ticking(_: &dyn Runner, operations: &Operations) -> Outcome {
    const INTERVAL_NS: u64 = 3_000_000;
    let mut rate = 0.0;
    for _ in 0..10 {
        let (start, first) = ((operations.now_ns)(), (operations.ticks)());
        while (operations.now_ns)() < start + INTERVAL_NS {}
        let ticks = (operations.ticks)().wrapping_sub(first) as i64;
        rate = ticks as f64 / ((operations.now_ns)() - start) as f64;
        if (0.75..6.25).contains(&rate) {
            return Ok(format!("{rate:.2} a nanosecond"));
        }
    }
    ensure!(false, "ticks rise by {rate} in a nanosecond, not by 1 to 5");
    Ok(String::new())
}
