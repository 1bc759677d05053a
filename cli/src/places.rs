//! Where results go, and where bundled programs are: minutes of measurement must not end in a result that can be written nowhere.

use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::failure::Failure;

/// Whether a result and a report can be written; makes the report's directory.
pub fn check(json: Option<&Path>, report: Option<&Path>) -> Result<(), Failure> {
    if let Some(path) = json.filter(|path| path.as_os_str() != "-") {
        std::fs::OpenOptions::new().append(true).create(true).open(path).map_err(|error| {
            Failure::usage(format!(
                "--json {} cannot be written ({error}); expected a file in a directory that exists",
                path.display()
            ))
        })?;
    }
    if let Some(directory) = report {
        std::fs::create_dir_all(directory).map_err(|error| {
            Failure::usage(format!("--report {} cannot be made ({error}); expected a directory", directory.display()))
        })?;
    }
    Ok(())
}

/// Shows tables on standard output, or on standard error if standard output is for the JSON. A reader who has seen enough is no
/// error.
pub fn show(text: &str, json: Option<&Path>) -> Result<(), Failure> {
    let shown = match json {
        Some(path) if path.as_os_str() == "-" => io::stderr().write_all(text.as_bytes()),
        _ => io::stdout().write_all(text.as_bytes()),
    };
    match shown {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::ours(format!("cannot show the tables ({error})")))
        }
        _ => Ok(()),
    }
}

/// A line on standard output, of something that takes long; an error if nobody reads it.
pub fn say(line: &str) -> Result<(), Failure> {
    writeln!(io::stdout(), "{line}")
        .map_err(|error| Failure::ours(format!("cannot write to standard output ({error})")))
}

/// A directory that goes away.
pub fn scratch(prefix: &str) -> Result<TempDir, Failure> {
    let made = tempfile::Builder::new().prefix(prefix).tempdir();
    made.map_err(|error| Failure::ours(format!("cannot make a temporary directory ({error})")))
}

/// This command itself, which runs bundled programs.
pub fn own() -> Result<PathBuf, Failure> {
    std::env::current_exe().map_err(|error| Failure::ours(format!("cannot find itself ({error})")))
}
