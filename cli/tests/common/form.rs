//! The form of a result, as a program in another language would read it: whatever has another name or type is an error.

use std::collections::BTreeMap;

use serde::Deserialize;

/// A result of `compare` or `lab`. What only some of them have stands beside it.
#[derive(Deserialize)]
pub struct Outcome {
    experiment: String,
    commit: String,
    command: String,
    seed: u64,
    blocks: u64,
    interrupted: bool,
    machine: Machine,
    arms: Vec<Arm>,
    comparisons: Vec<Comparison>,
    findings: Vec<Finding>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Machine {
    kind: Kind,
    cpus: u32,
    model: String,
    kernel: String,
    libc: String,
    is_virtual: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Host,
    Simulated,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arm {
    name: String,
    origin: String,
    parameters: Parameters,
    metrics: BTreeMap<String, Metric>,
}

type Parameters = BTreeMap<String, Parameter>;

#[derive(Deserialize)]
#[serde(untagged)]
enum Parameter {
    Word(String),
    Number(f64),
    Truth(bool),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Metric {
    unit: String,
    median: f64,
    ci95: [f64; 2],
    runs: Vec<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Comparison {
    metric: String,
    parameters: Parameters,
    baseline: String,
    candidate: String,
    ratio: f64,
    ci95: [f64; 2],
    p: f64,
    mde: Option<f64>,
    verdict: String,
    drift: f64,
    document: Option<Documented>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Documented {
    source: String,
    figure: String,
    value: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Finding {
    row: String,
    arm: String,
    what: String,
    detail: String,
    is_fault: bool,
}

impl Outcome {
    /// Holds what types do not say.
    pub fn check(&self) {
        assert!(!self.experiment.is_empty() && !self.commit.is_empty() && !self.arms.is_empty());
        assert!(self.machine.cpus > 0 && self.findings.iter().all(|finding| !finding.what.is_empty()));
        for metric in self.arms.iter().flat_map(|arm| arm.metrics.values()) {
            assert!(["s", "ns", "ms", "us", "kB", "B", "1", "1/s"].contains(&&*metric.unit), "{}", metric.unit);
            assert!(!metric.runs.is_empty());
        }
        for Comparison { ratio, p, mde, verdict, drift, .. } in &self.comparisons {
            assert!(*ratio >= 0.0 && (0.0..=1.0).contains(p) && (-1.0..=1.0).contains(drift), "{ratio} {p} {drift}");
            assert!(mde.is_none_or(|effect| effect >= 0.0), "{mde:?}");
            assert!(["faster", "slower", "no difference shown"].contains(&&**verdict), "{verdict}");
        }
    }
}
