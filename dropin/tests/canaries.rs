//! The checks can fail: each is run under a library with a defect that it is there to find.
//!
//! The defect is `c/broken.c`, built once for each, before the library under test. Without a defect the same checks
//! pass, so what fails them is the defect.

use dropin::check::check;
use dropin::compile::broken;
use dropin::subject::Mode;
use std::time::Duration;

/// The check holds without a defect; under this one it fails with this text in its report.
fn found(defect: &str, line: &str, text: &str) {
    check(line).verdict(&broken("NONE"), Mode::Normal).unwrap_or_else(|report| panic!("{report}"));
    found_alone(defect, line, text);
}

fn found_alone(defect: &str, line: &str, text: &str) {
    match check(line).verdict(&broken(defect), Mode::Normal) {
        Ok(outcome) => panic!("{}", outcome.report(&format!("`{line}` misses the defect {defect}"))),
        Err(report) => assert!(report.contains(text), "`{line}` fails under {defect} for another reason: {report}"),
    }
}

macro_rules! defects {
    ($($name:ident: $($found:expr),+;)*) => {
        $(#[test] fn $name() {
            $($found;)+
        })*
    };
}

defects! {
    // What is found of a block that two own depends on who writes to it first, or frees it again.
    block_handed_out_twice_is_found: found("TWICE", "threads together 20", "");
    misaligned_block_is_found:
        found("MISALIGNED", "abi sizes", "misaligned"),
        found("MISALIGNED", "abi alignments", "misaligned");
    memory_never_reused_is_found:
        found("LEAKS", "memory reuse 64", "memory is not reused"),
        found("LEAKS", "threads in_turn 3000", "memory is not reused"),
        found("LEAKS", "threads left_behind", "memory is not reused");
    memory_never_returned_is_found:
        found("KEEPS", "memory returns 5000000", "memory is kept"),
        found("LEAKS", "memory returns 48", "memory is kept");
    memory_left_dirty_by_calloc_is_found: found("DIRTY", "threads together 20", "calloc(1, ");
    product_that_overflows_is_found: found("OVERFLOWS", "abi huge", "calloc");
    errno_changed_by_free_is_found: found("EATS_ERRNO", "abi errno", "set errno to");
    contents_lost_by_realloc_are_found: found("FORGETS", "abi realloc", "after realloc");
    usable_size_that_is_too_large_is_found: found("BOASTS", "abi sizes", "CHECK");
    crash_in_a_full_address_space_is_found: found("ABORTS_WHEN_FULL", "limits lowered", "Signalled");
    process_with_another_exit_status_is_found: found("CHANGES_STATUS", "abi zero", "Exited(9)");
    library_other_than_expected_is_found: found_alone("NONE", "abi names elsewhere", "comes from");
}

#[test]
fn lock_held_in_a_forked_child_is_found() {
    check("fork storm 300 fork").verdict(&broken("NONE"), Mode::Normal).unwrap_or_else(|report| panic!("{report}"));
    // Whatever is slow may count as hanging here.
    found_alone("LOCKED", "fork storm 1500 fork 2", "a child of fork hangs");
}

#[test]
fn lock_held_in_a_signal_handler_is_found() {
    let timer = check("signals timer 0.5");
    timer.verdict(&broken("NONE"), Mode::Normal).unwrap_or_else(|report| panic!("{report}"));
    let report =
        timer.limit(Duration::from_secs(2)).verdict(&broken("LOCKED"), Mode::Normal).expect_err("a hang was missed");
    assert!(report.contains("TimedOut"), "it fails for another reason: {report}");
}

#[test]
fn misuse_that_goes_unnoticed_is_told_as_not_found() {
    let outcome = check("misuse interior 5000000").outcome(&broken("LEAKS"), Mode::Normal);
    assert!(outcome.stdout.contains("not found"), "{}", outcome.report("misuse is noticed that is not done"));
}
