//! Where results go, checked before minutes of measurement, where bundled programs are, and how a measurement is ended.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use lab::process::Interrupt;
use tempfile::TempDir;

use crate::failure::Failure;

/// Whether a result and a report can be written; makes the report's directory.
pub fn check(json: Option<&Path>, report: Option<&Path>) -> Result<(), Failure> {
    if let Some(path) = json.filter(|path| path.as_os_str() != "-") {
        std::fs::OpenOptions::new().append(true).create(true).open(path).map_err(|error| {
            Failure::usage(format!(
                "--json {}: cannot write the file ({error}); name one in an existing directory",
                path.display()
            ))
        })?;
    }
    if let Some(directory) = report {
        std::fs::create_dir_all(directory).map_err(|error| {
            Failure::usage(format!("--report {}: cannot make the directory ({error})", directory.display()))
        })?;
    }
    Ok(())
}

/// Prints tables to standard output, or to standard error if the JSON goes to standard output. A closed pipe is not an error.
pub fn show(text: &str, json: Option<&Path>) -> Result<(), Failure> {
    let shown = match json {
        Some(path) if path.as_os_str() == "-" => io::stderr().write_all(text.as_bytes()),
        _ => io::stdout().write_all(text.as_bytes()),
    };
    match shown {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::ours(format!("cannot print the tables ({error})")))
        }
        _ => Ok(()),
    }
}

/// Prints a line to standard output during a long task. A closed pipe is an error, so that the task ends.
pub fn say(line: &str) -> Result<(), Failure> {
    writeln!(io::stdout(), "{line}")
        .map_err(|error| Failure::ours(format!("cannot write to standard output ({error})")))
}

/// Tells a line on standard error. If nothing reads there any more, the line is lost.
pub fn tell(line: impl Display) {
    let _ = writeln!(io::stderr(), "commensal: {line}");
}

/// A directory that goes away.
pub fn scratch(prefix: &str) -> Result<TempDir, Failure> {
    let made = tempfile::Builder::new().prefix(prefix).tempdir();
    made.map_err(|error| Failure::ours(format!("cannot make a temporary directory ({error})")))
}

/// This command's executable, which runs bundled programs.
pub fn own() -> Result<PathBuf, Failure> {
    std::env::current_exe().map_err(|error| Failure::ours(format!("cannot find its own executable ({error})")))
}

/// Watches for Ctrl-C.
pub fn interrupt() -> Result<Interrupt, Failure> {
    Interrupt::register().map_err(|error| Failure::ours(format!("cannot watch for Ctrl-C ({error})")))
}
