//! Every dependency in a Cargo.toml says in a comment what it is for, unless it is a package of this project.

use crate::tree::{File, Tree, Violation};

/// Finds dependencies without a comment on their line or above it.
pub fn check(tree: &Tree) -> Vec<Violation> {
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

    fn found(manifest: &str) -> Vec<usize> {
        check(&Tree::of([("a/Cargo.toml", manifest)])).into_iter().map(|violation| violation.line).collect()
    }

    #[test]
    fn a_dependency_without_a_comment_is_found() {
        assert_eq!(found("[dependencies]\n# Parses.\na = \"1\"\nb = { version = \"1\" }\n"), [4]);
        assert_eq!(found("[target.'cfg(unix)'.dev-dependencies]\nb = \"1\"\n"), [2]);
        assert_eq!(found("[workspace.dependencies]\nb = \"1\"\n"), [2]);
    }

    #[test]
    fn comments_above_or_beside_and_own_packages_are_accepted() {
        let manifest = "[dependencies]\n# Parses.\na = \"1\"\nb = \"1\" # Prints.\nc = { path = \"../c\" }\n\
                        d.workspace = true\n\n[lib]\ndoctest = false\n";
        assert_eq!(found(manifest), Vec::<usize>::new());
    }
}
