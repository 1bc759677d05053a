//! Where results go: minutes of measurement must not end in a result that can be written nowhere.

use std::path::Path;

use tempfile::TempDir;

use crate::failure::{Failure, Status};

/// Whether a result and a report can be written; makes the report's directory.
pub fn check(json: Option<&Path>, report: Option<&Path>) -> Result<(), Failure> {
    let usage = |line: String| Failure::new(Status::Usage, line);
    if let Some(path) = json.filter(|path| path.as_os_str() != "-") {
        std::fs::OpenOptions::new().append(true).create(true).open(path).map_err(|error| {
            usage(format!(
                "--json {} cannot be written ({error}); expected a file in a directory that exists",
                path.display()
            ))
        })?;
    }
    if let Some(directory) = report {
        std::fs::create_dir_all(directory).map_err(|error| {
            usage(format!("--report {} cannot be made ({error}); expected a directory", directory.display()))
        })?;
    }
    Ok(())
}

/// A directory that goes away.
pub fn scratch(prefix: &str) -> Result<TempDir, Failure> {
    let made = tempfile::Builder::new().prefix(prefix).tempdir();
    made.map_err(|error| Failure::ours(format!("cannot make a temporary directory ({error})")))
}
