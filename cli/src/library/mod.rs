//! Finding the library that the command preloads.
//!
//! In this order: the file that COMMENSAL_LIBRARY names; `libcommensal.so` beside the command, where `cargo build` puts it;
//! a library of this version in the `lib` folders of the command's prefix, where packages put it; the library that is embedded in the command (see `build.rs`), which `cache` writes to a file first. The loader splits
//! LD_PRELOAD at spaces and colons, which cannot be quoted. So a library in a directory with such a name is copied to the
//! cache, too.

mod cache;

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::elf::{self, Elf};
use crate::failure::Failure;

const FILE_NAME: &str = "libcommensal.so";
const VARIABLE: &str = "COMMENSAL_LIBRARY";
/// A C string that the library exports, so that its version can be read without loading it.
const VERSION_SYMBOL: &str = "commensal_version";
/// The command's version.
pub const OWN_VERSION: &str = env!("CARGO_PKG_VERSION");

/// The embedded library, for a command without one beside it.
const EMBEDDED: Option<&[u8]> = include!(concat!(env!("OUT_DIR"), "/embedded.rs"));

/// A library that the loader can preload.
pub struct Library {
    /// Absolute, and without the characters that LD_PRELOAD cannot hold.
    pub path: PathBuf,
    /// For which machine it is.
    pub elf: Elf,
}

impl Library {
    /// Finds the library, in the order above.
    pub fn find() -> Result<Self, Failure> {
        let path = preloadable(locate()?)?;
        match elf::read(&path) {
            Ok(Some(elf)) => Ok(Self { path, elf }),
            Ok(None) => Err(unusable(&path, "is not a shared library")),
            Err(error) => Err(unusable(&path, &format!("cannot be read ({error})"))),
        }
    }

    /// The version that the library exports.
    pub fn version(&self) -> Option<String> {
        elf::exported_string(&self.path, VERSION_SYMBOL)
    }

    /// A warning if the library has another version: settings and statistics may differ.
    pub fn version_warning(&self) -> Option<String> {
        let version = self.version();
        if version.as_deref() == Some(OWN_VERSION) {
            return None;
        }
        let version = version.unwrap_or_else(|| "unknown".to_owned());
        Some(format!(
            "{} has version {version} and this command has {OWN_VERSION}; use the same version, or unset {VARIABLE}",
            self.path.display()
        ))
    }
}

fn locate() -> Result<PathBuf, Failure> {
    if let Some(named) = std::env::var_os(VARIABLE) {
        let named = PathBuf::from(named);
        return fs::canonicalize(&named).map_err(|error| unusable(&named, &format!("cannot be found ({error})")));
    }
    let command =
        std::env::current_exe().map_err(|error| Failure::ours(format!("cannot find its own executable ({error})")))?;
    if let Some(found) = places(&command).find(|place| place.is_file()) {
        return Ok(found);
    }
    match EMBEDDED {
        Some(bytes) => cache::store(bytes),
        None => Err(Failure::ours(format!(
            "no {FILE_NAME} beside {}; build both by cargo build --release, or name one in {VARIABLE}",
            command.display()
        ))),
    }
}

/// Where a library may lie that belongs to this command, for builds and packages.
fn places(command: &Path) -> impl Iterator<Item = PathBuf> {
    let prefix = command.ancestors().nth(2).map(Path::to_owned).unwrap_or_default();
    let installed = ["lib", "lib64", "lib/x86_64-linux-gnu"];
    let installed = installed.map(|folder| prefix.join(folder).join(format!("{FILE_NAME}.{OWN_VERSION}")));
    [command.with_file_name(FILE_NAME)].into_iter().chain(installed)
}

/// The same library at a path that LD_PRELOAD can hold. The loader also expands `$` there.
fn preloadable(path: PathBuf) -> Result<PathBuf, Failure> {
    if !needs_quoting(&path) {
        return Ok(path);
    }
    let bytes = fs::read(&path).map_err(|error| unusable(&path, &format!("cannot be read ({error})")))?;
    let copy = cache::store(&bytes)?;
    if needs_quoting(&copy) {
        let why = "has a space, a colon or a $ in its path, and so does the cache";
        return Err(unusable(&path, why));
    }
    Ok(copy)
}

fn needs_quoting(path: &Path) -> bool {
    path.as_os_str().as_bytes().iter().any(|byte| byte.is_ascii_whitespace() || b":$".contains(byte))
}

fn unusable(path: &Path, what: &str) -> Failure {
    Failure::ours(format!("{} {what}; name another {FILE_NAME} in {VARIABLE}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn library_path_that_is_not_plain_needs_quoting() {
        assert!(!needs_quoting(Path::new("/home/me/target/release/libcommensal.so")));
        for path in ["/home/my projects/l.so", "/a:b/l.so", "/$LIB/l.so", "/a\tb/l.so"] {
            assert!(needs_quoting(Path::new(path)), "{path}");
        }
    }
}
