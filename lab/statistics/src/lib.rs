//! What may be said about two arms that ran side by side.
//!
//! Both ran once in each block, so that whatever disturbed the machine for longer than a block disturbed both: only the ratio
//! within a block is looked at, as its logarithm (a ratio and its inverse are then as far from "no difference"). The estimate is the
//! median of these, robust against the one run that a daemon disturbed. Its interval is a bootstrap's (`bootstrap`). Whether
//! there is a difference at all is decided by an exact test that assumes nothing but that the order within a block was drawn
//! by lot (`signed_rank`), corrected for the number of arms (`holm`). What the run was too short to see is told
//! (`detectable`).
//!
//! Every function is pure; what needs chance takes a generator.
#![deny(missing_docs, clippy::missing_errors_doc, clippy::missing_panics_doc, clippy::missing_safety_doc)]

mod bootstrap;
mod signed_rank;

use fastrand::Rng;

use signed_rank::Signs;
pub use signed_rank::least_p;

/// How likely it is at most that a difference is reported where there is none.
pub const LEVEL: f64 = 0.05;
/// How likely it is that an effect of the smallest detectable size is found.
pub const POWER: f64 = 0.8;

const RESAMPLES: usize = 9999;

/// What is said about a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It has less of the metric.
    Less,
    /// It has more of the metric.
    More,
    /// The run shows no difference, which is not to say that there is none.
    NotShown,
}

/// A candidate against the baseline, in one metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// Median of the candidate's values over the baseline's, block by block.
    pub ratio: f64,
    /// In which the ratio lies with 95 % confidence, as far as a bootstrap can tell.
    pub interval: [f64; 2],
    /// How likely chance alone shows at least such a difference; corrected for the number of arms.
    pub p: f64,
    /// The smallest effect, as a part of the baseline, that a run like this one finds four times in five; none if it can find none.
    pub detectable: Option<f64>,
    /// What may be said.
    pub verdict: Verdict,
}

/// Logarithms of candidate over baseline, block by block. Values are multiples of `resolution`, which is what was read off a
/// clock or a counter; half of it is added, so that nothing becomes a division by zero.
pub fn log_ratios(baseline: &[f64], candidate: &[f64], resolution: f64) -> Vec<f64> {
    let half = resolution / 2.0;
    baseline.iter().zip(candidate).map(|(baseline, candidate)| ((candidate + half) / (baseline + half)).ln()).collect()
}

/// Compares several candidates with one baseline: each has its log-ratios, all of the same blocks.
pub fn compare(candidates: &[Vec<f64>], rng: &mut Rng) -> Vec<Comparison> {
    let tests: Vec<_> = candidates.iter().map(|ratios| signed_rank::test(ratios)).collect();
    let corrected = signed_rank::holm(&tests.iter().map(|test| test.p).collect::<Vec<_>>());
    // The strictest of Holm's levels, since it is not known beforehand which candidate will meet it.
    let level = LEVEL / candidates.len() as f64;
    let critical = candidates.first().and_then(|ratios| Signs::of_distinct(ratios.len()).critical(level));
    let compared = candidates.iter().zip(tests.iter().zip(corrected)).map(|(ratios, (test, p))| {
        let middle = median(&mut ratios.clone());
        let verdict = match p <= LEVEL {
            true if test.sum < 0 && middle < 0.0 => Verdict::Less,
            true if test.sum > 0 && middle > 0.0 => Verdict::More,
            _ => Verdict::NotShown,
        };
        Comparison {
            ratio: middle.exp(),
            interval: interval(ratios, RESAMPLES, rng).map(f64::exp),
            p,
            detectable: critical.map(|critical| signed_rank::detectable(ratios, critical, POWER, rng).exp_m1()),
            verdict,
        }
    });
    compared.collect()
}

/// The interval of the median alone, for those who only wait for it to become narrow.
pub fn interval(values: &[f64], resamples: usize, rng: &mut Rng) -> [f64; 2] {
    let resampled = bootstrap::resample(values, resamples, rng);
    bootstrap::bias_corrected(values, &resampled, LEVEL)
}

/// The median; the mean of the middle two of an even number. Reorders the values.
///
/// # Panics
/// If there are no values.
pub fn median(values: &mut [f64]) -> f64 {
    let (middle, is_odd) = (values.len() / 2, values.len() % 2 == 1);
    let (below, &mut upper, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    if is_odd {
        return upper;
    }
    let lower = below.iter().copied().max_by(f64::total_cmp).expect("half of an even number of values");
    (lower + upper) / 2.0
}

/// Ranks from 1; equal values share the mean of theirs.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&one, &other| values[one].total_cmp(&values[other]));
    let mut ranks = vec![0.0; values.len()];
    let mut below = 0;
    for equal in order.chunk_by(|&one, &other| values[one] == values[other]) {
        let shared = below as f64 + (equal.len() + 1) as f64 / 2.0;
        equal.iter().for_each(|&at| ranks[at] = shared);
        below += equal.len();
    }
    ranks
}

#[cfg(test)]
mod reference;
#[cfg(test)]
mod simulation;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_arms_show_no_difference_and_have_no_spread() {
        let [compared] = compare(&[vec![0.0; 20]], &mut Rng::with_seed(1))[..] else { panic!("one candidate") };
        assert_eq!((compared.ratio, compared.interval, compared.p), (1.0, [1.0, 1.0], 1.0));
        assert_eq!(compared.verdict, Verdict::NotShown);
        assert_eq!(compared.detectable, Some(0.0));
    }

    #[test]
    fn difference_has_a_direction() {
        let down: Vec<f64> = (0..20).map(|at| -0.1 - 0.001 * f64::from(at)).collect();
        let up: Vec<f64> = down.iter().map(|ratio| -ratio).collect();
        let compared = compare(&[down, up], &mut Rng::with_seed(1));
        assert_eq!(compared[0].verdict, Verdict::Less);
        assert_eq!(compared[1].verdict, Verdict::More);
        assert!((compared[0].ratio * compared[1].ratio - 1.0).abs() < 1e-12);
        assert!(compared[0].interval[0] < compared[0].ratio && compared[0].ratio < compared[0].interval[1]);
    }

    #[test]
    fn nothing_is_divided_by_zero() {
        let ratios = log_ratios(&[0.0, 1.0, 4.0], &[0.0, 2.0, 0.0], 1.0);
        assert_eq!(ratios[0], 0.0);
        assert!((ratios[1] - (2.5f64 / 1.5).ln()).abs() < 1e-12 && ratios[2].is_finite());
    }
}
