//! `machine::probe`: probes for tracers outside of the process.

use crate::case::{Outcome, ensure, operations};
use crate::runner::Runner;
use core::ptr::without_provenance_mut;
use machine::probe;

operations! {
    /// tracers > 0
    is_traced: fn() -> bool = probe::is_traced,
    /// tracers += 1
    attach: fn() = probe::attach,
    /// tracers -= 1
    detach: fn() = probe::detach,
}

crate::cases! {
    CASES of Operations::MACHINE;
    "probe::is_traced" => counted, {
        "sees none" { is_traced: || false }
        "sees one that has gone" { is_traced: || true }
    }
    "probe::attach" => counted, {
        "counts nothing" { attach: || () }
    }
    "probe::detach" => counted, {
        "counts nothing" { detach: || () }
    }
}

/// The probes themselves do nothing here, with and without a tracer.
pub fn counted(_: &dyn Runner, operations: &Operations) -> Outcome {
    let mut tracers = 0;
    for change in [1, 1, -1, -1, 1, -1] {
        (if change > 0 { operations.attach } else { operations.detach })();
        tracers += change;
        let is_traced = (operations.is_traced)();
        ensure!(is_traced == (tracers > 0), "{tracers} tracers, and is_traced says {is_traced}");
        let block = without_provenance_mut(4096);
        probe::allocated(block, 100, 200);
        probe::freed(block);
    }
    Ok(())
}
