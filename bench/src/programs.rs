//! Whole programs: ours, with fixed work and a checksum, and real ones from Debian.
//!
//! Each allocator's time and peak memory are held against the best *peer* of the row, so that a
//! mean over the rows asks: how far is one library from having the best peer at hand for each
//! program?

mod compiler;
mod redis;
mod sqlite;

pub use redis::REQUESTS as REDIS_REQUESTS;

use std::path::{Path, PathBuf};

use anyhow::Result;
use serde::Serialize;

use crate::arm::{Arm, COMMENSAL, GLIBC, PEERS};
use crate::process::{self, Run};
use crate::progress::Progress;
use crate::rounds::{ByArm, geometric_mean, interleave};

/// A program that can be run on any arm.
trait Workload {
    /// Runs it once. `Run::output` is the answer, the same on every arm.
    fn run(&self, arm: &Arm) -> Result<Run>;

    /// How long a run takes, roughly, with its preparation.
    fn estimate_ms(&self) -> u64 {
        700
    }
}

/// Our programs: a row's name, the file and its arguments.
const OURS: &[(&str, &str, &[&str])] = &[
    ("lifo", "lifo", &[]),
    ("random", "random", &[]),
    ("larson", "larson", &[]),
    ("prodcons-2", "prodcons", &["2"]),
    ("prodcons-8", "prodcons", &["8"]),
    ("large", "large", &[]),
    ("interpreter", "interpreter", &[]),
    ("stress", "stress", &[]),
    ("cubes", "cubes", &[]),
    ("strings", "strings", &[]),
];

/// Programs from Debian's packages.
const THEIRS: &[&str] = &["sqlite", "redis", "gcc"];

/// The names of all rows, for `--only`.
pub fn names() -> impl Iterator<Item = &'static str> {
    OURS.iter().map(|(name, ..)| *name).chain(THEIRS.iter().copied())
}

/// One of our programs.
struct Ours {
    file: PathBuf,
    arguments: &'static [&'static str],
}

impl Workload for Ours {
    fn run(&self, arm: &Arm) -> Result<Run> {
        process::run(arm.command(&self.file).args(self.arguments))
    }
}

/// The rows that can be run here.
pub struct Suite {
    rows: Vec<(&'static str, Box<dyn Workload>)>,
    skipped: Vec<Skipped>,
}

/// A row that can't, and why.
#[derive(Debug, Serialize)]
pub struct Skipped {
    pub name: &'static str,
    pub why: String,
}

impl Suite {
    /// Prepares all rows, or the `only` one. Their files go to `scratch`; our programs lie in
    /// `binaries`.
    pub fn prepare(only: Option<&str>, binaries: &Path, scratch: &Path) -> Suite {
        let mut suite = Suite { rows: Vec::new(), skipped: Vec::new() };
        for &(name, file, arguments) in OURS {
            if only.is_none_or(|only| only == name) {
                suite.rows.push((name, Box::new(Ours { file: binaries.join(file), arguments })));
            }
        }
        for &name in THEIRS {
            if only.is_none_or(|only| only == name) {
                match prepare_theirs(name, scratch) {
                    Ok(workload) => suite.rows.push((name, workload)),
                    Err(error) => suite.skipped.push(Skipped { name, why: format!("{error:#}") }),
                }
            }
        }
        suite
    }

    pub fn expected_ms(&self, arms: usize, rounds: usize) -> u64 {
        self.rows.iter().map(|(_, workload)| workload.estimate_ms()).sum::<u64>() * (arms * rounds) as u64
    }

