//! What is not tested because something is missing on this machine, and who allowed that.
//!
//! Where the environment variable `CI` is set, a test may be skipped only if the file `.ci/skips` of the
//! repository lists it: one test a line, `name: reason`, with `#` for comments. Elsewhere a test whose programs
//! are missing says so on standard error and passes. A listed test is never run.

use std::io::Write as _;
use std::path::PathBuf;

/// May the test of this name run? False if it is listed as skipped or if one of its tools is missing.
///
/// # Panics
/// In CI, if a tool is missing and the list doesn't excuse it.
pub fn has_tools(test: &str, tools: &[&str]) -> bool {
    if let Some(reason) = listed_reason(test) {
        tell(test, &format!("listed in .ci/skips: {reason}"));
        return false;
    }
    let Some(missing) = tools.iter().find(|tool| find(tool).is_none()) else {
        return true;
    };
    skip(test, &format!("{missing} is not installed; dropin/install.sh installs it"));
    false
}

/// Skips a test for this reason.
///
/// # Panics
/// In CI, if the list doesn't excuse it.
pub fn skip(test: &str, reason: &str) {
    let excused = std::env::var_os("CI").is_none() || listed_reason(test).is_some();
    assert!(excused, "{test} cannot run: {reason}. List it in .ci/skips if that is to be so.");
    tell(test, reason);
}

/// The names that `.ci/skips` lists, with their reasons.
pub fn listed() -> Vec<(String, String)> {
    let text = std::fs::read_to_string(list_path()).unwrap_or_default();
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(parsed).collect()
}

fn parsed(line: &str) -> (String, String) {
    let (name, reason) = line.split_once(':').unwrap_or((line, ""));
    assert!(!reason.trim().is_empty(), ".ci/skips: expected `name: reason`, found {line:?}");
    (name.trim().to_owned(), reason.trim().to_owned())
}

fn list_path() -> PathBuf {
    crate::folder().with_file_name(".ci").join("skips")
}

fn listed_reason(test: &str) -> Option<String> {
    listed().into_iter().find_map(|(name, reason)| (name == test).then_some(reason))
}

/// Past the test harness, which shows only what failed tests print.
fn tell(test: &str, reason: &str) {
    // A closed standard error is no reason to fail.
    let _ = writeln!(std::io::stderr(), "skipped {test}: {reason}");
}

/// The file that a shell would run for this name.
fn find(tool: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(tool)).find(|file| file.is_file())
}
