//! `machine::fault`: failures on demand. That each point fails what it says is tested with the operation that fails.

use crate::case::{Outcome, ensure, operations};
use crate::runner::{Placement, Runner, crowd, repeat};
use machine::fault::{self, Plan, Point};
use machine::sync::{AtomicU64, Ordering};

operations! {
    /// Sets how a point fails from now on.
    ///
    /// ```text
    /// arm(point, plan):
    ///     plan(point), passages(point) = plan, 0
    /// ```
    arm: fn(Point, Plan) = fault::arm,

    /// Passes a point.
    ///
    /// ```text
    /// fails(point):
    ///     atomically: n = passages(point); passages(point) = n + 1
    ///     return plan(point) = Once(skip) and n = skip
    ///         or plan(point) = Always(skip) and n ≥ skip
    /// ```
    fails: fn(Point) -> bool = fault::fails,
}

crate::cases! {
    CASES of Operations::MACHINE;
    "fault::fails" => planned, {
        "counts in two steps" { arm: planted::arm, fails: planted::fails }
        "arms all points" {
            arm: |_, plan| {
                let points = [Point::Reserve, Point::Decommit, Point::Kick, Point::Mark];
                points.into_iter().for_each(|point| fault::arm(point, plan));
            }
        }
    }
}

pub fn planned(runner: &dyn Runner, operations: &Operations) -> Outcome {
    repeat(runner, || pass_by_plans(runner, operations))
}

fn pass_by_plans(runner: &dyn Runner, operations: &Operations) -> Outcome {
    const PASSAGES: u64 = 5_000;
    let all = PASSAGES * runner.width() as u64;
    let skip = (all / 3) as u32;
    let plans = [
        (Plan::Never, 0),
        (Plan::Once { skip: 0 }, 1),
        (Plan::Once { skip }, 1),
        (Plan::Once { skip: all as u32 }, 0),
        (Plan::Always { skip: 0 }, all),
        (Plan::Always { skip }, all - skip as u64),
        (Plan::Never, 0),
    ];
    for (plan, expected) in plans {
        (operations.arm)(Point::Kick, plan);
        let (failed, others) = (AtomicU64::new(0), AtomicU64::new(0));
        let job = |_| {
            let passages = (0..PASSAGES).filter(|_| (operations.fails)(Point::Kick)).count();
            failed.fetch_add(passages as u64, Ordering::Relaxed);
            others.fetch_add((operations.fails)(Point::Reserve) as u64, Ordering::Relaxed);
        };
        // Threads are made of reserved memory: other points must stay as they are.
        runner.run(Placement::Moved, crowd(runner.width(), &job), None);
        let (failed, others) = (failed.into_inner(), others.into_inner());
        ensure!(failed == expected, "of {all} passages, {failed} failed by {plan:?}, not {expected}");
        ensure!(others == 0, "a point that is not armed failed {others} times");
    }
    Ok(())
}

mod planted {
    use super::*;

    static LEFT: AtomicU64 = AtomicU64::new(0);
    static ALWAYS: AtomicU64 = AtomicU64::new(0);
    const NEVER: u64 = u64::MAX;

    pub(super) fn arm(_: Point, plan: Plan) {
        let (left, always) = match plan {
            Plan::Never => (NEVER, 0),
            Plan::Once { skip } => (skip as u64, 0),
            Plan::Always { skip } => (skip as u64, 1),
        };
        LEFT.store(left, Ordering::Relaxed);
        ALWAYS.store(always, Ordering::Relaxed);
    }

    pub(super) fn fails(point: Point) -> bool {
        let left = LEFT.load(Ordering::Relaxed);
        if point != Point::Kick || left == NEVER {
            return false;
        }
        if left > 0 {
            LEFT.store(left - 1, Ordering::Relaxed);
        } else if ALWAYS.load(Ordering::Relaxed) == 0 {
            LEFT.store(NEVER, Ordering::Relaxed);
        }
        left == 0
    }
}
