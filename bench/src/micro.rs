//! One malloc and one free of 64 bytes, by `micro`: three depths in three settings. See its head
//! for what they are.

use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::arm::{Arm, PEERS};
use crate::process;
use crate::progress::Progress;
use crate::rounds::{ByArm, interleave};

const ESTIMATE_MS: u64 = 700;

/// Who else runs in the process. `micro` takes the names as its argument.
pub const SETTINGS: [&str; 3] = ["solo", "parked", "both"];

/// The pairs' cost at one depth, in one run of `micro`.
#[derive(Clone, Debug, Serialize)]
pub struct Depth {
    pub depth: usize,
    pub best_ns: f64,
    pub median_ns: f64,
}

/// One setting on every arm; a sample has all depths.
#[derive(Debug, Serialize)]
pub struct Setting {
    pub name: &'static str,
    pub by_arm: ByArm<Vec<Depth>>,
}

impl Setting {
    /// The depths that were measured, on whatever arm.
    pub fn depths(&self) -> Vec<usize> {
        let first = self.by_arm.values().find_map(|samples| samples.values.first());
        first.map(|depths| depths.iter().map(|depth| depth.depth).collect()).unwrap_or_default()
    }

    /// Nanoseconds a pair: the best of an arm's best rounds.
    pub fn best(&self, label: &str, depth: usize) -> Option<f64> {
        Some(self.by_arm.get(label)?.series(|depths| at(depths, depth).best_ns)?.best())
    }

    /// Nanoseconds a pair: the median of an arm's median rounds.
    pub fn median(&self, label: &str, depth: usize) -> Option<f64> {
        Some(self.by_arm.get(label)?.series(|depths| at(depths, depth).median_ns)?.median())
    }

    /// The best peer's best.
    pub fn best_peer(&self, depth: usize) -> Option<f64> {
        PEERS.iter().filter_map(|peer| self.best(peer, depth)).min_by(f64::total_cmp)
    }
}

fn at(depths: &[Depth], depth: usize) -> &Depth {
    depths.iter().find(|measured| measured.depth == depth).expect("every run has the same depths")
}

pub fn expected_ms(arms: usize, rounds: usize) -> u64 {
    ESTIMATE_MS * (SETTINGS.len() * arms * rounds) as u64
}

/// Runs `micro`, which lies in `binaries`.
pub fn measure(arms: &[Arm], rounds: usize, binaries: &Path, progress: &Progress) -> Vec<Setting> {
    progress.part("micro");
    let program = binaries.join("micro");
    let results = interleave(
        &SETTINGS,
        arms,
        rounds,
        progress,
        |_| ESTIMATE_MS,
        |setting, arm| parse(&process::run(arm.command(&program).arg(setting))?.output),
    );
    SETTINGS.iter().zip(results).map(|(name, by_arm)| Setting { name, by_arm }).collect()
}

/// Lines of a depth, the best and the median round.
fn parse(output: &str) -> Result<Vec<Depth>> {
    let line = |line: &str| {
        let mut words = line.split(' ');
        let depth = words.next()?.parse().ok()?;
        let mut nanoseconds = || words.next()?.parse().ok();
        Some(Depth { depth, best_ns: nanoseconds()?, median_ns: nanoseconds()? })
    };
    output.lines().map(line).collect::<Option<_>>().with_context(|| format!("not the output of micro: {output}"))
}
