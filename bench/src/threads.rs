//! 10,000 threads that come and go, by `threads`. See its head for what they do.

use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::arm::Arm;
use crate::process;
use crate::progress::Progress;
use crate::rounds::{ByArm, interleave};

const ESTIMATE_MS: u64 = 500;

/// One run of all threads.
#[derive(Clone, Debug, Serialize)]
pub struct Threads {
    pub seconds: f64,
    pub peak_kb: u64,
    /// How much more memory was resident after them than before.
    pub growth_kb: f64,
}

pub fn expected_ms(arms: usize, rounds: usize) -> u64 {
    ESTIMATE_MS * (arms * rounds) as u64
}

/// Runs `threads`, which lies in `binaries`.
pub fn measure(arms: &[Arm], rounds: usize, binaries: &Path, progress: &Progress) -> ByArm<Threads> {
    progress.part("threads");
    let program = binaries.join("threads");
    let mut results = interleave(&[()], arms, rounds, progress, |()| ESTIMATE_MS, |(), arm| run(arm, &program));
    results.remove(0)
}

fn run(arm: &Arm, program: &Path) -> Result<Threads> {
    let run = process::run(&mut arm.command(program))?;
    let growth_kb = growth(&run.output).with_context(|| format!("not the output of threads: {}", run.output))?;
    Ok(Threads { seconds: run.seconds, peak_kb: run.peak_kb, growth_kb })
}

/// From the answer, the memory before and the memory after.
fn growth(output: &str) -> Option<f64> {
    let mut words = output.split(' ').skip(1);
    let mut kb = || words.next()?.parse::<f64>().ok();
    let (before, after) = (kb()?, kb()?);
    Some(after - before)
}
