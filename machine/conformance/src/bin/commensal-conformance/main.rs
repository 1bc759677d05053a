//! Runs one case of the conformance suite on the host, in this process.
//!
//! ```text
//! commensal-conformance --list
//! commensal-conformance CASE [--planted WHAT] [--seconds S] [--seed N]
//! ```
//!
//! A case that names no slot mode runs in the mode that the system offers; `GLIBC_TUNABLES=glibc.pthread.rseq=0`
//! selects the fallback. The exit status is 0 if no bug was found, 1 if one was found, 2 for bad usage. An alarm ends a
//! case that hangs.
//!
//! The process starts with one thread, the case's first one: some operations treat the main thread differently.

mod cases;
mod host;

use clap::Parser;
use conformance::Case;
use host::Host;
use machine::slot::Mode;
use std::env;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

fn main() -> ExitCode {
    let cli = Cli::parse();
    if cli.list {
        cases::all().filter(|case| case.fits(mode())).for_each(list);
        return ExitCode::SUCCESS;
    }
    match cli.arguments() {
        Ok(arguments) => run(&arguments),
        Err(problem) => {
            eprintln!("commensal-conformance: {problem}");
            ExitCode::from(2)
        }
    }
}

fn list(case: &Case) {
    println!("{}\t{}", case.name, case.planted.unwrap_or(""));
}

/// Seconds beyond those that a case goes on by itself.
const GRACE: u32 = 600;
/// The same where hanging is what the planted bug does.
const GRACE_IF_PLANTED: u32 = 1;

fn run(arguments: &Arguments) -> ExitCode {
    let host = Host::new(arguments);
    let grace = if arguments.case.planted.is_some() { GRACE_IF_PLANTED } else { GRACE };
    // A signal, not a thread: cases start with one.
    // SAFETY: no effects on memory.
    unsafe { libc::alarm(arguments.seconds.ceil() as u32 + grace) };
    let outcome = (arguments.case.run)(&host);
    match outcome {
        Ok(summary) => {
            println!("ok: {}: {summary}", arguments.case.name);
            ExitCode::SUCCESS
        }
        Err(finding) => {
            println!("found: {}: {finding}\nreplay: {}", arguments.case.name, arguments.replay());
            ExitCode::FAILURE
        }
    }
}

/// How long a body that could go on for ever does, in seconds.
const SECONDS: f64 = 0.15;
const EFFORT_VARIABLE: &str = "COMMENSAL_TEST_EFFORT";
/// What turns restartable sequences off in the C library.
const TUNABLES: &str = "GLIBC_TUNABLES";
const FALLBACK: &str = "glibc.pthread.rseq=0";

/// Runs one case of the conformance suite in this process.
#[derive(Parser)]
#[command(name = "commensal-conformance")]
struct Cli {
    /// Print the cases of this mode: name and what is planted, parted by tabs
    #[arg(long)]
    list: bool,
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

struct Arguments {
    case: &'static Case,
    mode: Mode,
    seconds: f64,
    seed: u64,
}

impl Arguments {
    fn replay(&self) -> String {
        let tunables = if self.mode == Mode::PerThread { format!("{TUNABLES}={FALLBACK} ") } else { String::new() };
        let planted = self.case.planted.map(|what| format!(" --planted '{what}'")).unwrap_or_default();
        let release = if cfg!(debug_assertions) { "" } else { "--release " };
        format!(
            "{tunables}cargo run -q {release}-p conformance -- '{}'{planted} --seconds {} --seed {}",
            self.case.name, self.seconds, self.seed
        )
    }
}

fn mode() -> Mode {
    let is_fallback = env::var(TUNABLES).is_ok_and(|value| value.contains(FALLBACK));
    if is_fallback { Mode::PerThread } else { Mode::ConcurrencyId }
}

impl Cli {
    fn arguments(self) -> Result<Arguments, String> {
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
