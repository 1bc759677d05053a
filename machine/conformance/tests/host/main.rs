//! The host passes all bodies, and the bodies find what is planted, in both slot modes.
//!
//! Each case is its own process, see [`suite`]. `COMMENSAL_TEST_EFFORT` multiplies the time for bodies without an end.

mod interrupted;
mod suite;

use machine::slot::Mode;
use suite::{cases, find, pass};

conformance::tests! { pass, find }

#[test]
fn no_case_is_left_out() {
    for mode in [Mode::ConcurrencyId, Mode::PerThread] {
        let left_out: Vec<_> = cases(mode).into_iter().filter(|case| !MODULES.contains(&case.module())).collect();
        assert!(left_out.is_empty(), "these cases belong to no module that is tested: {left_out:?}");
    }
}

/// A body that nothing planted makes fail would be no test.
#[test]
fn something_is_planted_in_each_operation() {
    for mode in [Mode::ConcurrencyId, Mode::PerThread] {
        let cases = cases(mode);
        let is_planted = |name: &str| cases.iter().any(|case| case.operation() == name && case.is_planted());
        let bare: Vec<_> = cases.iter().filter(|case| !is_planted(case.operation())).collect();
        assert!(bare.is_empty(), "nothing is planted in {bare:?}");
    }
}
