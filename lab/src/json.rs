//! A result as one JSON object, in the form that all experiments share.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;
use statistics::Verdict;

use crate::analysis::{Analysis, BASELINE, Judged};
use crate::finding::Finding;
use crate::machine::Machine;
use crate::metric::Metric;
use crate::parameters::Parameters;

/// What a document says of a comparison.
#[derive(Clone, Debug, Serialize)]
pub struct Documented {
    #[serde(skip)]
    baseline: String,
    #[serde(skip)]
    candidate: String,
    #[serde(skip)]
    metric: &'static str,
    #[serde(skip)]
    parameters: Parameters,
    source: &'static str,
    /// What it is that it gives.
    figure: String,
    /// The ratio that it gives.
    value: f64,
}

impl Documented {
    /// Of a baseline and a candidate in a metric and a row: the document, what it gives, and its ratio.
    pub fn of(
        [baseline, candidate]: [&str; 2], metric: &Metric, parameters: Parameters,
        (source, figure, value): (&'static str, String, f64),
    ) -> Self {
        let [baseline, candidate] = [baseline, candidate].map(str::to_owned);
        Documented { baseline, candidate, metric: metric.name, parameters, source, figure, value }
    }
}

/// No document says anything.
pub const UNDOCUMENTED: &[Documented] = &[];

/// A result.
#[derive(Serialize)]
pub struct Object {
    experiment: String,
    /// With a plus if the tree had changes of its own.
    commit: String,
    command: String,
    seed: u64,
    /// Whole blocks that count; of several parts, those of the shortest.
    blocks: usize,
    interrupted: bool,
    machine: Machine,
    arms: Vec<Figure>,
    comparisons: Vec<ComparisonObject>,
    findings: Vec<Finding>,
    /// What only some results have: the programs of a suite, what was forecast.
    #[serde(flatten)]
    besides: serde_json::Map<String, serde_json::Value>,
}

/// An arm with one row's parameters.
#[derive(Serialize)]
pub struct Figure {
    name: String,
    /// The library and its settings, or what the program was told; where parts had several, all.
    origin: String,
    parameters: Parameters,
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
    parameters: Parameters,
    baseline: String,
    candidate: String,
    /// Candidate over baseline, the median of the blocks; half of what the metric can resolve is added to both.
    ratio: f64,
    ci95: [f64; 2],
    /// Corrected for the number of candidates.
    p: f64,
    /// The smallest effect that such a run finds four times in five; none if it can find none.
    mde: Option<f64>,
    /// Of every metric less is better: faster means less of it, for memory too.
    verdict: &'static str,
    document: Option<Documented>,
}

/// What programs read of a verdict.
pub(crate) fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Less => "faster",
        Verdict::More => "slower",
        Verdict::NotShown => "no difference shown",
    }
}

/// Puts a result into the form: one measurement, or several that were made one after the other.
pub fn object(experiment: &str, machine: &Machine, parts: &[(&Analysis, &[Documented])]) -> Object {
    let measured = || parts.iter().map(|(analysis, _)| &analysis.measured);
    let mut this = Object {
        seed: measured().next().map_or(0, |first| first.plan.seed),
        blocks: measured().map(|part| part.blocks).min().unwrap_or(0),
        interrupted: measured().any(|part| part.interrupted),
        findings: parts.iter().flat_map(|(analysis, _)| analysis.findings()).cloned().collect(),
        ..Object::of_figures(experiment, machine, Vec::new())
    };
    parts.iter().for_each(|(analysis, documents)| this.add(analysis, documents));
    this
}

impl Figure {
    /// What one arm says of an operation, where there is nothing to compare: its name, where its figures come from, which row
    /// it is; then nanoseconds, a band where others have an interval, and all runs.
    pub fn new(
        name: &str, origin: &str, parameters: &Parameters, (median, ci95, runs): (f64, [f64; 2], Vec<f64>),
    ) -> Self {
        let metrics = BTreeMap::from([("operation_ns", MetricObject { unit: "ns", median, ci95, runs })]);
        Figure { name: name.to_owned(), origin: origin.to_owned(), parameters: parameters.clone(), metrics }
    }
}

impl Object {
    /// What is told of the model, or by it.
    pub fn of_figures(experiment: &str, machine: &Machine, all: Vec<Figure>) -> Self {
        Object {
            experiment: experiment.to_owned(),
            commit: crate::commit(),
            command: command_line(),
            seed: 0,
            blocks: 0,
            interrupted: false,
            machine: machine.clone(),
            arms: all,
            comparisons: Vec::new(),
            findings: Vec::new(),
            besides: serde_json::Map::new(),
        }
    }

    /// With something else, by a name of its own.
    pub fn with(mut self, name: &str, what: &impl Serialize) -> Result<Self> {
        self.besides.insert(name.to_owned(), serde_json::to_value(what)?);
        Ok(self)
    }

