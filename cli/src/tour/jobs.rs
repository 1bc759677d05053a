//! Real programs with and without the library: is what they print identical, and how long do they take?

use lab::analysis::Analysis;
use lab::arm::{Arm, COMMENSAL};
use lab::blocks::{self, Budget, Length, Plan};
use lab::{suite, table};

use super::Tour;
use crate::failure::Failure;

/// Programs of the suite that most machines have, and what they do there.
const JOBS: [(&str, &str); 4] = [
    ("sh", "strings, functions, pipes"),
    ("git", "log, blame, grep, repack, fsck, clone"),
    ("gcc", "compile C++ templates"),
    ("python3", "JSON, sorting, 4 threads"),
];

/// On a slow machine there may be too few blocks to show a difference, but the tour stays below 90 seconds.
const BUDGET: Budget = Budget { seconds: &[(38.0, 12)], least: 2 };

/// Runs all jobs and prints the table; says whether every program that ran did the same.
pub fn report(tour: &Tour) -> Result<bool, Failure> {
    say!("Programs of this machine with and without the library");
    let programs = suite::programs_named(tour.scratch.path(), &JOBS.map(|(name, _)| name)).map_err(Failure::of)?;
    tour.check()?;
    for (name, what) in JOBS {
        let is_absent = programs.missing.iter().any(|missing| missing.name == name);
        say!("    {name:8} {what}{}", if is_absent { " (not installed)" } else { "" });
    }
    let arms = [Arm::glibc(), Arm::commensal(COMMENSAL, &tour.library.path, None)];
    let plan = Plan::of(Length::Fitting(BUDGET), tour.seed);
    let measured = blocks::measure(programs.subjects, &arms, plan, &tour.interrupt).map_err(Failure::of)?;
    tour.check()?;
    let analysis = Analysis::of(measured);
    let is_same = !analysis.has_fault();
    say!("    all print the same: {}\n", if is_same { "yes" } else { "NO" });
    for sheet in table::of_all(&analysis) {
        say!("{sheet}");
    }
    say!("{}{}", table::LEGEND, table::notes(&analysis));
    Ok(is_same)
}
