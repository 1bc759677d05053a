//! 10,000 threads that come and go, by `threads`. See its head for what they do.
//!
//! On one CPU and across two, placement is fixed, and what is measured is the allocators and the kernel. Anywhere is what a user
//! gets, but what counts most there is where the scheduler puts a thread. It may put threads beside their creator, which is the
//! cheaper place, only while they take longer than what the creator does between them: then less work in a thread makes the whole
//! take longer. So each table tells how many threads ran beside their creator, and what all this takes on a malloc that hardly
//! works, the floor.

use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::arm::Arm;
use crate::process;
use crate::progress::Progress;
use crate::rounds::{ByArm, interleave};

/// The label of the arm whose malloc hardly works.
pub const FLOOR: &str = "floor";

const ESTIMATE_MS: u64 = 500;

/// One run of all threads.
#[derive(Clone, Debug, Serialize)]
pub struct Threads {
    pub seconds: f64,
    pub peak_kb: u64,
    /// How much more memory was resident after them than before.
    pub growth_kb: f64,
    /// How many of 100 threads ran on the CPU where their creator had just been.
    pub beside: f64,
}

pub fn expected_ms(arms: usize, rounds: usize) -> u64 {
    ESTIMATE_MS * (PLACES.len() * arms * rounds) as u64
}

/// Where the threads run, and what `threads` calls it.
pub const PLACES: [(&str, &str); 4] =
    [("on one CPU", "one"), ("on another CPU", "across"), ("anywhere", "anywhere"), ("anywhere, of std", "std")];

/// One place on every arm.
#[derive(Debug, Serialize)]
pub struct Place {
    pub name: &'static str,
    pub by_arm: ByArm<Threads>,
}

impl Place {
    /// The median, not the best: where the scheduler chooses, the best run is the one that was placed best.
    pub fn median_seconds(&self, label: &str) -> Option<f64> {
        Some(self.by_arm.get(label)?.series(|run| run.seconds)?.median())
    }
}

/// Runs `threads`, which lies in `binaries`.
pub fn measure(arms: &[Arm], rounds: usize, binaries: &Path, progress: &Progress) -> Vec<Place> {
    progress.part("threads");
    let program = binaries.join("threads");
    let run_at = |&(_, kind): &(&str, &str), arm: &Arm| run(arm, &program, kind);
    let results = interleave(&PLACES, arms, rounds, progress, |_| ESTIMATE_MS, run_at);
    PLACES.iter().zip(results).map(|(&(name, _), by_arm)| Place { name, by_arm }).collect()
}

fn run(arm: &Arm, program: &Path, kind: &str) -> Result<Threads> {
    let run = process::run(arm.command(program).arg(kind))?;
    let [before, after, beside] =
        figures(&run.output).with_context(|| format!("not the output of threads: {}", run.output))?;
    let beside = beside / 100.0;
    Ok(Threads { seconds: run.seconds, peak_kb: run.peak_kb, growth_kb: after - before, beside })
}

/// What follows the answer: the memory before and after, and the number of threads beside their creator.
fn figures(output: &str) -> Option<[f64; 3]> {
    let figures: Option<Vec<f64>> = output.split_whitespace().skip(1).map(|word| word.parse().ok()).collect();
    figures?.try_into().ok()
}
