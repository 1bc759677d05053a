//! What is not tested because something is missing on this machine.
//!
//! A test whose programs are missing says so on standard error and passes. Where the environment variable `CI` is set,
//! it fails.

use std::io::Write as _;

/// Whether the test of this name has its tools, and so can run.
///
/// # Panics
/// In CI, if a tool is missing.
pub fn has_tools(test: &str, tools: &[&str]) -> bool {
    let missing = tools.iter().find(|tool| !is_installed(tool));
    if let Some(missing) = missing {
        skip(test, &format!("{missing} is not installed; dropin/install.sh installs it"));
    }
    missing.is_none()
}

/// Skips a test for this reason.
///
/// # Panics
/// In CI.
pub fn skip(test: &str, reason: &str) {
    assert!(std::env::var_os("CI").is_none(), "{test} cannot run: {reason}");
    // Past the test harness, which shows only what failed tests print. A closed standard error is no reason to fail.
    let _ = writeln!(std::io::stderr(), "skipped {test}: {reason}");
}

/// Whether a shell would find a file of this name.
fn is_installed(tool: &str) -> bool {
    std::env::var_os("PATH").is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(tool).is_file()))
}
