//! What was measured, found by its names in the JSON: so that claims say the same as whoever reads the file.

use statistics::Comparison;

use crate::analysis::{Analysis, BASELINE, Judged};
use crate::blocks::Row;
use crate::experiment::Part;
use crate::parameters::Parameters;

/// All parts of the experiment.
#[derive(Clone, Copy)]
pub struct Figures<'a>(pub &'a [Part]);

impl<'a> Figures<'a> {
    /// An arm's median.
    pub fn median(self, metric: &str, parameters: &Parameters, arm: &str) -> Option<f64> {
        let (analysis, judged) = self.find(metric, parameters, arm)?;
        Some(judged.medians[place(analysis, arm)?]?.value)
    }

    /// The most that any of an arm's runs had.
    pub fn most(self, metric: &str, parameters: &Parameters, arm: &str) -> Option<f64> {
        let is_it = |row: &&Row| row.parameters == *parameters;
        let of_part = |Part { analysis, .. }: &Part| {
            let row = analysis.measured.rows.iter().find(is_it)?;
            let metric = row.metrics.iter().position(|other| other.name == metric)?;
            row.values(place(analysis, arm)?, metric)?.into_iter().reduce(f64::max)
        };
        self.0.iter().find_map(of_part)
    }

    /// An arm against the part's baseline, which must be the one that is named.
    pub fn compared(
        self, metric: &str, parameters: &Parameters, [baseline, candidate]: [&str; 2],
    ) -> Option<Comparison> {
        let (analysis, judged) = self.find(metric, parameters, candidate)?;
        judged.comparisons[place(analysis, candidate)?].filter(|_| analysis.measured.arms[BASELINE].name == baseline)
    }

    fn find(self, metric: &str, parameters: &Parameters, arm: &str) -> Option<(&'a Analysis, &'a Judged)> {
        let of_part = |Part { analysis, .. }: &'a Part| {
            place(analysis, arm)?;
            let row = analysis.measured.rows.iter().position(|row| row.parameters == *parameters)?;
            Some((analysis, analysis.rows[row].iter().find(|judged| judged.metric.name == metric)?))
        };
        self.0.iter().find_map(of_part)
    }
}

fn place(analysis: &Analysis, arm: &str) -> Option<usize> {
    analysis.measured.arms.iter().position(|other| other.name == arm)
}

/// A part that was never measured: each arm takes as long as stands beside it, in all metrics and rows. The first is the baseline.
#[cfg(test)]
pub fn example(
    arms: &[(crate::arm::Arm, f64)], metrics: &[crate::metric::Metric], rows: impl Iterator<Item = Parameters>,
) -> Part {
    use crate::blocks::{Length, Measured, Plan};

    const BLOCKS: usize = 8;
    let again = (arms[0].0.again(), arms[0].1);
    let all: Vec<_> = [arms[0].clone(), again].into_iter().chain(arms[1..].iter().cloned()).collect();
    let samples = |value: f64| Some((0..BLOCKS).map(|block| vec![value + block as f64 / 1e3; metrics.len()]).collect());
    let row = |parameters| Row {
        parameters,
        metrics: metrics.to_vec(),
        samples: all.iter().map(|(_, value)| samples(*value)).collect(),
        findings: Vec::new(),
    };
    let rows = rows.map(row).collect();
    let arms = all.iter().map(|(arm, _)| arm.clone()).collect();
    let (plan, elapsed) = (Plan::of(Length::Blocks(BLOCKS), 1), std::time::Duration::from_secs(1));
    let analysis = Analysis::of(Measured { arms, rows, blocks: BLOCKS, interrupted: false, elapsed, plan });
    Part::of("", analysis, crate::experiment::probing::no_plots)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arm::Arm;
    use crate::metric::WALL;

    #[test]
    fn figures_are_found_by_their_names() {
        let [two, many] = [2, 256].map(|cpus| Parameters::default().with("possible_cpus", cpus));
        let arms = [("a", 1000.0), ("b", 500.0), ("c", 5.0)].map(|(name, value)| (Arm::told(name, name), value));
        let part = example(&arms, &[WALL], [two.clone(), many.clone()].into_iter());
        let parts = [part];
        let figures = Figures(&parts);
        let ratio = figures.compared("wall_s", &many, ["a", "c"]).unwrap().ratio;
        assert!((ratio - 0.005).abs() < 1e-4, "{ratio}");
        let median = figures.median("wall_s", &two, "b").unwrap();
        assert!((median - 500.0).abs() < 0.1, "{median}");
        assert_eq!(figures.most("wall_s", &many, "c"), Some(5.007), "the last of eight");
        assert!(figures.most("kicks", &many, "c").is_none() && figures.most("wall_s", &many, "d").is_none());
        assert!(figures.median("wall_s", &Parameters::default(), "b").is_none(), "no such row");
        assert!(figures.median("kicks", &two, "b").is_none(), "no such metric");
        assert!(figures.compared("wall_s", &two, ["b", "c"]).is_none(), "another baseline");
    }
}
