//! `machine::process`: the random bits of a process.

use crate::case::{Outcome, ensure, operations};
use crate::runner::{Runner, alone, in_children};
use machine::process;
use machine::sync::{AtomicU64, Ordering};

operations! {
    /// Random bits of the process: the same at each call, on each thread, and in each fork child. Zero if addresses
    /// shall be the same in each run. It makes no system call.
    randomness: fn() -> u64 = process::randomness,
}

crate::cases! {
    CASES of Operations::MACHINE;
    "process::randomness" => the_same, {
        "another at each call" { randomness: planted::counted }
    }
}

pub fn the_same(runner: &dyn Runner, operations: &Operations) -> Outcome {
    let first = (operations.randomness)();
    ensure!(first == (operations.randomness)(), "the second call gave other bits");
    ensure!(alone(runner, || (operations.randomness)()) == first, "another thread got other bits");
    in_children(runner, |_| {
        ensure!((operations.randomness)() == first, static "a child got other bits");
        Ok(())
    })
}

mod planted {
    use super::*;

    static CALLS: AtomicU64 = AtomicU64::new(0);

    pub(super) fn counted() -> u64 {
        CALLS.fetch_add(1, Ordering::Relaxed)
    }
}
