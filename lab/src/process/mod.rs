//! Runs one program to its end and says what it cost.
//!
//! A small process starts the programs (`starter`). Between the two readings of the clock there is vfork, execve and wait4 and nothing
//! else: no shell, no thread of ours, no pipe to be read; what the program prints goes into memory that is looked at later.

#[path = "../../starter/protocol.rs"]
mod protocol;

pub mod counters;
mod starter;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

pub use counters::Counter;
pub use starter::Starter;

/// A program with its arguments, its environment and where it runs.
#[derive(Clone, Debug)]
pub struct Program {
    /// The file that is executed.
    pub path: PathBuf,
    /// All arguments, its own name first.
    pub arguments: Vec<OsString>,
    /// The whole environment.
    pub environment: BTreeMap<OsString, OsString>,
    /// Where it starts; none is where we are.
    pub directory: Option<PathBuf>,
    /// How often it runs, one after the other, as one measurement.
    pub times: u32,
    /// What is counted of it and of all that it starts; only if it runs once.
    pub counters: Vec<Counter>,
}

impl Program {
    /// A program with our own environment.
    pub fn new(path: impl Into<PathBuf>, arguments: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        Self {
            path: path.into(),
            arguments: arguments.into_iter().map(Into::into).collect(),
            environment: std::env::vars_os().collect(),
            directory: None,
            times: 1,
            counters: Vec::new(),
        }
    }

    /// The same for one that is not measured.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.args(&self.arguments[1..]).env_clear().envs(&self.environment).stdin(Stdio::null());
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        command
    }

    /// All arguments but its own name, as text.
    pub fn words(&self) -> Vec<String> {
        self.arguments.iter().skip(1).map(|argument| argument.to_string_lossy().into_owned()).collect()
    }
}

/// What a run cost. Where a program ran several times, these are means, but for the peak.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Seconds from before the fork until its end was seen.
    pub wall_s: f64,
    /// Seconds of processor time in the program and the children that it waited for.
    pub user_s: f64,
    /// Seconds of processor time in the kernel for them.
    pub system_s: f64,
    /// The most memory that one of these processes had.
    pub peak_kb: f64,
    /// Page faults, of either kind.
    pub page_faults: f64,
    /// Context switches, of either kind.
    pub context_switches: f64,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// With this exit status.
    Exited(i32),
    /// By this signal.
    Killed(i32),
    /// It ran for longer than this, and was killed.
    TimedOut(Duration),
    /// It printed more than so many bytes, and was killed.
    PrintedTooMuch(u64),
    /// It could not be started: the errno.
    NotStarted(i32),
}

impl fmt::Display for End {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(status) => write!(out, "ended with exit status {status}"),
            Self::Killed(signal) => {
                write!(out, "was killed by signal {signal}")?;
                signal_hook::low_level::signal_name(*signal).map_or(Ok(()), |name| write!(out, " ({name})"))
            }
            Self::TimedOut(limit) => write!(out, "still ran after {} s and was killed", limit.as_secs_f64()),
            Self::PrintedTooMuch(bytes) => {
                write!(out, "printed more than {} MiB and was killed; let it print to a file", bytes >> 20)
            }
            Self::NotStarted(error) => {
                write!(out, "could not be started ({})", std::io::Error::from_raw_os_error(*error))
            }
        }
    }
}

/// One run.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// How it ended.
    pub end: End,
    /// What it cost; of little meaning if it did not end by itself.
    pub cost: Cost,
    /// What the program's counters counted.
    pub counted: Vec<f64>,
    /// Whether processes that it had started went on and had to be ended.
    pub left_running: bool,
}

/// Ctrl-C, and the other signals that end a program from outside, as something that can be polled for and asked: the
/// first that arrived. Clones watch the same.
#[derive(Clone)]
pub struct Interrupt {
    signal: Arc<AtomicUsize>,
    /// Readable once a signal has arrived; never read. The writing end is kept, since without one the pipe would be readable.
    pipe: Arc<(PipeReader, PipeWriter)>,
}

impl Interrupt {
    /// Starts to watch: from here on the signals do not end this process.
    pub fn register() -> io::Result<Self> {
        let this = Self::never()?;
        for number in [SIGINT, SIGTERM, SIGHUP, SIGQUIT] {
            signal_hook::flag::register_usize(number, Arc::clone(&this.signal), number as usize)?;
            // After the flag: whoever the pipe wakes finds it set. Actions run in the order in which they were registered.
            signal_hook::low_level::pipe::register(number, this.pipe.1.try_clone()?)?;
        }
        Ok(this)
    }

    /// Watches for nothing.
    pub fn never() -> io::Result<Self> {
        Ok(Self { signal: Arc::default(), pipe: Arc::new(io::pipe()?) })
    }

    /// Whether a signal has arrived. Relaxed: the number is all there is to see.
    pub fn seen(&self) -> bool {
        self.signal.load(Relaxed) != 0
    }

    /// Ends this process by the signal that arrived, if one did.
    pub fn obey(&self) {
        let signal = self.signal.load(Relaxed);
        if signal != 0 {
            // It fails only for unknown signals; then the caller's error ends the process.
            let _ = signal_hook::low_level::emulate_default_handler(signal as i32);
        }
    }
}

impl AsFd for Interrupt {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.0.as_fd()
    }
}
