//! The counters of `commensal.h`, as C and C++ programs use them: linked with the shared library and with the archive, in both modes.

use dropin::in_both_modes;
use dropin::linked::{ended, ends_with, holds};
use dropin::subject::Mode;

in_both_modes! {
    layout: |mode| holds(mode, "counter layout");
    values: |mode| holds(mode, "counter values");
    without_memory: |mode| holds(mode, "counter memory");
    index_out_of_range: super::index_out_of_range;
    members_of_objects: |mode| holds(mode, "counter_cxx objects");
    around_main: super::around_main;
}

/// For each function the first index that is too large; for one of them the largest, too.
fn index_out_of_range(mode: Mode) {
    const FUNCTIONS: &str =
        "add sub add_local add_remote read read_positive sum sum_positive compare limited_add set reset";
    for function in FUNCTIONS.split_whitespace() {
        ends_with(mode, &format!("counter index {function}"), "counter 3 of a set of 3: give an index below 3");
    }
    let text = format!("counter {} of a set of 3: give an index below 3", usize::MAX);
    ends_with(mode, &format!("counter index add {}", usize::MAX), &text);
}

/// Destructors of global objects run after main; the last of them says that it found what all others added.
fn around_main(mode: Mode) {
    for outcome in ended(mode, "counter_cxx around_main", "") {
        let counted = outcome.stdout.contains("both destructors were counted");
        assert!(counted, "{}", outcome.report("destructors were not counted"));
    }
}
