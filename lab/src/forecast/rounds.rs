//! What probes say of this machine: each of them once in a round, and many rounds.
//!
//! A guest's CPUs are slow for a second, or for a minute, and then fast again, by a factor of up to two. Whoever runs
//! one probe fifteen times and then another one compares such times, and not what the probes do. In rounds each of them
//! meets all of these times.

use std::collections::BTreeMap;

use anyhow::{Context, Result};

use crate::profile::Profile;

/// Whoever can be asked: this machine, and a simulated one.
pub trait Probed {
    /// All figures that a probe prints here.
    fn here(&self, line: &str) -> Result<Vec<f64>>;
    /// One of those that it prints on a simulated machine.
    fn simulated(&self, profile: &Profile, line: &str, place: usize) -> Result<f64>;
    /// So much of what is being done is done.
    fn done(&self, part: f64, what: &str);
}

/// Probes in which CPUs want the same lines. Their shortest run is one in which these did not meet.
const CONTENDED: [&str; 2] = ["counters upgraded 2 atomic", "sections 2"];

/// What several runs of a probe said, the shortest first.
#[derive(Clone, Debug, PartialEq)]
pub struct Said {
    pub runs: Vec<f64>,
    is_contended: bool,
}

impl Said {
    /// What it takes: the shortest run, as what else a machine does only adds to that, or the median of those in which
    /// CPUs want the same lines.
    pub fn usual(&self) -> f64 {
        if self.is_contended { self.median() } else { self.least() }
    }

    pub fn least(&self) -> f64 {
        self.runs[0]
    }

    pub fn median(&self) -> f64 {
        statistics::median(&mut self.runs.clone())
    }

    pub fn most(&self) -> f64 {
        self.runs[self.runs.len() - 1]
    }
}

/// What all of them said.
pub struct Rounds<'a>(BTreeMap<&'a str, Vec<Vec<f64>>>);

impl<'a> Rounds<'a> {
    /// Asks each of these so often. A probe that is named twice is asked once a round.
    pub fn of(lines: impl IntoIterator<Item = &'a str>, rounds: usize, probed: &impl Probed) -> Result<Self> {
        let mut all: BTreeMap<&str, Vec<Vec<f64>>> = lines.into_iter().map(|line| (line, Vec::new())).collect();
        for round in 0..rounds {
            for (line, runs) in &mut all {
                runs.push(probed.here(line)?);
            }
            probed.done((round + 1) as f64 / rounds as f64, "this machine");
        }
        Ok(Rounds(all))
    }

    /// What one of a probe's figures was.
    pub fn told(&self, line: &str, place: usize) -> Result<Said> {
        let runs = self.0.get(line).with_context(|| format!("{line} was not asked"))?;
        let figure = |run: &Vec<f64>| run.get(place).copied();
        let figures = runs.iter().map(figure).collect::<Option<Vec<f64>>>();
        let mut runs = figures.with_context(|| format!("{line} printed too few figures"))?;
        runs.sort_by(f64::total_cmp);
        Ok(Said { runs, is_contended: CONTENDED.contains(&line) })
    }
}
