//! Are the published crates as their users may expect? Their interfaces against the last release, and the licences and known
//! faults of all that they depend on.
//!
//! Both are checked by tools of others, which are installed below `target/tools` if they are missing.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::library::succeeds;
use crate::tree;

/// What other packages may depend on, except for the inside, which promises nothing.
const STABLE: [&str; 3] = ["commensal", "commensal-metrics", "commensal-statistics"];

/// Finds changes that break programs since the last release, and that the version does not admit.
pub fn check_interfaces(root: &Path) -> Result<(), String> {
    let tags = tree::git(root, &["tag", "--list", "v*", "--sort=-version:refname"]);
    let tags = tags.ok_or("git tells no tags; expected a repository")?;
    let Some(release) = last_release(&tags) else {
        println!("semver: there is no release to compare with: no tag that is called v and a version");
        return Ok(());
    };
    let mut check = Command::new(tool(root, "cargo-semver-checks")?);
    check.args(["semver-checks", "check-release", "--baseline-rev", &release]).current_dir(root);
    succeeds(check.args(STABLE.iter().flat_map(|name| ["--package", name])))?;
    println!("semver: nothing breaks what programs have from {release}");
    Ok(())
}

/// Finds dependencies with licences, faults or origins that `deny.toml` does not allow.
pub fn check_dependencies(root: &Path) -> Result<(), String> {
    let deny = tool(root, "cargo-deny")?;
    let run = |arguments: &[&str]| succeeds(Command::new(&deny).arg("--workspace").args(arguments).current_dir(root));
    // The list of known faults is a repository of others, which some machines cannot reach.
    if run(&["fetch", "db"]).is_ok() {
        run(&["check"])?;
        println!("deny: no fault is known, and all licences and origins are allowed");
    } else {
        run(&["check", "bans", "licenses", "sources"])?;
        println!(
            "deny: all licences and origins are allowed; known faults were NOT checked: their list cannot be fetched"
        );
    }
    Ok(())
}

/// The newest of the tags, which are sorted, that is no candidate.
fn last_release(tags: &str) -> Option<String> {
    let is_release = |tag: &&str| tag.strip_prefix('v').is_some_and(|version| version.split('.').all(is_number));
    tags.lines().find(is_release).map(str::to_owned)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The tool from the search path, or else from `target/tools`.
fn tool(root: &Path, name: &str) -> Result<PathBuf, String> {
    let tools = root.join("target/tools");
    let own = tools.join("bin").join(name);
    let runs = |program: &PathBuf| Command::new(program).arg("--version").output().is_ok_and(|it| it.status.success());
    if let Some(found) = [PathBuf::from(name), own.clone()].into_iter().find(runs) {
        return Ok(found);
    }
    let mut install = Command::new(env!("CARGO"));
    succeeds(install.args(["install", "--locked", "--quiet", name, "--root"]).arg(&tools).current_dir(root))?;
    Ok(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_release_is_the_first_tag_that_is_a_version() {
        assert_eq!(last_release("v0.2.0-rc.1\nvolatile\nv0.1.9\nv0.1.0\n").as_deref(), Some("v0.1.9"));
        assert_eq!(last_release("voyage\nv\n"), None);
    }
}
