//! A result as one JSON object, in the form that all experiments share; lab/result.schema.json describes it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::analysis::{Analysis, BASELINE, BEST_PEER, Judged, MEAN};
use crate::arm::Arm;
use crate::finding::Finding;
use crate::machine::Machine;
use crate::metric::Metric;
use crate::statistics::{Comparison, Verdict};

/// What a document says of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Documented {
    /// The document.
    pub source: String,
    /// What it is that it gives.
    pub figure: String,
    /// The ratio that it gives.
    pub value: f64,
}

/// Whether a document says something of a candidate against a baseline in a metric.
pub type Document = fn(baseline: &Arm, candidate: &Arm, metric: &Metric) -> Option<Documented>;

/// A result.
#[derive(Serialize)]
pub struct Object {
    experiment: String,
    commit: String,
    command: String,
    seed: u64,
    blocks: usize,
    interrupted: bool,
    machine: Machine,
    arms: Vec<ArmObject>,
    comparisons: Vec<ComparisonObject>,
    findings: Vec<Finding>,
}

#[derive(Serialize)]
struct ArmObject {
    name: String,
    origin: String,
    parameters: Map<String, Value>,
    metrics: BTreeMap<&'static str, MetricObject>,
}

#[derive(Serialize)]
struct MetricObject {
    unit: &'static str,
    median: f64,
    ci95: [f64; 2],
    runs: Vec<f64>,
}

#[derive(Serialize)]
struct ComparisonObject {
    metric: &'static str,
    parameters: Map<String, Value>,
    baseline: String,
    candidate: String,
    ratio: f64,
    ci95: [f64; 2],
    p: f64,
    mde: Option<f64>,
    verdict: &'static str,
    drift: f64,
    document: Option<Documented>,
}

/// Puts a result into the form.
pub fn object(experiment: &str, analysis: &Analysis, document: Document) -> Object {
    let measured = &analysis.measured;
    let mut this = Object {
        experiment: experiment.to_owned(),
        commit: crate::commit(),
        command: command_line(),
        seed: measured.plan.seed,
        blocks: measured.blocks,
        interrupted: measured.interrupted,
        machine: Machine::host(),
        arms: Vec::new(),
        comparisons: Vec::new(),
        findings: analysis.findings().cloned().collect(),
    };
    for (at, row) in measured.rows.iter().enumerate() {
        this.add_arms(analysis, at);
        this.compare(analysis, &analysis.rows[at], &row.name, Some(BASELINE), document);
    }
    this.compare(analysis, &analysis.means, MEAN, Some(BASELINE), document);
    this.compare(analysis, &analysis.means_over_best_peer, MEAN, None, document);
    for (baseline, rows) in &analysis.others {
        for (row, judged) in measured.rows.iter().zip(rows) {
            this.compare(analysis, judged, &row.name, Some(*baseline), document);
        }
    }
    this
}

impl Object {
    fn add_arms(&mut self, analysis: &Analysis, at: usize) {
        let row = &analysis.measured.rows[at];
        for (arm, described) in analysis.measured.arms.iter().enumerate() {
            let metrics = analysis.rows[at].iter().enumerate().filter_map(|(metric, judged)| {
                let median = judged.medians[arm]?;
                let runs = row.values(arm, metric)?;
                let of = MetricObject { unit: judged.metric.unit, median: median.value, ci95: median.interval, runs };
                Some((judged.metric.name, of))
            });
            let (name, origin) = (described.name.clone(), described.origin());
            self.arms.push(ArmObject { name, origin, parameters: parameters(&row.name), metrics: metrics.collect() });
        }
    }

    /// Against one of the arms, or the best peer of each subject.
    fn compare(
        &mut self,
        analysis: &Analysis,
        judged: &[Judged],
        row: &str,
        baseline: Option<usize>,
        document: Document,
    ) {
        let baseline = baseline.map(|baseline| &analysis.measured.arms[baseline]);
        for judged in judged {
            for (arm, compared) in analysis.measured.arms.iter().zip(&judged.comparisons) {
                let Some(compared) = compared else { continue };
                let documented = baseline.and_then(|baseline| document(baseline, arm, &judged.metric));
                let baseline = baseline.map_or(BEST_PEER, |baseline| &baseline.name);
                self.comparisons.push(comparison(compared, judged.metric.name, row, baseline, &arm.name, documented));
            }
        }
    }

    /// The file that it gets in a report.
    pub fn file_name(&self) -> String {
        format!("{}.json", self.experiment)
    }

    /// Writes it to a file, or to standard output if that is called `-`.
    pub fn write(&self, path: &Path) -> Result<()> {
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        if path.as_os_str() == "-" {
            return match io::stdout().write_all(text.as_bytes()) {
                // A reader who has seen enough is no error.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
                written => written.context("cannot write to standard output"),
            };
        }
        let written = File::create(path).and_then(|mut file| file.write_all(text.as_bytes()));
        written.with_context(|| format!("cannot write {}; expected a place for the result", path.display()))
    }
}

fn comparison(
    compared: &Comparison,
    metric: &'static str,
    row: &str,
    baseline: &str,
    candidate: &str,
    document: Option<Documented>,
) -> ComparisonObject {
    ComparisonObject {
        metric,
        parameters: parameters(row),
        baseline: baseline.to_owned(),
        candidate: candidate.to_owned(),
        ratio: compared.ratio,
        ci95: compared.interval,
        p: compared.p,
        mde: compared.detectable,
        verdict: match compared.verdict {
            Verdict::Less => "faster",
            Verdict::More => "slower",
            Verdict::NotShown => "no difference shown",
        },
        drift: compared.drift.correlation,
        document,
    }
}

/// Which of several programs; nothing if there is but one.
fn parameters(row: &str) -> Map<String, Value> {
    let named = (!row.is_empty()).then(|| ("workload".to_owned(), Value::from(row)));
    named.into_iter().collect()
}

/// The command as it was typed, as far as that is known: words that a shell would split are quoted.
pub fn command_line() -> String {
    let words = std::env::args_os().map(|word| {
        let word = word.to_string_lossy().into_owned();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,%+@".contains(c);
        if !word.is_empty() && word.chars().all(is_plain) { word } else { format!("'{}'", word.replace('\'', r"'\''")) }
    });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;

    #[test]
    fn verdicts_and_figures_stand_where_they_belong() {
        let analysis = example::analysis(&["store", "larson"]);
        let value = serde_json::to_value(object("suite", &analysis, |_, _, _| None)).unwrap();
        let verdict = |candidate: &str, metric: &str| {
            let all = value["comparisons"].as_array().unwrap();
            let is_it = |one: &&Value| {
                one["candidate"] == candidate && one["metric"] == metric && one["parameters"]["workload"] == "store"
            };
            all.iter().find(is_it).unwrap()["verdict"].clone()
        };
        assert_eq!(verdict("ours", "wall_s"), "faster");
        assert_eq!(verdict("peer", "wall_s"), "slower");
        assert_eq!(verdict("peer", "peak_kb"), "slower");
        assert_eq!(verdict("glibc again", "peak_kb"), "no difference shown");
        let ours = &value["arms"][2];
        assert_eq!((&ours["name"], &ours["metrics"]["peak_kb"]["median"]), (&"ours".into(), &4096.0.into()));
        assert_eq!(value["arms"][4]["metrics"], Value::Object(Map::new()), "it failed");
        assert_eq!(value["findings"].as_array().unwrap().len(), 2);
    }
}
