//! Property tests: sequences of operations at random, by one program or by several that hand blocks over, against a model.
//!
//! What is checked: alignment, room, zeroes, contents until the block is freed or moved, no byte owned twice, and at rest the
//! heap's own invariants and that it holds exactly the blocks that the program owns. Each sequence gets a process of its own, and
//! a failing one is shortened before it is shown. On the simulated machine it gets a machine of its own, too. `COMMENSAL_TEST_EFFORT` multiplies how long the tests take in each of the two
//! modes of the machine instead of a few seconds. A process that never had two threads is in tests/solo.rs.
//!
//! Planted bugs, each in the test that has to report it: the same block given twice, zeroing forgotten, alignment lost, contents
//! lost in a move, more room promised than there is, blocks leaked.

mod common;

use commensal::machine::test_support::play;
use common::model::{Heap, Subject, Violation};
use common::programs::{become_shared, hold, operations, operations_that_meet, run_one, run_several, runner};
use common::{child, forked, planted, random};
use proptest::collection::vec;
use proptest::strategy::Strategy;
use proptest::test_runner::{TestCaseError, TestError};

/// Runs random programs on a planted bug, in a process of its own, until it shows; it must show as one of `expected`.
fn must_show<S: Subject>(expected: &[Violation], subject: impl Fn() -> S) {
    if child::case().is_none() {
        let outcome = child::run(&mut child::command("planted"));
        return outcome.expect_success();
    }
    let tested = runner(random::seed(), 256).run(&operations(120).no_shrink(), |operations| {
        let run = || play(0, || run_one(subject(), &operations));
        forked::run(|| run().map_err(|failure| failure.to_string())).map_err(TestCaseError::fail)
    });
    let Err(TestError::Fail(why, _)) = tested else { panic!("the planted bug was not found") };
    let shown = expected.iter().any(|expected| why.message().starts_with(&format!("{expected:?}: ")));
    assert!(shown, "expected one of {expected:?}, found {why}");
}

#[test]
fn heap_in_a_shared_process_agrees_with_the_model() {
    hold(1.0, operations(200), |program| {
        become_shared();
        run_one(Heap, program)
    });
}

#[test]
fn programs_that_hand_blocks_over() {
    let programs = vec(operations(150), 2..=4);
    hold(1.5, programs, |programs| run_several(programs));
}

#[test]
fn programs_that_meet_in_two_classes() {
    let programs = vec(operations_that_meet(60), 2..=4);
    hold(1.0, programs, |programs| run_several(programs));
}

#[test]
fn planted_a_block_given_twice_is_an_overlap() {
    let subject = || planted::SameBlockTwice::new(20);
    must_show(&[Violation::Overlap], subject);
}

#[test]
fn planted_forgotten_zeroing_is_found() {
    must_show(&[Violation::Zero], || planted::ForgetsToZero);
}

#[test]
fn planted_lost_alignment_is_found() {
    must_show(&[Violation::Alignment], || planted::LosesAlignment);
}

#[test]
fn planted_lost_contents_are_found() {
    must_show(&[Violation::Contents], || planted::MovesWithoutContents);
}

#[test]
fn planted_room_of_the_neighbour_is_found() {
    must_show(&[Violation::Overlap, Violation::Contents], || planted::PromisesTooMuch);
}

#[test]
fn planted_leaks_are_counted() {
    must_show(&[Violation::Count], planted::Leaks::default);
}