    pub fn measure(self, arms: &[Arm], rounds: usize, progress: &Progress) -> Programs {
        progress.part("programs");
        let results = interleave(
            &self.rows,
            arms,
            rounds,
            progress,
            |(_, workload)| workload.estimate_ms(),
            |(_, workload), arm| workload.run(arm),
        );
        let mut rows: Vec<Row> =
            self.rows.iter().zip(results).map(|((name, _), by_arm)| Row { name, by_arm }).collect();
        rows.iter_mut().for_each(Row::check_answers);
        Programs { rows, skipped: self.skipped }
    }
}

fn prepare_theirs(name: &str, scratch: &Path) -> Result<Box<dyn Workload>> {
    Ok(match name {
        "sqlite" => Box::new(sqlite::Sqlite::prepare(scratch)?),
        "redis" => Box::new(redis::Redis::prepare(scratch)?),
        "gcc" => Box::new(compiler::Compiler::prepare(scratch)?),
        _ => unreachable!("THEIRS has no {name}"),
    })
}

/// One program on every arm.
#[derive(Debug, Serialize)]
pub struct Row {
    pub name: &'static str,
    pub by_arm: ByArm<Run>,
}

impl Row {
    /// Fails each arm whose answer differs from the reference: glibc's, or else that of the first
    /// arm at hand.
    fn check_answers(&mut self) {
        let reference = [GLIBC].iter().chain(&PEERS).chain(&[COMMENSAL]).find_map(|&label| {
            let first = self.by_arm.get(label)?.values.first()?;
            Some((label, first.output.clone()))
        });
        let Some((label, expected)) = reference else {
            return;
        };
        for samples in self.by_arm.values_mut() {
            if let Some(wrong) = samples.values.iter().find(|run| run.output != expected) {
                let wrong = format!("wrong answer {:.40}, {label} gave {expected:.40}", wrong.output);
                samples.failure.get_or_insert(wrong);
            }
        }
    }

    /// An arm's best figure.
    pub fn best(&self, label: &str, figure: Figure) -> Option<f64> {
        Some(self.by_arm.get(label)?.series(figure.of())?.best())
    }

    /// An arm's median figure.
    pub fn typical(&self, label: &str, figure: Figure) -> Option<f64> {
        Some(self.by_arm.get(label)?.series(figure.of())?.median())
    }

    /// The best peer's best figure.
    pub fn best_peer(&self, figure: Figure) -> Option<f64> {
        PEERS.iter().filter_map(|peer| self.best(peer, figure)).min_by(f64::total_cmp)
    }
}

/// What is compared of a run. Less is better for both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    Time,
    Memory,
}

impl Figure {
    pub fn of(self) -> impl Fn(&Run) -> f64 {
        move |run| match self {
            Figure::Time => run.seconds,
            Figure::Memory => run.peak_kb as f64,
        }
    }
}

/// All rows that were run.
#[derive(Debug, Serialize)]
pub struct Programs {
    pub rows: Vec<Row>,
    pub skipped: Vec<Skipped>,
}

impl Programs {
    /// An arm's geometric mean over the best peer of each row. None if the arm failed in a row, or
    /// there is no peer.
    pub fn mean_over_best_peer(&self, label: &str, figure: Figure) -> Option<f64> {
        self.mean(|row| Some(row.best(label, figure)? / row.best_peer(figure)?))
    }

    /// The geometric mean of one arm's figures over another's.
    pub fn mean_over(&self, label: &str, other: &str, figure: Figure) -> Option<f64> {
        self.mean(|row| Some(row.best(label, figure)? / row.best(other, figure)?))
    }

    fn mean(&self, ratio: impl Fn(&Row) -> Option<f64>) -> Option<f64> {
        let ratios: Option<Vec<f64>> = self.rows.iter().map(ratio).collect();
        geometric_mean(ratios?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rounds::Samples;

    fn row(answers: &[(&'static str, &str)]) -> Row {
        let samples = |answer: &str| {
            let run = Run { seconds: 1.0, peak_kb: 1, output: answer.to_owned() };
            Samples { values: vec![run], failure: None }
        };
        let by_arm = answers.iter().map(|&(label, answer)| (label, samples(answer))).collect();
        Row { name: "row", by_arm }
    }

    #[test]
    fn a_wrong_answer_fails_the_arm_that_gave_it() {
        let mut row = row(&[(COMMENSAL, "1"), ("mimalloc", "2"), (GLIBC, "2")]);
        row.check_answers();
        assert_eq!(row.best(COMMENSAL, Figure::Time), None);
        assert_eq!(row.best_peer(Figure::Time), Some(1.0));
    }

    #[test]
    fn a_row_without_an_arm_leaves_it_no_mean() {
        let whole = row(&[(COMMENSAL, "1"), ("mimalloc", "1")]);
        let torn = row(&[("mimalloc", "1")]);
        let programs = Programs { rows: vec![whole, torn], skipped: Vec::new() };
        assert_eq!(programs.mean_over_best_peer(COMMENSAL, Figure::Time), None);
        assert_eq!(programs.mean_over_best_peer("mimalloc", Figure::Time), Some(1.0));
    }
}
