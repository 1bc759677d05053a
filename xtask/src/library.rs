//! The release library and the command, as users have them.

use std::path::{Path, PathBuf};
use std::process::Command;

/// What cargo made of the malloc package.
pub struct Library {
    /// `libcommensal.so`.
    pub shared: PathBuf,
    /// `libcommensal.a`.
    pub archive: PathBuf,
}

/// Builds it in the target directory that this program lies in.
pub fn build(root: &Path) -> Result<Library, String> {
    let made = release(root, &["--package", "malloc"])?;
    Ok(Library { shared: made.join("libcommensal.so"), archive: made.join("libcommensal.a") })
}

/// Builds the command, as the README's first line does, and says where it is.
pub fn command(root: &Path) -> Result<PathBuf, String> {
    Ok(release(root, &[])?.join("commensal"))
}

/// Builds some packages, or the usual ones, and says where they are.
fn release(root: &Path, packages: &[&str]) -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let target = own.ancestors().nth(2).ok_or("xtask does not lie in a target directory")?;
    let status = Command::new(env!("CARGO"))
        .args(["build", "--release"])
        .args(packages)
        .arg("--target-dir")
        .arg(target)
        .current_dir(root)
        .status()
        .map_err(|error| format!("cargo cannot be started: {error}"))?;
    if !status.success() {
        return Err(format!("cargo build ended with {status}"));
    }
    Ok(target.join("release"))
}
