//! The fewest choices that still make a run fail: delta debugging after Zeller and Hildebrandt, "Simplifying and
//! Isolating Failure-Inducing Input" (2002), with a prefix first.

use super::Deviation;
use std::time::{Duration, Instant};

/// Most runs to find them.
const MOST_RUNS: u32 = 400;

/// A shorter schedule that fails, too; none if the whole one does not. After `limit`, the shortest so far.
pub fn minimise(
    schedule: &[Deviation], limit: Duration, mut fails: impl FnMut(&[Deviation]) -> bool,
) -> Option<Vec<Deviation>> {
    let start = Instant::now();
    if !fails(schedule) {
        return None;
    }
    let mut runs = 0;
    let mut is_enough = |schedule: &[Deviation]| {
        runs += 1;
        runs <= MOST_RUNS && start.elapsed() < limit && fails(schedule)
    };
    // The shortest prefix, by halving. Failing is not quite monotonous, but the result does fail.
    let (mut good, mut bad) = (0, schedule.len());
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        if is_enough(&schedule[..middle]) { bad = middle } else { good = middle }
    }
    let mut kept = schedule[..bad].to_vec();
    let mut parts = 2;
    while kept.len() > 1 {
        let size = kept.len().div_ceil(parts);
        let without = (0..kept.len()).step_by(size).find_map(|start| {
            let end = (start + size).min(kept.len());
            let rest: Vec<Deviation> = kept[..start].iter().chain(&kept[end..]).copied().collect();
            is_enough(&rest).then_some(rest)
        });
        match without {
            Some(rest) => {
                kept = rest;
                parts = (parts - 1).max(2);
            }
            None if size == 1 => break,
            None => parts = (parts * 2).min(kept.len()),
        }
    }
    if kept.len() == 1 && is_enough(&[]) {
        kept.clear();
    }
    Some(kept)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulation::Choice;

    const LONG: Duration = Duration::from_secs(1000);

    fn schedule(steps: impl IntoIterator<Item = u64>) -> Vec<Deviation> {
        let deviation = |step| Deviation { process: 1, thread: 1, step, ask: 0, choice: Choice::Preempt };
        steps.into_iter().map(deviation).collect()
    }

    fn steps(schedule: &[Deviation]) -> Vec<u64> {
        schedule.iter().map(|deviation| deviation.step).collect()
    }

    #[test]
    fn minimise_removes_what_is_not_needed() {
        let needed = [17, 40, 41];
        let fails = |schedule: &[Deviation]| needed.iter().all(|step| steps(schedule).contains(step));
        let found = minimise(&schedule(0..100), LONG, fails).expect("the whole one fails");
        assert_eq!(steps(&found), needed);
        assert_eq!(minimise(&schedule(0..10), LONG, |_| true), Some(Vec::new()), "it always fails");
        assert_eq!(minimise(&[], LONG, |_| true), Some(Vec::new()));
        assert_eq!(minimise(&schedule(0..10), LONG, |_| false), None, "it did not fail again");
    }

    #[test]
    fn minimise_bounds_its_runs() {
        let mut runs = 0;
        let all = schedule(0..1000);
        let found = minimise(&all, LONG, |schedule| {
            runs += 1;
            // Half of them are needed, so halving never helps.
            steps(schedule).iter().filter(|step| *step % 2 == 0).count() == 500
        });
        assert!(found.is_some_and(|found| found.len() >= 500) && runs <= MOST_RUNS + 1, "{runs}");
    }
}
