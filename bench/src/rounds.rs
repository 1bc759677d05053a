//! The order of measurement. Machines drift, so no arm may have a minute to itself: in each round
//! every row runs on every arm, in an order shuffled anew, one run at a time. A row's runs on
//! different arms follow directly on each other.

use std::collections::BTreeMap;

use anyhow::Result;
use serde::Serialize;

use crate::arm::Arm;
use crate::progress::Progress;

/// What one arm gave in one row: a sample a round, up to the first failure.
#[derive(Debug, Serialize)]
pub struct Samples<T> {
    pub values: Vec<T>,
    pub failure: Option<String>,
}

impl<T> Samples<T> {
    /// A figure of every sample, unless the arm failed.
    pub fn series(&self, figure: impl Fn(&T) -> f64) -> Option<Series> {
        let intact = self.failure.is_none() && !self.values.is_empty();
        intact.then(|| Series::new(self.values.iter().map(figure).collect()))
    }
}

/// Each arm's samples in one row, by the arm's label.
pub type ByArm<T> = BTreeMap<&'static str, Samples<T>>;

/// Runs `measure` for every row on every arm, `rounds` times. An arm that failed in a row is left
/// out of its later rounds.
pub fn interleave<R, T>(
    rows: &[R],
    arms: &[Arm],
    rounds: usize,
    progress: &Progress,
    estimate_ms: impl Fn(&R) -> u64,
    mut measure: impl FnMut(&R, &Arm) -> Result<T>,
) -> Vec<ByArm<T>> {
    let empty = || arms.iter().map(|arm| (arm.label, Samples { values: Vec::new(), failure: None })).collect();
    let mut results: Vec<ByArm<T>> = rows.iter().map(|_| empty()).collect();
    let mut order: Vec<&Arm> = arms.iter().collect();
    for _ in 0..rounds {
        for (row, result) in rows.iter().zip(&mut results) {
            fastrand::shuffle(&mut order);
            for arm in &order {
                let samples = result.get_mut(arm.label).expect("each arm has its samples");
                if samples.failure.is_none() {
                    match measure(row, arm) {
                        Ok(sample) => samples.values.push(sample),
                        Err(error) => samples.failure = Some(format!("{error:#}")),
                    }
                }
                progress.advance(estimate_ms(row));
            }
        }
    }
    results
}

/// Numbers of one kind from several rounds, in ascending order; never empty.
#[derive(Clone, Debug)]
pub struct Series(Vec<f64>);

impl Series {
    pub fn new(mut values: Vec<f64>) -> Series {
        assert!(!values.is_empty(), "a series has at least one value");
        values.sort_by(f64::total_cmp);
        Series(values)
    }

    /// The least: what it takes when nothing disturbs. Arms are ranked by it.
    pub fn best(&self) -> f64 {
        self.0[0]
    }

    /// The middle value, the upper one of two.
    pub fn median(&self) -> f64 {
        self.0[self.0.len() / 2]
    }
}

/// The geometric mean; none of nothing.
pub fn geometric_mean(ratios: impl IntoIterator<Item = f64>) -> Option<f64> {
    let logs: Vec<f64> = ratios.into_iter().map(f64::ln).collect();
    (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / logs.len() as f64).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn best_and_median() {
        let series = Series::new(vec![3.0, 1.0, 2.0]);
        assert_eq!((series.best(), series.median()), (1.0, 2.0));
    }

    #[test]
    fn mean_of_ratios() {
        assert_eq!(geometric_mean([]), None);
        assert!((geometric_mean([0.5, 2.0]).unwrap() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn a_failed_arm_is_run_no_more_and_gives_no_series() {
        let arms = [Arm::preloading("a", "/a".as_ref()), Arm::preloading("b", "/b".as_ref())];
        let mut runs = 0;
        let results = interleave(
            &[()],
            &arms,
            3,
            &Progress::hidden(),
            |_| 1,
            |_, arm| {
                runs += 1;
                if arm.label == "a" { anyhow::bail!("broken") } else { Ok(1.0) }
            },
        );
        assert_eq!(runs, 4);
        assert!(results[0]["a"].series(|&value| value).is_none());
        assert_eq!(results[0]["b"].values.len(), 3);
    }
}
