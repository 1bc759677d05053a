//! What may be said of what was measured: every candidate against the baseline, in every metric, for every subject.
//!
//! Where there are several programs, it says so of all of them together as well: their geometric mean, block by block.
//! Tables, reports and the JSON all read this, so that none can say something that another does not.

use fastrand::Rng;
use statistics::{Comparison, Verdict};

use crate::blocks::{Measured, Row};
use crate::finding::Finding;
use crate::metric::{Metric, PEAK};

/// Of the interval of an arm's own median; ratios take more.
const RESAMPLES: usize = 1999;

/// The baseline's place among the arms.
pub const BASELINE: usize = 0;
/// The baseline's again.
pub const CONTROL: usize = 1;

/// What mean rows are called.
const MEAN: &str = "geometric mean";

/// A measurement and what follows from it.
pub struct Analysis {
    /// What was measured.
    pub measured: Measured,
    /// What the subjects are called together; empty if there are no others beside them.
    pub group: &'static str,
    /// By subject, then by metric.
    pub rows: Vec<Vec<Judged>>,
    /// All subjects together, in the metrics of the first; against the baseline.
    pub means: Vec<Judged>,
    /// Baselines besides the first, and what each metric of each subject says against them.
    pub others: Vec<(usize, Vec<Vec<Judged>>)>,
}

/// One metric of one subject.
pub struct Judged {
    /// The metric.
    pub metric: Metric,
    /// By arm: its median, and the interval of that. None for an arm that failed, and for means.
    pub medians: Vec<Option<Median>>,
    /// By arm: what may be said against the baseline. None for the baseline, and where either failed.
    pub comparisons: Vec<Option<Comparison>>,
}

/// An arm held against a limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Excess {
    /// Median of its values over the baseline's.
    pub ratio: f64,
    /// The 95 % interval of that.
    pub interval: [f64; 2],
    /// Whether it lies above the limit: the whole interval does, and by the test against the limit it is no chance.
    pub is_shown: bool,
}

/// An arm's own figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Median {
    /// The median of its runs.
    pub value: f64,
    /// Its 95 % interval.
    pub interval: [f64; 2],
}

impl Analysis {
    /// Of a measurement.
    pub fn of(measured: Measured) -> Self {
        let mut rng = Rng::with_seed(measured.plan.seed);
        let rows = judge_all(&measured, BASELINE, &mut rng);
        let mut means = Vec::new();
        if measured.rows.len() > 1 && measured.rows.iter().all(|row| row.parameters.are_workload()) {
            for (at, &metric) in measured.rows[0].metrics.iter().enumerate() {
                let comparisons = compare(mean_ratios(&measured, at), &mut rng);
                means.push(Judged { metric, medians: Vec::new(), comparisons });
            }
        }
        Self { measured, group: "", rows, means, others: Vec::new() }
    }

    /// What the mean over all subjects is called.
    pub fn mean_name(&self) -> String {
        if self.group.is_empty() { MEAN.to_owned() } else { format!("{MEAN} of {}", self.group) }
    }

    /// Holds all arms against another one, too.
    pub fn also_against(&mut self, name: &str) {
        if let Some(baseline) = self.measured.arms.iter().position(|arm| arm.name == name) {
            let mut rng = Rng::with_seed(self.measured.plan.seed);
            self.others.push((baseline, judge_all(&self.measured, baseline, &mut rng)));
        }
    }

    /// The metrics that are shown in full: the first, and memory.
    pub fn main_metrics(&self) -> impl Iterator<Item = usize> {
        let metrics = &self.measured.rows[0].metrics;
        (0..metrics.len()).filter(|&at| at == 0 || metrics[at] == PEAK)
    }

    /// All findings, in the order of the subjects.
    pub fn findings(&self) -> impl Iterator<Item = &Finding> {
        self.measured.rows.iter().flat_map(|row| &row.findings)
    }

    /// Whether an arm did something else than the baseline.
    pub fn has_fault(&self) -> bool {
        self.findings().any(|finding| finding.is_fault)
    }

    /// Whether arms have more of a metric than the baseline by more than a factor: of the only subject, or of the mean of
    /// all. Left out are the baseline, its control, and other allocators. None if an arm failed.
    pub fn excesses(&self, metric: usize, factor: f64) -> Vec<(&str, Option<Excess>)> {
        let (arms, rows) = (&self.measured.arms, &self.measured.rows);
        let of = |arm: usize| match &rows[..] {
            [row] => row.log_ratios(arm, BASELINE, metric),
            _ => mean_ratios(&self.measured, metric)[arm].clone(),
        };
        let held: Vec<usize> = (CONTROL + 1..arms.len()).filter(|arm| !arms[*arm].is_peer).collect();
        let over_limit = |ratios: Vec<f64>| ratios.iter().map(|ratio| ratio - factor.ln()).collect::<Vec<f64>>();
        let ratios: Vec<Option<Vec<f64>>> = held.iter().map(|arm| of(*arm).map(over_limit)).collect();
        let all: Vec<Vec<f64>> = ratios.iter().flatten().cloned().collect();
        let mut compared = statistics::compare(&all, &mut Rng::with_seed(self.measured.plan.seed)).into_iter();
        let excess = |compared: Comparison| Excess {
            ratio: compared.ratio * factor,
            interval: compared.interval.map(|bound| bound * factor),
            is_shown: compared.verdict == Verdict::More && compared.interval[0] > 1.0,
        };
        let excesses = ratios.iter().map(|ratios| ratios.as_ref().and_then(|_| compared.next()).map(excess));
        held.iter().map(|arm| arms[*arm].name.as_str()).zip(excesses).collect()
    }

