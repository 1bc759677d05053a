//! `machine::clock`: monotonic time, and a rough measure that is cheaper.

use crate::case::{Findings, Outcome, demand, operations};
use crate::runner::{Placement, Runner, crowd};
use machine::sync::{AtomicU64, Ordering};
use machine::{clock, thread};

operations! {
    /// Nanoseconds since some moment: a reading is not less than any that happened before it, on whichever thread.
    now_ns: fn() -> u64 = clock::now_ns,
    /// Units of [`clock::COARSE_NS`], about. On one CPU an interval is right to one in a thousand, once
    /// [`now_ns`](Self::now_ns) was read twice, 20 ms apart; before that, to a factor of three.
    coarse: fn() -> u64 = clock::coarse,
}

crate::cases! {
    CASES of Operations::MACHINE;
    "clock::now_ns" => monotonic, {
        "each thread has its own" { now_ns: || clock::now_ns() + thread::identity() % 2 * 1_000_000 }
    }
    "clock::coarse" => roughly_right, {
        "too fast" { coarse: || clock::coarse() * 8 }
        "stands still" { coarse: || 7 }
    }
}

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
    findings.outcome()
}

/// A tenth is allowed for reading two clocks one after the other. A thread that sleeps in between tries again.
pub fn roughly_right(_: &dyn Runner, operations: &Operations) -> Outcome {
    const INTERVAL_NS: u64 = 3_000_000;
    let rates = (0..20).map(|_| {
        let (start, first) = ((operations.now_ns)(), (operations.coarse)());
        while (operations.now_ns)() < start + INTERVAL_NS {}
        let passed = (operations.coarse)().wrapping_sub(first).wrapping_mul(clock::COARSE_NS) as i64;
        passed as f64 / ((operations.now_ns)() - start) as f64
    });
    let is_right = rates.into_iter().any(|rate| (0.9..1.1).contains(&rate));
    is_right.then_some(()).ok_or_else(|| "the coarse clock is wrong by more than a tenth, each time".into())
}
