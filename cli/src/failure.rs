//! Failures of the command itself: an exit status and one line.
//!
//! The statuses are those of shells and of `env`. A line says what was found, what was expected and what to do.

use std::fmt;
use std::process::ExitCode;

/// Exit statuses of the command itself. A program that it starts has its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Bad usage of the command line.
    Usage = 2,
    /// The command could not do its part: no library, no place for it.
    Ours = 125,
    /// The program exists but cannot be executed.
    NotExecutable = 126,
    /// There is no such program.
    Missing = 127,
}

/// An exit status and the line that explains it.
#[derive(Debug)]
pub struct Failure {
    /// What the process exits with.
    pub status: Status,
    line: String,
}

impl Failure {
    /// A failure with a line, which `main` prints behind `commensal: `.
    pub fn new(status: Status, line: impl Into<String>) -> Self {
        let line = line.into();
        Self { status, line }
    }

    /// The same line with another status.
    pub fn with(self, status: Status) -> Self {
        Self { status, ..self }
    }

    /// Bad usage of the command line.
    pub fn usage(line: impl Into<String>) -> Self {
        Self::new(Status::Usage, line)
    }

    /// The command could not do its part.
    pub fn ours(line: impl Into<String>) -> Self {
        Self::new(Status::Ours, line)
    }

    /// The same, with the error and its causes.
    pub fn of(error: anyhow::Error) -> Self {
        Self::ours(format!("{error:#}"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.line)
    }
}

impl From<Failure> for ExitCode {
    fn from(failure: Failure) -> Self {
        Self::from(failure.status as u8)
    }
}
