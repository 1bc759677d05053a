//! One malloc and one free of 64 bytes, under every allocator: with one thread, with a second one that sleeps, and with two at work.

use lab::analysis::Analysis;
use lab::blocks::{self, Budget, Length, Plan, Subject};
use lab::metric::Metric;
use lab::process::{Program, Run};
use lab::table;

use super::Tour;
use crate::failure::Failure;
use crate::places;

const BUDGET: Budget = Budget { seconds: &[(8.0, 20)], least: 8 };
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

/// Measures and prints the table.
pub fn report(tour: &Tour) -> Result<(), Failure> {
    let own = places::own()?;
    let subjects = SETTINGS.iter().map(|(setting, name)| {
        let program = Program::new(&own, ["commensal", "workload", "pair", setting, "1", DEPTH]);
        Subject { metrics: vec![PAIR], read, prints_the_same: false, ..Subject::of_program(name, program) }
    });
    let plan = Plan::of(Length::Fitting(BUDGET), tour.seed);
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
    fn the_best_round_at_the_depth_is_read() {
        let run = Run { end: lab::process::End::Exited(0), cost: lab::process::Cost::default(), left_running: false };
        assert_eq!(read(&run, "1 6.000 6.500\n64 4.970 5.100\n1000 7.0 8.0\n"), Some(vec![4.97]));
        assert_eq!(read(&run, "nothing"), None);
    }
}
