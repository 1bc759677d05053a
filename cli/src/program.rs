//! Finding the program that a name means, as `execvp` does.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, accessat};

use crate::failure::{Failure, Status};

/// Where `execvp` looks when PATH is unset.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// The file that `name` means: a path if it has a slash, otherwise the first executable of that name in PATH.
pub fn resolve(name: &OsStr) -> Result<PathBuf, Failure> {
    if name.as_bytes().contains(&b'/') {
        let path = PathBuf::from(name);
        return check(&path).map(|()| path);
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| OsString::from(DEFAULT_PATH));
    let mut refused = None;
    for directory in std::env::split_paths(&path) {
        // An empty entry means the current directory; joined to nothing, the name would be searched for once more.
        let candidate = Path::new(".").join(directory).join(name);
        match check(&candidate) {
            Ok(()) => return Ok(candidate),
            Err(failure) if failure.status == Status::NotExecutable && !candidate.is_dir() => {
                refused.get_or_insert(failure);
            }
            Err(_) => {}
        }
    }
    Err(refused.unwrap_or_else(|| not_in_path(name)))
}

/// Whether `path` is a file that this user may execute.
fn check(path: &Path) -> Result<(), Failure> {
    let metadata = fs::metadata(path).map_err(|error| unreachable_path(path, &error))?;
    if metadata.is_dir() {
        return Err(refused(path, "is a directory, not a program"));
    }
    if !metadata.is_file() {
        return Err(refused(path, "is not a regular file, so it cannot be a program"));
    }
    if accessat(CWD, path, Access::EXEC_OK, AtFlags::EACCESS).is_err() {
        let mode = metadata.permissions().mode() & 0o7777;
        let advice = "try chmod +x, or put its interpreter before it";
        return Err(refused(path, &format!("is not executable for you (mode {mode:04o}); {advice}")));
    }
    Ok(())
}

fn refused(path: &Path, what: &str) -> Failure {
    Failure::new(Status::NotExecutable, format!("{} {what}", path.display()))
}

fn unreachable_path(path: &Path, error: &io::Error) -> Failure {
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => {
            Failure::new(Status::Missing, format!("{} does not exist; check the path", path.display()))
        }
        _ => refused(path, &format!("is out of reach ({error}); check the permissions of its directories")),
    }
}

fn not_in_path(name: &OsStr) -> Failure {
    let name = name.display();
    let line = format!("{name} is not in PATH; check the spelling, install it, or give its path");
    Failure::new(Status::Missing, line)
}

/// Why `execve` refused a file that passed every check above.
pub fn cannot_execute(path: &Path, error: &io::Error) -> Failure {
    let what = if error.kind() == ErrorKind::NotFound {
        "names an interpreter or loader that does not exist; install that, or put another one before it".to_owned()
    } else {
        format!("cannot be executed ({error}); is it a program for this machine?")
    };
    refused(path, &what)
}
