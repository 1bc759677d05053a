//! The simulated machine as a measuring instrument: what its costs are, how far it is off, and what it says of machines
//! that are not here.
//!
//! `calibrate` measures what this machine can tell, `fit` finds costs that nobody published from three points of a
//! curve, and `validate` holds the model against all other points, and against this machine. `predict` then says what
//! others would say.
#![allow(missing_docs)]

pub mod calibrate;
pub mod fit;
pub mod predict;
pub mod rounds;
pub mod validate;

use std::path::Path;

use anyhow::{Context, Result};

use crate::experiment::probing::{asked_of, words};
use crate::process::Interrupt;
use crate::profile::Profile;
use crate::progress::Progress;
use rounds::Probed;

/// Nanoseconds of an addition of each of so many threads to one word, on a machine with the profile's costs.
pub type Model<'a> = dyn Fn(&Profile, &[u32]) -> Result<Vec<f64>> + 'a;

/// From the least of these to the most. Waits may meet otherwise, and more cost less: so a band is of all that was
/// simulated, whichever is the least.
fn band(all: &[f64]) -> [f64; 2] {
    all.iter().fold([f64::INFINITY, 0.0], |[low, high], ns| [ns.min(low), ns.max(high)])
}

/// Who measures: the command's own probes, in processes of their own. The directory is for profiles that are tried.
pub struct Probes<'a> {
    command: &'a Path,
    scratch: &'a Path,
    interrupt: &'a Interrupt,
    progress: Progress,
}

impl<'a> Probes<'a> {
    pub fn of(command: &'a Path, scratch: &'a Path, interrupt: &'a Interrupt) -> Self {
        Probes { command, scratch, interrupt, progress: Progress::new() }
    }

    /// What published curves measured, simulated.
    pub fn increments(&self, profile: &Profile, threads: &[u32]) -> Result<Vec<f64>> {
        let of_all = ["workload", "increments", &self.written(profile)?].map(str::to_owned);
        self.ask(&of_all.into_iter().chain(threads.iter().map(u32::to_string)).collect::<Vec<_>>())
    }

    fn written(&self, profile: &Profile) -> Result<String> {
        let file = self.scratch.join("tried.toml");
        std::fs::write(&file, profile.text()?).context("cannot write a profile")?;
        Ok(file.to_str().context("the path of the temporary directory is not UTF-8")?.to_owned())
    }

    /// All that a probe prints with these words.
    fn ask(&self, words: &[String]) -> Result<Vec<f64>> {
        anyhow::ensure!(!self.interrupt.seen(), "interrupted");
        asked_of(self.command, words)
    }
}

impl Probed for Probes<'_> {
    fn here(&self, line: &str) -> Result<Vec<f64>> {
        self.ask(&words(line, None))
    }

    /// By its first CPUs: where threads of a core are numbered last, these are cores.
    fn simulated(&self, profile: &Profile, line: &str, place: usize) -> Result<f64> {
        let machine = format!("{}@{}", profile.cpus, self.written(profile)?);
        let words = words(line, Some(machine));
        self.ask(&words)?.get(place).copied().with_context(|| format!("{} printed too few figures", words.join(" ")))
    }

    fn done(&self, part: f64, what: &str) {
        if part < 1.0 { self.progress.part(part, what) } else { self.progress.finish() }
    }
}
