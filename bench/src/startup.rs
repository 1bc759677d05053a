//! What a preloaded library costs a program that does nothing: spawn `/bin/true`, wait for its end,
//! again and again.
//!
//! Everything is pinned to one CPU, because a child that starts on another one than its parent
//! costs more or less by chance. Arms take turns in blocks; in each round an arm's block is held
//! against the round's block with the empty library, which ran in the same second.

use std::ffi::CString;
use std::process::Command;
use std::time::Instant;

use anyhow::{Result, ensure};
use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, posix_spawn};
use nix::sys::wait::{WaitStatus, waitpid};
use serde::Serialize;

use crate::arm::Arm;
use crate::process::{self, Pinned};
use crate::progress::Progress;
use crate::rounds::{ByArm, Samples, Series, interleave};

/// The label of the arm with the library that does nothing.
pub const EMPTY: &str = "empty";

const PROGRAM: &str = "/bin/true";
const SPAWNS: usize = 300;
const ESTIMATE_MS: u64 = 300;

/// One block of spawns.
#[derive(Clone, Debug, Serialize)]
pub struct Block {
    /// The middle one of the block's times.
    pub milliseconds: f64,
    pub peak_kb: u64,
}

/// All blocks.
#[derive(Debug, Serialize)]
pub struct Startup {
    pub by_arm: ByArm<Block>,
}

impl Startup {
    /// An arm's best block over the empty library's best block.
    pub fn best_ratio(&self, label: &str) -> Option<f64> {
        let best = |label| Some(self.of(label)?.series(|block| block.milliseconds)?.best());
        Some(best(label)? / best(EMPTY)?)
    }

    /// The median of the rounds' ratios, each of two blocks of the same round.
    pub fn median_ratio(&self, label: &str) -> Option<f64> {
        let (arm, empty) = (self.of(label)?, self.of(EMPTY)?);
        if arm.failure.is_some() || empty.failure.is_some() {
            return None;
        }
        let pairs = arm.values.iter().zip(&empty.values);
        Some(Series::new(pairs.map(|(arm, empty)| arm.milliseconds / empty.milliseconds).collect()).median())
    }

    /// The middle one of the peaks: the kernel counts pages in batches, so that any single one is
    /// off by some.
    pub fn peak_kb(&self, label: &str) -> Option<f64> {
        Some(self.of(label)?.series(|block| block.peak_kb as f64)?.median())
    }

    fn of(&self, label: &str) -> Option<&Samples<Block>> {
        self.by_arm.get(label)
    }
}

pub fn expected_ms(arms: usize, rounds: usize) -> u64 {
    ESTIMATE_MS * (arms * rounds) as u64
}

/// Measures all arms, of which one is [`EMPTY`].
pub fn measure(arms: &[Arm], rounds: usize, progress: &Progress) -> Result<Startup> {
    progress.part("start-up");
    let pinned = Pinned::to_last_cpu()?;
    let mut results = interleave(&[()], arms, rounds, progress, |()| ESTIMATE_MS, |(), arm| block(arm));
    drop(pinned);
    Ok(Startup { by_arm: results.remove(0) })
}

fn block(arm: &Arm) -> Result<Block> {
    let environment: Vec<CString> = arm.preload().map(CString::new).into_iter().collect::<Result<_, _>>()?;
    // The first one finds the library's pages outside of every cache.
    spawn(&environment)?;
    let times: Vec<f64> = (0..SPAWNS).map(|_| spawn(&environment)).collect::<Result<_>>()?;
    let peak_kb = process::run(&mut minimal(arm.command(PROGRAM)))?.peak_kb;
    Ok(Block { milliseconds: Series::new(times).median(), peak_kb })
}

/// The command with nothing in its environment but what was set for it.
fn minimal(command: Command) -> Command {
    let mut bare = Command::new(command.get_program());
    bare.env_clear().envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    bare
}

/// Milliseconds from before the spawn to after the wait.
fn spawn(environment: &[CString]) -> Result<f64> {
    let (program, actions) = (CString::new(PROGRAM)?, PosixSpawnFileActions::init()?);
    let attributes = PosixSpawnAttr::init()?;
    let start = Instant::now();
    let pid = posix_spawn(program.as_c_str(), &actions, &attributes, &[&program], environment)?;
    let status = waitpid(pid, None)?;
    let milliseconds = start.elapsed().as_secs_f64() * 1e3;
    ensure!(matches!(status, WaitStatus::Exited(_, 0)), "{PROGRAM} ended with {status:?}");
    Ok(milliseconds)
}
