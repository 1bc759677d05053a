//! The checks can fail: each is run under an allocator with a defect that it is there to find.
//!
//! The allocator is `c/broken.c`, built once for each defect. Without a defect it passes the same checks, so
//! what fails them is the defect. Likewise `c/broken_counter.c` has defects for the checks of counters.

use dropin::check::check;
use dropin::compile;
use dropin::run::{End, Outcome, Run};
use dropin::subject::{Library, Mode};
use std::time::Duration;

fn allocator(defect: &str) -> Library {
    let output = format!("broken_{}", defect.to_lowercase());
    Library::at(compile::shared_library("broken", &output, &[&format!("-DDEFECT={defect}")]))
}

/// The check holds for the sound allocator; under the defect it fails with this text in its report.
fn found(defect: &str, line: &str, text: &str) {
    check(line).verdict(&allocator("NONE"), Mode::Normal).unwrap_or_else(|report| panic!("{report}"));
    found_by_a_strict_check(defect, line, text);
}

/// As `found`, for a check that even the sound allocator, which keeps its chunks, doesn't pass.
fn found_by_a_strict_check(defect: &str, line: &str, text: &str) {
    match check(line).verdict(&allocator(defect), Mode::Normal) {
        Ok(outcome) => panic!("{}", outcome.report(&format!("`{line}` misses the defect {defect}"))),
        Err(report) => assert!(report.contains(text), "`{line}` fails under {defect} for another reason: {report}"),
    }
}

#[test]
fn a_block_handed_out_twice() {
    found("TWICE", "abi overlap", "block overwritten");
    // Blocks that say themselves how long they are may also lead astray when they are overwritten.
    found("TWICE", "threads together 1", "");
}

#[test]
fn a_misaligned_block() {
    found("MISALIGNED", "abi sizes", "misaligned");
    found("MISALIGNED", "abi alignments", "misaligned");
}

#[test]
fn memory_that_is_never_used_again() {
    found("LEAKS", "memory reuse 64", "memory is not reused");
    found("LEAKS", "threads in_turn 3000", "memory is not reused");
    found("LEAKS", "threads left_behind", "memory is not reused");
}

#[test]
fn memory_that_does_not_go_back() {
    found("KEEPS", "memory returns 5000000", "memory is kept");
    found_by_a_strict_check("NONE", "memory returns 48", "memory is kept");
}

#[test]
fn a_lock_that_a_forked_child_finds_taken() {
    found("LOCKED", "fork storm 1500 0 fork 15", "a child of fork hangs");
}

#[test]
fn a_lock_that_a_signal_handler_finds_taken() {
    let timer = check("signals timer 1");
    timer.verdict(&allocator("NONE"), Mode::Normal).unwrap_or_else(|report| panic!("{report}"));
    let report =
        timer.limit(Duration::from_secs(5)).verdict(&allocator("LOCKED"), Mode::Normal).expect_err("a hang was missed");
    assert!(report.contains("TimedOut"), "it fails for another reason: {report}");
}

#[test]
fn memory_that_calloc_leaves_dirty() {
    found("DIRTY", "abi calloc", "calloc: byte");
}

#[test]
fn a_product_that_overflows() {
    found("OVERFLOWS", "abi huge", "calloc");
}

#[test]
fn an_errno_that_free_changes() {
    found("EATS_ERRNO", "abi errno", "set errno to");
}

#[test]
fn contents_that_realloc_loses() {
    found("FORGETS", "abi realloc", "after realloc");
}

#[test]
fn a_usable_size_that_is_too_large() {
    found("BOASTS", "abi sizes", "CHECK");
}

#[test]
fn a_full_address_space_that_crashes() {
    found("ABORTS_WHEN_FULL", "limits lowered", "Signalled");
}

#[test]
fn a_process_that_ends_otherwise() {
    found("CHANGES_STATUS", "abi zero", "Exited(9)");
}

#[test]
fn misuse_that_nobody_notices() {
    let outcome = check("misuse interior 5000000").outcome(&allocator("NONE"), Mode::Normal);
    assert!(outcome.stdout.contains("not found"), "{}", outcome.report("the sound allocator reports misuse"));
}

#[test]
fn another_library_than_expected() {
    found_by_a_strict_check("NONE", "abi names elsewhere", "comes from");
}

// -- Counters --

