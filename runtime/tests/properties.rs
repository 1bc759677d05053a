//! Property tests: sequences of operations at random, by one program or by several that hand blocks over, against a model.
//!
//! What is checked: alignment, room, zeroes, contents until the block is freed or moved, no byte owned twice, and at rest the
//! heap's own invariants and that it holds exactly the blocks that the program owns. Each sequence gets a process of its own, and
//! a failing one is shortened before it is shown. On the simulated machine it gets a machine of its own, too.
//! A process that never had two threads is in tests/solo.rs.

mod common;

use commensal_runtime::machine::test_support::play;
use common::programs::{become_shared, hold, operations, run_one, run_several, runner};
use common::subject::{Bug, Subject};
use common::{child, forked, random};
use proptest::collection::vec;
use proptest::strategy::Strategy;
use proptest::test_runner::{TestCaseError, TestError};

#[test]
fn heap_in_a_shared_process_agrees_with_the_model() {
    hold(1.0, operations(200), |program| {
        become_shared();
        run_one(Subject::new(None), program)
    });
}

#[test]
fn programs_that_hand_blocks_over() {
    let programs = vec(operations(150), 2..=4);
    hold(1.5, programs, |programs| run_several(programs));
}

/// Runs random programs on each planted bug, each in a process of its own, until it shows as one of what is expected.
#[test]
fn planted_bugs_show_as_what_they_are() {
    if child::case().is_none() {
        return child::run(&mut child::command("planted")).expect_success();
    }
    let bugs: [(Bug, &[&str]); 6] = [
        // Or the library finds that the block is freed twice.
        (Bug::SameBlockTwice(20), &["overlap: ", "died by signal 6", "double free of"]),
        (Bug::ForgetsToZero, &["zero: "]),
        (Bug::LosesAlignment, &["alignment: "]),
        (Bug::MovesWithoutContents, &["contents: "]),
        (Bug::PromisesTooMuch, &["overlap: ", "contents: "]),
        (Bug::Leaks(16), &["count: "]),
    ];
    for (bug, expected) in bugs {
        let tested = runner(random::seed(), 256).run(&operations(120).no_shrink(), |operations| {
            let case = || play(0, || run_one(Subject::new(Some(bug)), &operations));
            forked::run(case).map_err(TestCaseError::fail)
        });
        let Err(TestError::Fail(why, _)) = tested else { panic!("{bug:?} was not found") };
        let shown = expected.iter().any(|expected| why.message().contains(expected));
        assert!(shown, "{bug:?}: expected one of {expected:?}, found {why}");
    }
}
