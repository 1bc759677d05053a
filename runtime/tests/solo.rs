//! A process that has one thread all its life: the property of tests/properties.rs in solo mode.
//!
//! A program of its own, without the harness that cargo's tests have: that makes threads.

mod common;

use commensal::heap::report::Report;
use common::model::Heap;
use common::programs::{hold, operations, run_one};

const TEST: &str = "one_program_with_one_thread";

fn main() {
    let mut names = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).peekable();
    if names.peek().is_some() && !names.any(|name| TEST.contains(&name)) {
        return;
    }
    hold("solo", TEST, 2.0, operations(200), |program| {
        run_one(Heap, program)?;
        assert!(Report::read().is_none_or(|report| report.shared_for_ns.is_none()), "one thread is not solo mode");
        Ok(())
    });
    println!("test {TEST} ... ok");
}