/// A check of counters, under a defect of these.
fn counted(defect: &str, line: &str) -> Outcome {
    let words: Vec<&str> = line.split_whitespace().collect();
    let defect = defect.to_lowercase();
    let functions = compile::with_commensal_header(
        "broken_counter",
        &format!("broken_counter_{defect}.so"),
        &["-shared".to_owned(), "-fPIC".to_owned(), format!("-DDEFECT={}", defect.to_uppercase())],
    );
    let output = format!("{}_{defect}", words[0]);
    let program = compile::with_commensal_header(words[0], &output, &[functions.display().to_string()]);
    Run::new(program).args(&words[1..]).with(&Library::none(), Mode::Normal)
}

/// The check holds for sound counters; under the defect it fails with this text in its report: within a few runs, as on a busy machine
/// threads may run one after the other.
fn miscounted(defect: &str, line: &str, text: &str) {
    const RUNS: usize = 5;
    counted("NONE", line).ending(End::Exited(0)).unwrap_or_else(|report| panic!("{report}"));
    let report = (0..RUNS).find_map(|_| counted(defect, line).ending(End::Exited(0)).err());
    let report = report.unwrap_or_else(|| panic!("`{line}` misses the defect {defect}"));
    assert!(report.contains(text), "`{line}` fails under {defect} for another reason: {report}");
}

/// The check ends sound counters with a message; under the defect nothing is said.
fn unsaid(defect: &str, line: &str) {
    counted("NONE", line).last_words().unwrap_or_else(|report| panic!("{report}"));
    counted(defect, line).last_words().expect_err(&format!("`{line}` misses the defect {defect}"));
}

#[test]
fn additions_that_are_lost() {
    for check in ["statics", "threads", "resets", "signals", "signals lazy"] {
        miscounted("LOSES", &format!("counter_threads {check}"), "expected");
    }
    // Which of its two checks finds it depends on how the threads ran.
    miscounted("LOSES", "counter_cxx threads", "CHECK(log.all_");
}

#[test]
fn additions_of_a_child_that_are_forgotten() {
    miscounted("FORGETS_AT_FORK", "counter_threads forks", "a child ended with status");
}

#[test]
fn a_limit_that_is_not_kept() {
    miscounted("OVERSHOOTS", "counter_threads limit", "limit");
}

#[test]
fn a_limit_that_is_not_reached() {
    miscounted("REFUSES", "counter_threads limit", "expected 100000");
    miscounted("REFUSES", "counter values", "limited_add(counter, 15, 10) is 0");
    miscounted("REFUSES", "counter set_values", "limited_add(set, i, 15, 10) is 0");
}

#[test]
fn a_reset_that_loses_what_others_add() {
    miscounted("RESET_RACES", "counter_threads resets", "all is");
}

#[test]
fn an_errno_that_a_sum_sets() {
    miscounted("EATS_ERRNO", "counter values", "set errno to");
    miscounted("EATS_ERRNO", "counter set_values", "set errno to");
}

#[test]
fn readings_and_comparisons_that_are_wrong() {
    for check in ["counter values", "counter set_values"] {
        miscounted("MISREADS", check, "give or take");
        miscounted("COMPARES_WRONGLY", check, "expected 0");
    }
}

#[test]
fn counters_that_are_mixed_up() {
    miscounted("MIXES_UP", "counter set_values", "expected");
    miscounted("MIXES_UP", "counter_threads threads", "expected");
}

#[test]
fn indexes_and_lengths_that_nobody_looks_at() {
    unsaid("ANY_INDEX", "counter index limited_add");
    miscounted("ANY_LENGTH", "counter layout", "expected 0");
}

#[test]
fn memory_that_is_not_there() {
    miscounted("UNAWARE", "counter memory", "without memory");
    unsaid("OVERFLOWS", "counter overflow");
    miscounted("LEAKS", "counter lives", "the address space grew");
}

#[test]
fn values_that_do_not_stay_or_go() {
    miscounted("BIND_CLEARS", "counter values", "expected 77");
    miscounted("BIND_CLEARS", "counter set_values", "expected 77");
    miscounted("BIND_CLEARS", "counter_threads handed_over", "expected");
    miscounted("DESTROY_KEEPS", "counter values", "is not zero");
    miscounted("DESTROY_KEEPS", "counter set_values", "expected 0");
}

#[test]
fn zeroed_memory_that_counts_nothing() {
    miscounted("NEEDS_BEGINNING", "counter_threads statics", "expected");
    miscounted("NEEDS_BEGINNING", "counter_cxx objects", "uses");
    miscounted("NEEDS_BEGINNING", "counter_cxx around_main", "constructors");
}
