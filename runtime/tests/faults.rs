//! Failures injected at every allocation of address space.
//!
//! A fixed program runs with the n-th reservation (or commit) failing, for n = 0, 1, 2, … until it gets through without coming
//! that far; once with only that one failing, and once with all from there on. Each time in a fresh process, where the first one
//! is the runtime's own region. Checked each time: what cannot be had is null, what the program owns stays as it was, the heap's
//! invariants hold, and everything works again afterwards.
//!
//! Planted: a heap that goes on with what it had when there was no more.

mod common;

use commensal_runtime::heap;
use commensal_runtime::machine::fault::{self, Plan, Point};
use common::child;
use common::model::{AtRest, Failure, Model, Operation, Owned};
use common::random::Random;
use common::subject::{Bug, Subject};

/// The program is the same in every run.
const SEED: u64 = 7;
const STEPS: usize = 400;
const LIMIT: usize = 384 << 20;
/// More passages than the program makes.
const TOO_MANY: u32 = 1000;

/// Small blocks for arrays and spans, larger ones for segments, and blocks with mappings of their own.
fn program(seed: u64) -> impl Iterator<Item = Operation> {
    let mut random = Random::new(seed, 0);
    (0..STEPS).map(move |_| {
        let bytes = match random.below(8) {
            0 => random.size(23),
            1 if random.once_in(16) => (64 << 20) + random.below(16 << 20),
            _ => random.size(17),
        };
        let which = random.next() as u32;
        match random.below(16) {
            0 => Operation::AllocateZeroed { bytes },
            1 => Operation::AllocateAligned { bytes, log2_alignment: random.below(25) as u32 },
            2 | 3 => Operation::Reallocate { which, bytes },
            4..7 => Operation::Free { which },
            7 if random.once_in(8) => Operation::Trim { keep: 0 },
            _ => Operation::Allocate { bytes },
        }
    })
}

/// Whether the plan's failure, which must come within so many passages, has come. Uses the plan up.
fn has_come(plan: Plan) -> bool {
    match plan {
        Plan::Never => false,
        Plan::Once { skip } => !(0..=skip).any(|_| fault::fails(Point::Reserve)),
        Plan::Always { .. } => fault::fails(Point::Reserve),
    }
}

/// Runs the program with a failure planned, and again without; whether the failure came.
fn run(plan: Plan, bug: Option<Bug>) -> Result<bool, Failure> {
    fault::arm(Point::Reserve, plan);
    let (owned, at_rest) = (Owned::default(), AtRest::begin());
    let mut model = Model::new(Subject::new(bug), owned.clone(), 1, LIMIT);
    model.may_fail = true;
    for (step, operation) in program(SEED).enumerate() {
        model.step(operation)?;
        if step % 8 == 0 {
            at_rest.check(&owned)?;
        }
    }
    model.check_all()?;
    at_rest.check(&owned)?;
    if matches!(plan, Plan::Always { skip: 0 }) {
        assert_eq!(model.len(), 0, "blocks without any address space");
    }
    let (came, nulls) = (has_come(plan), model.nulls);
    fault::arm(Point::Reserve, Plan::Never);
    if !came && nulls > 0 {
        return Err(format!("null: {nulls} times, and nothing failed"));
    }
    // The same program with other numbers, now that nothing fails.
    model.may_fail = false;
    program(SEED + 1).try_for_each(|operation| model.step(operation))?;
    model.free_all()?;
    heap::trim(0);
    at_rest.check(&owned)?;
    Ok(came)
}

/// Runs the program for every n in processes of their own.
fn run_all(plan: fn(u32) -> Plan) {
    if let Some(skip) = child::case() {
        let came = run(plan(skip.parse().expect("a number")), None).unwrap_or_else(|failure| panic!("{failure}"));
        return println!("failure came: {came}");
    }
    for skip in 0..TOO_MANY {
        let outcome = child::run(&mut child::command(&skip.to_string()));
        outcome.expect_success();
        if outcome.stdout.contains("failure came: false") {
            return println!("{skip} places");
        }
    }
    panic!("the program needs more than {TOO_MANY} passages");
}

#[test]
fn any_one_reservation_may_fail() {
    run_all(|skip| Plan::Once { skip });
}

#[test]
fn heap_with_all_later_reservations_failing_stays_whole() {
    run_all(|skip| Plan::Always { skip });
}

#[test]
fn planted_ignoring_a_failed_reservation_is_found() {
    if child::case().is_some() {
        let found = run(Plan::Always { skip: 6 }, Some(Bug::IgnoresFailedReserve));
        return println!("found: {}", found.expect_err("the planted bug was not found"));
    }
    let outcome = child::run(&mut child::command("planted"));
    outcome.expect_success();
    assert!(outcome.stdout.contains("found: "), "{}", outcome.report());
}
