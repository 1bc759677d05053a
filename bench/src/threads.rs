//! 10,000 threads that come and go, by `threads`. See its head for what they do.
//!
//! On one CPU, and anywhere. Anywhere, half of a thread's time is the scheduler's choice of a CPU for it, and that choice turns on
//! when exactly the thread before it has left its CPU: threads that exit faster are put beside their creator less often, which costs
//! more than any allocator does. One CPU tells what the allocators do, anywhere what a user gets; both are judged.

use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::arm::Arm;
use crate::process::{self, Pinned};
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
    ESTIMATE_MS * (PLACES.len() * arms * rounds) as u64
}

/// Where the threads run: on one CPU or not.
pub const PLACES: [(&str, bool); 2] = [("on one CPU", true), ("anywhere", false)];

/// One place on every arm.
#[derive(Debug, Serialize)]
pub struct Place {
    pub name: &'static str,
    pub by_arm: ByArm<Threads>,
}

/// Runs `threads`, which lies in `binaries`.
pub fn measure(arms: &[Arm], rounds: usize, binaries: &Path, progress: &Progress) -> Vec<Place> {
    progress.part("threads");
    let program = binaries.join("threads");
    let run_at = |&(_, pinned): &(&str, bool), arm: &Arm| {
        let _pinned = if pinned { Some(Pinned::to_last_cpu()?) } else { None };
        run(arm, &program)
    };
    let results = interleave(&PLACES, arms, rounds, progress, |_| ESTIMATE_MS, run_at);
    PLACES.iter().zip(results).map(|(&(name, _), by_arm)| Place { name, by_arm }).collect()
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
