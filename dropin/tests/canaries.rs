//! The checks can fail: each is run under an allocator with a defect that it is there to find.
//!
//! The allocator is `c/broken.c`, built once for each defect. Without a defect it passes the same checks, so
//! what fails them is the defect.

use dropin::check::check;
use dropin::compile::broken;
use dropin::subject::Mode;
use std::time::Duration;

/// The check holds for the sound allocator; under the defect it fails with this text in its report.
fn found(defect: &str, line: &str, text: &str) {
    check(line).verdict(&broken("NONE"), Mode::Normal).unwrap_or_else(|report| panic!("{report}"));
    found_by_a_strict_check(defect, line, text);
}

/// As `found`, for a check that even the sound allocator, which keeps its chunks, doesn't pass.
fn found_by_a_strict_check(defect: &str, line: &str, text: &str) {
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
    // Blocks that say themselves how long they are may also lead astray when they are overwritten.
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
        found_by_a_strict_check("NONE", "memory returns 48", "memory is kept");
    memory_left_dirty_by_calloc_is_found: found("DIRTY", "threads together 20", "calloc(1, ");
    product_that_overflows_is_found: found("OVERFLOWS", "abi huge", "calloc");
    errno_changed_by_free_is_found: found("EATS_ERRNO", "abi errno", "set errno to");
    contents_lost_by_realloc_are_found: found("FORGETS", "abi realloc", "after realloc");
    usable_size_that_is_too_large_is_found: found("BOASTS", "abi sizes", "CHECK");
    crash_in_a_full_address_space_is_found: found("ABORTS_WHEN_FULL", "limits lowered", "Signalled");
    process_with_another_exit_status_is_found: found("CHANGES_STATUS", "abi zero", "Exited(9)");
    library_other_than_expected_is_found: found_by_a_strict_check("NONE", "abi names elsewhere", "comes from");
}

#[test]
fn lock_held_in_a_forked_child_is_found() {
    check("fork storm 300 fork").verdict(&broken("NONE"), Mode::Normal).unwrap_or_else(|report| panic!("{report}"));
    // Whatever is slow may count as hanging here.
    found_by_a_strict_check("LOCKED", "fork storm 1500 fork 2", "a child of fork hangs");
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
    let outcome = check("misuse interior 5000000").outcome(&broken("NONE"), Mode::Normal);
    assert!(outcome.stdout.contains("not found"), "{}", outcome.report("the sound allocator reports misuse"));
}