    /// Whether so few blocks could have shown a difference at all, with so many candidates.
    pub fn could_show(&self) -> bool {
        let candidates = self.measured.arms.len().saturating_sub(2).max(1);
        statistics::least_p(self.measured.blocks) * candidates as f64 <= statistics::LEVEL
    }
}

fn judge_all(measured: &Measured, baseline: usize, rng: &mut Rng) -> Vec<Vec<Judged>> {
    let judge = |row: &Row, rng: &mut Rng| {
        let metrics = row.metrics.iter().enumerate();
        metrics.map(|(at, &metric)| judged(measured, row, at, metric, baseline, rng)).collect()
    };
    measured.rows.iter().map(|row| judge(row, rng)).collect()
}

fn judged(measured: &Measured, row: &Row, at: usize, metric: Metric, baseline: usize, rng: &mut Rng) -> Judged {
    let arms = 0..measured.arms.len();
    let medians = arms.clone().map(|arm| {
        let mut values = row.values(arm, at)?;
        let interval = statistics::interval(&values, RESAMPLES, rng);
        Some(Median { value: statistics::median(&mut values), interval })
    });
    let medians = medians.collect();
    let ratios = arms.map(|arm| (arm != baseline).then(|| row.log_ratios(arm, baseline, at)).flatten()).collect();
    Judged { metric, medians, comparisons: compare(ratios, rng) }
}

/// Compares all arms at once, but for the control: it is no candidate, and its chances are its own.
fn compare(mut ratios: Vec<Option<Vec<f64>>>, rng: &mut Rng) -> Vec<Option<Comparison>> {
    let control = ratios[CONTROL].take();
    let candidates: Vec<Vec<f64>> = ratios.iter().flatten().cloned().collect();
    let mut compared = statistics::compare(&candidates, rng).into_iter();
    let mut comparisons: Vec<_> = ratios.iter().map(|ratios| ratios.as_ref().and_then(|_| compared.next())).collect();
    comparisons[CONTROL] = control.and_then(|ratios| statistics::compare(&[ratios], rng).pop());
    comparisons
}

/// By arm: the mean over all subjects of its log-ratios, block by block. None for the baseline, and for an arm that failed
/// somewhere.
fn mean_ratios(measured: &Measured, metric: usize) -> Vec<Option<Vec<f64>>> {
    let of_arm = |arm: usize| {
        let mut sums = vec![0.0; measured.blocks];
        for row in &measured.rows {
            let ratios = row.log_ratios(arm, BASELINE, metric)?;
            sums.iter_mut().zip(ratios).for_each(|(sum, ratio)| *sum += ratio);
        }
        let means = sums.iter().map(|sum| sum / measured.rows.len() as f64).collect();
        Some(means).filter(|_| arm != BASELINE && measured.blocks > 0)
    };
    (0..measured.arms.len()).map(of_arm).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;

    const OURS: usize = 2;
    const PEER: usize = 3;
    const BROKEN: usize = 4;

    /// All blocks agree on both candidates, so that p is the least that there is, twice.
    #[test]
    fn control_is_not_counted_as_a_candidate() {
        let analysis = example::analysis(&[""]);
        let wall = &analysis.rows[0][0].comparisons;
        let least = statistics::least_p(analysis.measured.blocks);
        assert_eq!((wall[OURS].unwrap().p, wall[PEER].unwrap().p), (2.0 * least, 2.0 * least));
        assert!(wall[CONTROL].unwrap().p > 0.05);
        assert!(wall[BASELINE].is_none() && wall[BROKEN].is_none());
    }

    /// Ours takes 0.9 × the baseline's time, with a spread of 2 %, and a peer is held against nothing.
    #[test]
    fn excess_is_shown_above_the_limit_only() {
        for subjects in [&["store"][..], &["larson", "store"]] {
            let analysis = example::analysis(subjects);
            let shown = |factor| {
                let [("ours", Some(ours)), ("broken", None)] = analysis.excesses(0, factor)[..] else {
                    panic!("{:?}", analysis.excesses(0, factor));
                };
                assert!((ours.ratio / 0.9 - 1.0).abs() < 0.01 && ours.interval[0] < ours.ratio, "{ours:?}");
                ours.is_shown
            };
            assert_eq!([0.85, 0.9, 0.95, 1.0].map(shown), [true, false, false, false]);
        }
    }

    #[test]
    fn means_are_those_of_all_subjects() {
        let analysis = example::analysis(&["larson", "store"]);
        let near = |compared: &Option<Comparison>, ratio: f64| (compared.unwrap().ratio / ratio - 1.0).abs() < 0.01;
        assert!(near(&analysis.means[0].comparisons[OURS], 0.9));
        assert!(analysis.means[0].comparisons[BROKEN].is_none(), "it failed somewhere");
    }

    #[test]
    fn few_blocks_can_show_nothing() {
        let mut analysis = example::analysis(&[""]);
        assert!(analysis.could_show());
        // Three candidates: 3 / 2⁵ is above the level, 3 / 2⁶ is not.
        analysis.measured.blocks = 6;
        assert!(!analysis.could_show());
        analysis.measured.blocks = 7;
        assert!(analysis.could_show());
    }

    #[test]
    fn numbers_of_cpus_have_no_mean() {
        let mut measured = example::analysis(&["larson", "store"]).measured;
        measured.rows[1].parameters = crate::parameters::Parameters::default().with("possible_cpus", 2);
        let analysis = Analysis::of(measured);
        assert!(analysis.means.is_empty());
    }
}
