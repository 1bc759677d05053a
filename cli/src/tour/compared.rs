//! What the tour measures itself: real programs, and one malloc and one free.

use lab::analysis::Analysis;
use lab::arm::{Arm, COMMENSAL};
use lab::blocks::{self, Budget, Length, Plan, Subject};
use lab::metric::Metric;
use lab::process::{Program, Run};
use lab::{suite, table};

use super::Tour;
use crate::failure::Failure;
use crate::places;

/// Programs of the suite that most machines have, and what they do there.
const JOBS: [(&str, &str); 4] = [
    ("sh", "strings, functions, pipes"),
    ("git", "log, blame, grep, repack, fsck, clone"),
    ("gcc", "compile C++ templates"),
    ("python3", "JSON, sorting, 4 threads"),
];

/// On a slow machine there may be too few blocks to show a difference, but the tour stays below 90 seconds.
const BUDGET_OF_JOBS: Budget = Budget { seconds: &[(38.0, 12)], least: 2 };

/// Runs real programs with and without the library, and prints how long they take; says whether every program that ran did the same.
pub fn jobs(tour: &Tour) -> Result<bool, Failure> {
    say!("Programs of this machine with and without the library");
    let programs = suite::programs_named(tour.scratch.path(), &JOBS.map(|(name, _)| name)).map_err(Failure::of)?;
    tour.check()?;
    for (name, what) in JOBS {
        let is_absent = programs.missing.iter().any(|missing| missing.name == name);
        say!("    {name:8} {what}{}", if is_absent { " (not installed)" } else { "" });
    }
    let arms = [Arm::glibc(), Arm::commensal(COMMENSAL, &tour.library.path, None)];
    let plan = Plan::of(Length::Fitting(BUDGET_OF_JOBS), tour.seed);
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

const BUDGET_OF_PAIR: Budget = Budget { seconds: &[(8.0, 20)], least: 8 };
/// What the bundled program calls them, and what a reader does.
const SETTINGS: [(&str, &str); 3] = [("solo", "one thread"), ("parked", "one of two threads"), ("both", "two threads")];
/// How many blocks are alive at a time.
const DEPTH: &str = "64";

const PAIR: Metric = Metric {
    name: "pair_ns",
    unit: "ns",
    title: "malloc + free",
    words: ["faster", "slower"],
    // It is printed with three decimals.
    resolution: 0.001,
};

/// One malloc and one free of 64 bytes, under every allocator: with one thread, with a second one that sleeps, and with two
/// at work. Measures and prints the table.
pub fn pair(tour: &Tour) -> Result<(), Failure> {
    let own = places::own()?;
    let subjects = SETTINGS.iter().map(|(setting, name)| {
        let program = Program::new(&own, ["commensal", "workload", "pair", setting, "1", DEPTH]);
        Subject { metrics: vec![PAIR], read, prints_the_same: false, ..Subject::of_program(name, program) }
    });
    let plan = Plan::of(Length::Fitting(BUDGET_OF_PAIR), tour.seed);
    let measured = blocks::measure(subjects.collect(), &tour.arms, plan, &tour.interrupt).map_err(Failure::of)?;
    tour.check()?;
    let analysis = Analysis::of(measured);
    say!("One malloc and one free of 64 bytes, {DEPTH} of them alive");
    say!("{}{}", table::of_subjects(&analysis, 0), table::notes(&analysis));
    Ok(())
}

/// Lines of a depth, the best round and the median one, in nanoseconds.
fn read(_: &Run, printed: &str) -> Option<Vec<f64>> {
    let line = printed.lines().find(|line| line.split(' ').next() == Some(DEPTH))?;
    Some(vec![line.split(' ').nth(1)?.parse().ok()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tour_reads_the_best_round_at_the_depth() {
        let run = Run { end: lab::process::End::Exited(0), cost: lab::process::Cost::default(), left_running: false };
        assert_eq!(read(&run, "1 6.000 6.500\n64 4.970 5.100\n1000 7.0 8.0\n"), Some(vec![4.97]));
        assert_eq!(read(&run, "nothing"), None);
    }
}
