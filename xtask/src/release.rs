//! The release checklist: each step that must pass before a version goes out, in order.
//!
//! `--dry-run` does all that can be undone, and nothing else. Without it, the steps of CI come first, and after the others
//! the tag is made and the crates are published; the files in `target/package/out` are then to be uploaded.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::ci::{cargo, run_steps};
use crate::library::succeeds;
use crate::package::{self, VERSION, said};
use crate::{ci, golden, header, reference, tidy};

/// The oldest suite that has a new enough compiler's runtime, and the newest one.
const SUITES: [&str; 2] = ["bookworm", "sid"];

type Step = fn(&Path) -> Result<(), String>;

/// Some twelve minutes, most of them two builds and two fresh systems.
const CHECKS: [(&str, Step); 7] = [
    ("changelog", changelog),
    ("commit", commit),
    ("tidy", |root| tidy::run(root)),
    ("generated", |root| header::run(root, false).and_then(|()| reference::run(root, false))),
    ("golden", |root| golden::run(root, false)),
    ("crates", |root| cargo(root, &["publish", "--workspace", "--dry-run"])),
    ("packages", |root| package::run(root, true, &SUITES.map(str::to_owned))),
];
const OUT: [(&str, Step); 2] = [
    ("tag", |root| {
        succeeds(Command::new("git").args(["tag", "--annotate", "--message", &title(), &tag()]).current_dir(root))
    }),
    ("publish", |root| cargo(root, &["publish", "--workspace"])),
];

pub fn run(root: &Path, is_dry: bool) -> Result<(), String> {
    let before: &[(&str, Step)] = if is_dry { &[] } else { &[("ci", ci::run)] };
    let after: &[(&str, Step)] = if is_dry { &[] } else { &OUT };
    let steps: Vec<(&'static str, Step)> = before.iter().chain(&CHECKS).chain(after).copied().collect();
    run_steps(&steps, |step| step(root))?;
    println!("release: {}", if is_dry { "all checks pass" } else { "now push the tag, and upload target/package/out" });
    Ok(())
}

fn title() -> String {
    format!("Commensal {VERSION}")
}

fn tag() -> String {
    format!("v{VERSION}")
}

fn changelog(root: &Path) -> Result<(), String> {
    let text = fs::read_to_string(root.join("CHANGELOG.md")).map_err(|error| format!("CHANGELOG.md: {error}"))?;
    check_changelog(&text, VERSION)
}

/// The first section must be the version's, with a date.
fn check_changelog(text: &str, version: &str) -> Result<(), String> {
    let heading = text.lines().find_map(|line| line.strip_prefix("## ")).unwrap_or("no section");
    let expected = format!("expected '{version} - YEAR-MONTH-DAY' as the first section of CHANGELOG.md");
    let date = heading.strip_prefix(&format!("{version} - ")).unwrap_or_default();
    let is_date = date.len() == 10 && date.split('-').all(|part| part.parse::<u16>().is_ok());
    if is_date { Ok(()) } else { Err(format!("found '{heading}'; {expected}")) }
}

/// All is committed, and the version is new.
fn commit(root: &Path) -> Result<(), String> {
    let git = |words: &[&str]| said(Command::new("git").args(words).current_dir(root));
    let changed = git(&["status", "--porcelain"])?;
    if !changed.is_empty() {
        return Err(format!("found changes that are not committed; commit or remove them:\n{changed}"));
    }
    let tags = git(&["tag", "--list", &tag()])?;
    if tags.is_empty() { Ok(()) } else { Err(format!("found the tag {}; raise the version in Cargo.toml", tag())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changelog_without_a_dated_section_of_the_version_is_told() {
        assert_eq!(check_changelog("# C\n\n## 1.2.3 - 2026-11-29\n\n## 1.2.2 - 2026-01-01\n", "1.2.3"), Ok(()));
        for text in ["# C\n", "## Unreleased\n## 1.2.3 - 2026-11-29\n", "## 1.2.3\n", "## 1.2.2 - 2026-11-29\n"] {
            let why = check_changelog(text, "1.2.3").unwrap_err();
            assert!(why.contains("expected '1.2.3 - YEAR-MONTH-DAY'"), "{why}");
        }
    }
}
