//! The counters of `commensal.h`, as C and C++ programs use them: linked with the shared library and with the archive, in both modes.

use dropin::in_both_modes;
use dropin::linked::{ends_with, holds, outcomes};
use dropin::run::End;
use dropin::subject::Mode;

in_both_modes! {
    layout: |mode| holds(mode, "counter layout");
    values: |mode| holds(mode, "counter values");
    values_of_sets: |mode| holds(mode, "counter set_values");
    one_after_the_other: |mode| holds(mode, "counter lives");
    without_memory: |mode| holds(mode, "counter memory");
    overflow_without_memory: super::overflow_without_memory;
    index_out_of_range: super::index_out_of_range;

    never_initialised: |mode| holds(mode, "counter_threads statics");
    threads: |mode| holds(mode, "counter_threads threads");
    handed_over: |mode| holds(mode, "counter_threads handed_over");
    threads_at_a_limit: |mode| holds(mode, "counter_threads limit");
    resets_among_additions: |mode| holds(mode, "counter_threads resets");
    signal_handlers: |mode| holds(mode, "counter_threads signals");
    signal_handlers_and_one_word: |mode| holds(mode, "counter_threads signals lazy");
    forks: |mode| holds(mode, "counter_threads forks");

    types_in_cxx: |mode| holds(mode, "counter_cxx functions");
    members_of_objects: |mode| holds(mode, "counter_cxx objects");
    threads_in_cxx: |mode| holds(mode, "counter_cxx threads");
    around_main: super::around_main;
}

fn overflow_without_memory(mode: Mode) {
    ends_with(mode, "counter overflow", "a counter is about to overflow");
}

/// For each function the first index that is too large; for one of them others, too.
fn index_out_of_range(mode: Mode) {
    const FUNCTIONS: &str =
        "add sub add_local add_remote read read_positive sum sum_positive compare limited_add set reset";
    for function in FUNCTIONS.split_whitespace() {
        ends_with(mode, &format!("counter index {function}"), "counter 3 of a set of 3: give an index below 3");
    }
    for (length, index) in [(1, 1), (260, 260), (4, usize::MAX)] {
        let text = format!("counter {index} of a set of {length}: give an index below {length}");
        ends_with(mode, &format!("counter index add {length} {index}"), &text);
    }
}

/// Destructors of global objects run after main; the last of them says that it found what all others added.
fn around_main(mode: Mode) {
    for outcome in outcomes(mode, "counter_cxx around_main") {
        let outcome = outcome.ending(End::Exited(0)).unwrap_or_else(|report| panic!("{report}"));
        let counted = outcome.stdout.contains("both destructors were counted");
        assert!(counted, "{}", outcome.report("destructors were not counted"));
    }
}
