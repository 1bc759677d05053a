//! Which sources these are.

use std::path::Path;
use std::process::Command;

/// The commit's hash, of 40 digits.
pub fn hash(root: &Path) -> Result<String, String> {
    git(root, &["rev-parse", "HEAD"]).ok_or_else(|| "found no commit; expected a git repository".into())
}

/// Its first digits, and whether the sources were changed since.
pub fn name(root: &Path) -> String {
    let commit = git(root, &["rev-parse", "--short", "HEAD"]).unwrap_or_else(|| "unknown".into());
    let changed = git(root, &["status", "--porcelain", "--untracked-files=no"]).is_some_and(|lines| !lines.is_empty());
    if changed { format!("{commit}, changed") } else { commit }
}

/// What git says; none if it fails.
pub fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).current_dir(root).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
