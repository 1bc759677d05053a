//! The command line.

use crate::cases;
use conformance::Case;
use machine::slot::Mode;
use std::env;
use std::time::{SystemTime, UNIX_EPOCH};

/// How long a body that could go on for ever does.
const SECONDS: f64 = 0.3;
/// What multiplies that.
const EFFORT_VARIABLE: &str = "COMMENSAL_TEST_EFFORT";
/// What turns restartable sequences off in the C library.
const TUNABLES: &str = "GLIBC_TUNABLES";
const FALLBACK: &str = "glibc.pthread.rseq=0";

/// What is wanted.
pub enum Request {
    /// The names of all cases.
    List,
    /// One of them.
    Run(Arguments),
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

/// The name of a mode on the command line and in lists.
pub fn name_of(mode: Mode) -> &'static str {
    match mode {
        Mode::ConcurrencyId => "ids",
        Mode::PerThread => "fallback",
    }
}

/// Reads the command line and the environment.
pub fn read() -> Result<Request, String> {
    let (mut name, mut planted, mut seconds, mut seed) = (None, None, None, None);
    let mut words = env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        match word.as_str() {
            "--list" => return Ok(Request::List),
            "--planted" => planted = Some(value()?),
            "--seconds" => seconds = Some(value()?),
            "--seed" => seed = Some(value()?),
            _ if name.is_none() && !word.starts_with('-') => name = Some(word),
            _ => {
                return Err(format!("found {word}; expected a CASE, --planted WHAT, --seconds S, --seed N, or --list"));
            }
        }
    }
    let name = name.ok_or("which case? --list names them")?;
    let mode = if env::var(TUNABLES).is_ok_and(|value| value.contains(FALLBACK)) {
        Mode::PerThread
    } else {
        Mode::ConcurrencyId
    };
    let effort = env::var(EFFORT_VARIABLE).map_or(Ok(1.0), |text| number::<f64>(&text))?;
    let seconds = seconds.map_or(Ok(SECONDS * effort), |text| number(&text))?;
    let seed = seed.map_or_else(|| Ok(moment()), |text| number(&text))?;
    Ok(Request::Run(Arguments { case: find(&name, planted.as_deref(), mode)?, mode, seconds, seed }))
}

fn find(name: &str, planted: Option<&str>, mode: Mode) -> Result<&'static Case, String> {
    let case = cases::all().find(|case| case.name == name && case.planted == planted && case.fits(mode));
    case.ok_or_else(|| {
        let what = planted.map(|what| format!(" with '{what}' planted")).unwrap_or_default();
        format!("there is no case '{name}'{what} in mode {}; --list names all", name_of(mode))
    })
}

fn number<N: std::str::FromStr>(text: &str) -> Result<N, String> {
    text.parse().map_err(|_| format!("found '{text}'; expected a number"))
}

fn moment() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64 & 0xffff_ffff)
}
