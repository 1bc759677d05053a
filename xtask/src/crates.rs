//! Are the published crates as their users may expect? Their interfaces against the last release, and the licences and known
//! faults of all that they depend on.
//!
//! Both are checked by tools of others, which are installed below `target/tools` if they are missing. cargo-semver-checks does
//! not look through `pub use` into another package. So the names in `commensal/src/lib.rs` are compared here, and what it
//! finds in the runtime counts if programs see the item.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::library::succeeds;
use crate::tree;

/// Packages whose public items are all for programs: of `commensal`, the plain means.
const PROGRAMS: [&str; 3] = ["commensal", "commensal-metrics", "commensal-statistics"];
const NAMES: &str = "commensal/src/lib.rs";

/// Finds changes that break programs since the last release, and that the version does not admit.
pub fn check_interfaces(root: &Path) -> Result<(), String> {
    let git = |arguments: &[&str]| tree::git(root, arguments).ok_or_else(|| format!("git {arguments:?} failed"));
    let Some(release) = last_release(&git(&["tag", "--list", "v*", "--sort=-version:refname"])?) else {
        println!("semver: there is no release to compare with: no tag that is called v and a version");
        return Ok(());
    };
    let old = git(&["show", &format!("{release}:{NAMES}")])?;
    let new = fs::read_to_string(root.join(NAMES)).map_err(|error| format!("{NAMES} cannot be read: {error}"))?;
    let tool = tool(root, "cargo-semver-checks")?;
    let compare = |packages: &[&str]| {
        let mut check = Command::new(&tool);
        check.args(["semver-checks", "check-release", "--color=never", "--baseline-rev", &release]);
        check.args(packages.iter().flat_map(|name| ["--package", name])).current_dir(root);
        check.envs(["RUSTFLAGS", "RUSTDOCFLAGS"].map(|flags| (flags, "--cfg commensal_plain")));
        check.output().map_err(|error| format!("{check:?} cannot be run: {error}"))
    };
    let (inside, programs) = (text(&compare(&["commensal-runtime"])?), compare(&PROGRAMS)?);
    if !inside.contains("Summary") || !programs.status.success() {
        return Err(format!("{inside}\n{}", text(&programs)));
    }
    let mut breaks = concerning(&inside, &names(&old));
    // A version that admits breaks is what the tool says it is.
    if !inside.contains("(major change)") {
        breaks.extend(names(&old).into_iter().filter(|name| !names(&new).contains(name)));
    }
    match breaks.is_empty() {
        true => println!("semver: nothing breaks what programs have from {release}"),
        false => return Err(format!("programs with {release} would break:\n  {}", breaks.join("\n  "))),
    }
    Ok(())
}

fn text(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|said| String::from_utf8_lossy(said)).concat()
}

/// The items that programs see, by their paths in the runtime.
fn names(source: &str) -> Vec<String> {
    let uses = source.split("means::").skip(1).filter_map(|rest| rest.split_once(';'));
    let items = uses.flat_map(|(path, _)| {
        let (module, items) = path.split_once('{').unwrap_or(("", path));
        let items = items.trim_end_matches('}').split(',').map(str::trim).filter(|item| !item.is_empty());
        items.map(|item| format!("{module}{item}")).collect::<Vec<_>>()
    });
    items.collect()
}

/// The findings about items of these names: by their paths or, where the tool only names a type, by that.
fn concerning(said: &str, names: &[String]) -> Vec<String> {
    let about = |finding: &str| {
        let words = finding.split(|letter: char| !(letter.is_alphanumeric() || letter == '_' || letter == ':'));
        let paths: Vec<&str> = words.map(|word| word.trim_matches(':')).filter(|word| !word.is_empty()).collect();
        names.iter().any(|name| {
            let own = name.rsplit("::").next().unwrap_or(name);
            let is_type = own.starts_with(char::is_uppercase);
            paths.iter().any(|path| match path.strip_prefix("commensal_runtime::") {
                Some(path) => {
                    path == name || path.strip_prefix(name.as_str()).is_some_and(|rest| rest.starts_with("::"))
                }
                None => is_type && path.split(':').next() == Some(own),
            })
        })
    };
    let findings = said.lines().filter_map(|line| line.strip_prefix("  ").filter(|line| !line.starts_with(' ')));
    let findings = findings.map(|line| line.split(", previously in ").next().unwrap_or(line));
    findings.filter(|finding| about(finding.split(" in /").next().unwrap_or(finding))).map(str::to_owned).collect()
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

    #[test]
    fn names_are_those_that_programs_see() {
        let source = "use commensal_runtime as means;\npub use means::Commensal;\nmod a { pub use crate::means::rcu::{\nCell, read,\n}; }\n\
                      mod b { pub use crate::means::heap::trim; }\n";
        assert_eq!(names(source), ["Commensal", "rcu::Cell", "rcu::read", "heap::trim"]);
        let real = fs::read_to_string(crate::root().join(NAMES)).unwrap();
        assert!(names(&real).len() > 50 && names(&real).contains(&"rcu::qsbr::Policy".to_owned()));
    }

    #[test]
    fn findings_about_the_inside_do_not_count() {
        let said = "--- failure function_missing: pub fn removed or renamed ---\n\nDescription:\nA function.\n        ref: x\n\nFailed in:\n  \
                    function commensal_runtime::rcu::close, previously in file /a/rcu/reader.rs:33\n  \
                    function commensal_runtime::rcu::read, previously in file /a/rcu/reader.rs:67\n  \
                    struct commensal_runtime::caches::Refused, previously in file /a:1\n  \
                    LazyCounter::sum_positive, previously in file /a/counter/lazy.rs:164\n  \
                    ObjectCache::tune, previously in file /Cell/b.rs:1\n  \
                    variant Alive:Late in /a/errors.rs:3\n     Summary semver requires new major version\n";
        let names =
            ["rcu::read", "rcu::Cell", "counter::LazyCounter", "caches::Alive", "group::Refused"].map(str::to_owned);
        let found = [
            "function commensal_runtime::rcu::read",
            "LazyCounter::sum_positive",
            "variant Alive:Late in /a/errors.rs:3",
        ];
        assert_eq!(concerning(said, &names), found);
    }
}
