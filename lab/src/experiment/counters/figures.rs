//! What was measured, found by its names in the JSON: so that claims say the same as whoever reads the file.

use crate::analysis::{Analysis, BASELINE, Judged};
use crate::parameters::Parameters;
use crate::statistics::Comparison;

/// All parts of the experiment.
#[derive(Clone, Copy)]
pub struct Figures<'a>(pub &'a [&'a Analysis]);

impl<'a> Figures<'a> {
    /// An arm's median.
    pub fn median(self, metric: &str, parameters: &Parameters, arm: &str) -> Option<f64> {
        let (analysis, judged) = self.find(metric, parameters, arm)?;
        Some(judged.medians[place(analysis, arm)?]?.value)
    }

    /// An arm against the part's baseline, which must be the one that is named.
    pub fn compared(
        self,
        metric: &str,
        parameters: &Parameters,
        [baseline, candidate]: [&str; 2],
    ) -> Option<Comparison> {
        let (analysis, judged) = self.find(metric, parameters, candidate)?;
        judged.comparisons[place(analysis, candidate)?].filter(|_| analysis.measured.arms[BASELINE].name == baseline)
    }

    fn find(self, metric: &str, parameters: &Parameters, arm: &str) -> Option<(&'a Analysis, &'a Judged)> {
        let of_part = |analysis: &&'a Analysis| {
            place(analysis, arm)?;
            let row = analysis.measured.rows.iter().position(|row| row.parameters == *parameters)?;
            Some((*analysis, analysis.rows[row].iter().find(|judged| judged.metric.name == metric)?))
        };
        self.0.iter().find_map(of_part)
    }
}

fn place(analysis: &Analysis, arm: &str) -> Option<usize> {
    analysis.measured.arms.iter().position(|other| other.name == arm)
}

/// A part that was never measured: eager arms take 1000, merged ones 500, cached ones 50 and lazy ones 5, in all metrics and rows.
#[cfg(test)]
pub fn example(metrics: &[crate::metric::Metric], rows: impl Iterator<Item = Parameters>) -> crate::experiment::Part {
    use super::{CACHED, EAGER, LAZY, LAZY_AND_CACHED, MERGED, forms};
    use crate::blocks::{Length, Measured, Plan, Row};

    const BLOCKS: usize = 8;
    let forms = forms([EAGER, MERGED, CACHED, LAZY, LAZY_AND_CACHED]);
    let arms = [forms[0].clone(), forms[0].again()].into_iter().chain(forms[1..].iter().cloned()).collect();
    let samples = |value: f64| Some((0..BLOCKS).map(|block| vec![value + block as f64 / 1e3; metrics.len()]).collect());
    let row = |parameters| Row {
        parameters,
        metrics: metrics.to_vec(),
        samples: [1000.0, 1000.0, 500.0, 50.0, 5.0, 5.0].map(samples).into(),
        findings: Vec::new(),
    };
    let rows = rows.map(row).collect();
    let (plan, elapsed) = (Plan::of(Length::Blocks(BLOCKS), 1), std::time::Duration::from_secs(1));
    let analysis = Analysis::of(Measured { arms, rows, blocks: BLOCKS, interrupted: false, elapsed, plan });
    let plots = |_: &Analysis| Ok(Vec::new());
    crate::experiment::Part {
        title: String::new(),
        analysis,
        sheets: Vec::new(),
        plots,
        document: crate::json::UNDOCUMENTED,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{EAGER, LAZY, MERGED, at_cpus, life};
    use super::*;

    #[test]
    fn figures_are_found_by_their_names() {
        let part = example(&life::METRICS, [at_cpus(2), at_cpus(256)].into_iter());
        let parts = [&part.analysis];
        let figures = Figures(&parts);
        let ratio = figures.compared("create_destroy_ns", &at_cpus(256), [EAGER, LAZY]).unwrap().ratio;
        assert!((ratio - 0.005).abs() < 1e-4, "{ratio}");
        let median = figures.median("setup_ns", &at_cpus(2), MERGED).unwrap();
        assert!((median - 500.0).abs() < 0.1, "{median}");
        assert!(figures.median("setup_ns", &at_cpus(8), MERGED).is_none(), "no such row");
        assert!(figures.median("kicks", &at_cpus(2), MERGED).is_none(), "no such metric");
        assert!(figures.compared("setup_ns", &at_cpus(2), [MERGED, LAZY]).is_none(), "another baseline");
    }
}