    /// On what it was measured.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    fn add(&mut self, analysis: &Analysis, documents: &[Documented]) {
        let rows = &analysis.measured.rows;
        for (at, row) in rows.iter().enumerate() {
            self.add_arms(analysis, at);
            self.compare(analysis, &analysis.rows[at], &row.parameters, BASELINE, documents);
        }
        let of_all = Parameters::of_workload(&analysis.mean_name());
        self.compare(analysis, &analysis.means, &of_all, BASELINE, documents);
        for (baseline, others) in &analysis.others {
            for (row, judged) in rows.iter().zip(others) {
                self.compare(analysis, judged, &row.parameters, *baseline, documents);
            }
        }
    }

    /// An arm that had the same parameters in another part has all its metrics together, whoever it was there.
    fn add_arms(&mut self, analysis: &Analysis, at: usize) {
        let row = &analysis.measured.rows[at];
        for (arm, described) in analysis.measured.arms.iter().enumerate() {
            let metrics = analysis.rows[at].iter().enumerate().filter_map(|(metric, judged)| {
                let median = judged.medians[arm]?;
                let runs = row.values(arm, metric)?;
                let of = MetricObject { unit: judged.metric.unit, median: median.value, ci95: median.interval, runs };
                Some((judged.metric.name, of))
            });
            let (name, origin, parameters) = (described.name.clone(), described.origin(), row.parameters.clone());
            match self.arms.iter_mut().find(|arm| arm.name == name && arm.parameters == parameters) {
                Some(arm) => {
                    arm.metrics.extend(metrics);
                    if !arm.origin.split("; ").any(|known| known == origin) {
                        arm.origin = format!("{}; {origin}", arm.origin);
                    }
                }
                None => self.arms.push(Figure { name, origin, parameters, metrics: metrics.collect() }),
            }
        }
    }

    fn compare(
        &mut self, analysis: &Analysis, judged: &[Judged], parameters: &Parameters, baseline: usize,
        documents: &[Documented],
    ) {
        let baseline = &analysis.measured.arms[baseline].name;
        for Judged { metric, comparisons, .. } in judged {
            for (arm, compared) in analysis.measured.arms.iter().zip(comparisons) {
                let Some(compared) = compared else { continue };
                let is_it = |of: &&Documented| {
                    [&of.baseline, &of.candidate, of.metric] == [baseline, &arm.name, metric.name]
                        && of.parameters == *parameters
                };
                self.comparisons.push(ComparisonObject {
                    metric: metric.name,
                    parameters: parameters.clone(),
                    baseline: baseline.clone(),
                    candidate: arm.name.clone(),
                    ratio: compared.ratio,
                    ci95: compared.interval,
                    p: compared.p,
                    mde: compared.detectable,
                    verdict: word(compared.verdict),
                    document: documents.iter().find(is_it).cloned(),
                });
            }
        }
    }

    /// The file that it gets in a report.
    pub fn file_name(&self) -> String {
        format!("{}.json", self.experiment)
    }

    /// Writes it to a file, or to standard output if that is called `-`.
    pub fn write(&self, path: &Path) -> Result<()> {
        write_json(path, self)
    }
}

/// Writes an object to a file, or to standard output if that is called `-`.
pub fn write_json(path: &Path, object: &impl Serialize) -> Result<()> {
    let mut text = serde_json::to_string_pretty(object)?;
    text.push('\n');
    if path.as_os_str() != "-" {
        return fs::write(path, text)
            .with_context(|| format!("cannot write {}; expected a place for the result", path.display()));
    }
    match io::stdout().write_all(text.as_bytes()) {
        // A reader who has seen enough is no error.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write to standard output"),
    }
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
    use serde_json::Value;

    use super::*;
    use crate::example;

    #[test]
    fn verdicts_and_figures_stand_where_they_belong() {
        let analysis = example::analysis(&["store", "larson"]);
        let value = serde_json::to_value(object("suite", &Machine::host(), &[(&analysis, UNDOCUMENTED)])).unwrap();
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
        assert_eq!(value["arms"][4]["metrics"], serde_json::json!({}), "it failed");
        assert_eq!(value["findings"].as_array().unwrap().len(), 2);
    }

    #[test]
    fn parts_are_one_object() {
        let (one, mut other) = (example::analysis(&["store"]), example::analysis(&["store"]));
        let renamed = |metric: &mut Metric| metric.name = if metric.unit == "kB" { "more_kb" } else { "more_s" };
        other.rows[0].iter_mut().for_each(|judged| renamed(&mut judged.metric));
        other.measured.blocks = 3;
        other.measured.arms[2].words.push("lazy".to_owned());
        other.measured.interrupted = true;
        let parts = [(&one, UNDOCUMENTED), (&other, UNDOCUMENTED)];
        let value = serde_json::to_value(object("two", &Machine::host(), &parts)).unwrap();
        assert_eq!((&value["blocks"], &value["interrupted"]), (&3.into(), &true.into()), "the fewest, and either");
        assert_eq!(value["arms"].as_array().unwrap().len(), 5, "an arm with its parameters is there once");
        assert_eq!(value["arms"][2]["origin"], "/lib/ours.so; /lib/ours.so, told lazy");
        let metrics = value["arms"][2]["metrics"].as_object().unwrap();
        assert!(metrics.contains_key("wall_s") && metrics.contains_key("more_kb"), "{metrics:?}");
    }
}
