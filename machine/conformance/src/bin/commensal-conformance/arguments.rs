//! The command line.

use crate::cases;
use clap::Parser;
use conformance::Case;
use machine::slot::Mode;
use std::env;
use std::time::{SystemTime, UNIX_EPOCH};

/// How long a body that could go on for ever does, in seconds.
const SECONDS: f64 = 0.15;
/// What multiplies that.
const EFFORT_VARIABLE: &str = "COMMENSAL_TEST_EFFORT";
/// What turns restartable sequences off in the C library.
const TUNABLES: &str = "GLIBC_TUNABLES";
const FALLBACK: &str = "glibc.pthread.rseq=0";

/// Runs one case of the conformance suite in this process.
#[derive(Parser)]
#[command(name = "commensal-conformance")]
pub struct Cli {
    /// Print the cases of this mode: name and what is planted, parted by tabs
    #[arg(long)]
    pub list: bool,
    /// The case
    #[arg(required_unless_present = "list")]
    name: Option<String>,
    /// What is wrong with the operation
    #[arg(long, value_name = "WHAT")]
    planted: Option<String>,
    /// For how long a body goes on that could go on for ever
    #[arg(long)]
    seconds: Option<f64>,
    /// What random choices start from; otherwise the time tells
    #[arg(long)]
    seed: Option<u64>,
}

/// A case to run, and how.
pub struct Arguments {
    pub case: &'static Case,
    pub mode: Mode,
    pub seconds: f64,
    pub seed: u64,
}

impl Arguments {
    /// The command that does the same again.
    pub fn replay(&self) -> String {
        let tunables = if self.mode == Mode::PerThread { format!("{TUNABLES}={FALLBACK} ") } else { String::new() };
        let planted = self.case.planted.map(|what| format!(" --planted '{what}'")).unwrap_or_default();
        let release = if cfg!(debug_assertions) { "" } else { "--release " };
        format!(
            "{tunables}cargo run -q {release}-p conformance -- '{}'{planted} --seconds {} --seed {}",
            self.case.name, self.seconds, self.seed
        )
    }
}

/// The mode that the environment asks for.
pub fn mode() -> Mode {
    let is_fallback = env::var(TUNABLES).is_ok_and(|value| value.contains(FALLBACK));
    if is_fallback { Mode::PerThread } else { Mode::ConcurrencyId }
}

impl Cli {
    /// The case that is named, with what the environment says.
    pub fn arguments(self) -> Result<Arguments, String> {
        let mode = mode();
        let effort = env::var(EFFORT_VARIABLE).map_or(Ok(1.0), |text| text.parse());
        let effort: f64 = effort.map_err(|error| format!("{EFFORT_VARIABLE}: {error}"))?;
        let (name, planted) = (self.name.unwrap_or_default(), self.planted.as_deref());
        let case = cases::all().find(|case| case.name == name && case.planted == planted && case.fits(mode));
        let case = case.ok_or_else(|| {
            let what = planted.map(|what| format!(" with '{what}' planted")).unwrap_or_default();
            format!("there is no case '{name}'{what} in mode {mode:?}; --list names all")
        })?;
        let seconds = self.seconds.unwrap_or(SECONDS * effort);
        Ok(Arguments { case, mode, seconds, seed: self.seed.unwrap_or_else(moment) })
    }
}

fn moment() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64 & 0xffff_ffff)
}
