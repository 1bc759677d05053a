//! What no line may say: no test is switched off, and no example; no file names a directory of the machine on which it
//! was written; and every dependency in a Cargo.toml says in a comment what it is for.

use crate::tree::{File, Tree, Violation};

/// Finds tests and examples that are ignored. (Clippy finds what is unfinished.)
pub fn check_finished(tree: &Tree) -> Vec<Violation> {
    tree.files.iter().filter(|file| file.has_extension(&["rs", "md"])).flat_map(ignored).collect()
}

fn ignored(file: &File) -> impl Iterator<Item = Violation> {
    let found = file.text.lines().enumerate().filter(|(_, line)| is_ignored(line));
    let what = "is ignored; mend the test or remove it; let the example compile, or mark it as text";
    found.map(move |(index, _)| file.violation(index + 1, what))
}

/// Whether a line switches a test off, or opens a block of code that is not tested although it is Rust.
fn is_ignored(line: &str) -> bool {
    let text = line.trim_start().trim_start_matches(['/', '!']).trim_start();
    let opened = text.strip_prefix("```").into_iter().flat_map(|words| words.split([',', ' ']));
    text.starts_with("#[ignore") || opened.into_iter().any(|word| word.starts_with("ignore"))
}

/// Top directories that exist on somebody's machine only.
const TOPS: [&str; 3] = ["farm", "root", "work"];

/// Finds absolute paths below TOPS.
pub fn check_paths(tree: &Tree) -> Vec<Violation> {
    tree.files.iter().flat_map(paths).collect()
}

fn paths(file: &File) -> Vec<Violation> {
    let lines = file.text.lines().enumerate();
    lines
        .filter_map(|(index, line)| {
            let top = named_top(line)?;
            Some(file.violation(index + 1, format!("names a path in `{top}` of one machine; make it relative")))
        })
        .collect()
}

/// The top directory that the line names, if an absolute path starts there and not the rest of a longer one.
fn named_top(line: &str) -> Option<&'static str> {
    let is_word = |character: char| character.is_alphanumeric() || "_-.".contains(character);
    let continues = |character: char| is_word(character) || "/}~)*".contains(character);
    line.match_indices('/').find_map(|(at, _)| {
        let starts_path = !line[..at].ends_with(continues);
        let rest = &line[at + 1..];
        let top = TOPS.into_iter().find(|top| rest.strip_prefix(top).is_some_and(|rest| !rest.starts_with(is_word)));
        top.filter(|_| starts_path)
    })
}

/// Finds dependencies without a comment on their line or above it, unless they are packages of this project.
pub fn check_manifests(tree: &Tree) -> Vec<Violation> {
    let manifests = tree.files.iter().filter(|file| file.path.ends_with("Cargo.toml"));
    manifests.flat_map(check_manifest).collect()
}

fn check_manifest(file: &File) -> Vec<Violation> {
    let (mut violations, mut is_inside, mut above) = (Vec::new(), false, "");
    for (index, line) in file.text.lines().enumerate() {
        if line.starts_with('[') {
            is_inside = line.ends_with("dependencies]");
        }
        // One that the workspace's table explains needs no other comment.
        let is_own = line.contains("path = ") || line.contains("workspace = true");
        let is_explained = line.contains('#') || above.starts_with('#');
        if is_inside && line.contains('=') && !is_own && !is_explained {
            violations.push(file.violation(index + 1, format!("{line} has no comment; say what it is for")));
        }
        above = line;
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ignored_in(path: &str, text: &str) -> usize {
        check_finished(&Tree::of([(path, text)])).len()
    }

    #[test]
    fn ignored_tests_and_examples_are_found() {
        let planted = [
            "#[test]\n    #[ignore = \"slow\"]\nfn f() {}",
            "/// ```ignore\n/// f();\n/// ```\nfn f() {}",
            "//! ```rust,ignore\n//! f();\n//! ```",
            "/** Text.\n```ignore\nf();\n```\n*/ fn f() {}",
        ];
        for source in planted {
            assert_eq!(ignored_in("a.rs", source), 1, "{source}");
        }
        assert_eq!(ignored_in("docs/a.md", "Text.\n\n```rust,ignore\nf();\n```\n"), 1);
        assert_eq!(ignored_in("a.rs", "/// ```text\n/// ignore\n/// ```\nfn f() { \"#[ignore]\"; }"), 0);
    }

    #[test]
    fn paths_of_one_machine_are_found() {
        for top in TOPS {
            for line in [format!("cd /{top}/x"), format!("\"/{top}\""), format!("A=/{top}/y"), format!("/{top}")] {
                assert_eq!(check_paths(&Tree::of([("a.sh", &line)])).len(), 1, "{line}");
            }
            for line in [format!("x/{top}/y"), format!("/{top}let"), format!("/usr/{top}"), format!("${{x}}/{top}")] {
                assert_eq!(check_paths(&Tree::of([("a.sh", &line)])).len(), 0, "{line}");
            }
        }
    }

    fn unexplained(manifest: &str) -> Vec<usize> {
        check_manifests(&Tree::of([("a/Cargo.toml", manifest)])).into_iter().map(|violation| violation.line).collect()
    }

    #[test]
    fn dependency_without_a_comment_is_found() {
        assert_eq!(unexplained("[dependencies]\n# Parses.\na = \"1\"\nb = { version = \"1\" }\n"), [4]);
        assert_eq!(unexplained("[target.'cfg(unix)'.dev-dependencies]\nb = \"1\"\n"), [2]);
        assert_eq!(unexplained("[workspace.dependencies]\nb = \"1\"\n"), [2]);
    }

    #[test]
    fn comments_above_or_beside_and_own_packages_are_accepted() {
        let manifest = "[dependencies]\n# Parses.\na = \"1\"\nb = \"1\" # Prints.\nc = { path = \"../c\" }\n\
                        d.workspace = true\n\n[lib]\ndoctest = false\n";
        assert_eq!(unexplained(manifest), Vec::<usize>::new());
    }
}
