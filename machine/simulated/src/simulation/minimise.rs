//! The fewest choices that still make a run fail: delta debugging, after Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing
//! Input" (2002), with a prefix first.

use super::Deviation;

/// Runs that finding them may take.
const MOST_RUNS: u32 = 400;

/// A shorter schedule that fails, too; none if not even the whole one does.
pub fn minimise(schedule: &[Deviation], mut fails: impl FnMut(&[Deviation]) -> bool) -> Option<Vec<Deviation>> {
    if !fails(schedule) {
        return None;
    }
    let mut runs = 0;
    let mut is_enough = |schedule: &[Deviation]| {
        runs += 1;
        runs <= MOST_RUNS && fails(schedule)
    };
    // The shortest prefix, by halving: failing is not quite monotonous, but what is found does fail.
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
