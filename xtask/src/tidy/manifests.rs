//! Every dependency in a Cargo.toml says in a comment what it is for, unless it is a package of this project.

use toml_edit::{DocumentMut, Item, Key, RawString, Table, TableLike};

use crate::tree::{File, Tree, Violation};

const KINDS: [&str; 3] = ["dependencies", "dev-dependencies", "build-dependencies"];

/// Finds dependencies without a comment on their line or above it.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let manifests = tree.files.iter().filter(|file| file.path.ends_with("Cargo.toml"));
    manifests.flat_map(check_manifest).collect()
}

fn check_manifest(file: &File) -> Vec<Violation> {
    let Ok(document) = file.text.parse::<DocumentMut>() else {
        return vec![file.violation(1, "is not TOML; Cargo says where")];
    };
    let tables = dependency_tables(document.as_table());
    let unexplained = tables.into_iter().flat_map(|table| {
        table.iter().filter_map(move |(name, item)| {
            let (key, _) = table.get_key_value(name)?;
            (!is_own(item) && !is_explained(key, item)).then(|| name.to_owned())
        })
    });
    unexplained
        .map(|name| {
            let line =
                file.text.lines().position(|line| line.starts_with(&name) || line.contains(&format!(".{name}]")));
            file.violation(
                line.map_or(1, |index| index + 1),
                format!("{name} has no comment; say what it is for and why this one"),
            )
        })
        .collect()
}

/// The tables of dependencies: of the package, of its targets, and of the workspace.
fn dependency_tables(manifest: &Table) -> Vec<&dyn TableLike> {
    let targets = manifest.get("target").and_then(Item::as_table_like);
    let targets =
        targets.into_iter().flat_map(|targets| targets.iter().filter_map(|(_, target)| target.as_table_like()));
    let workspace = manifest.get("workspace").and_then(Item::as_table_like);
    let places = [manifest as &dyn TableLike].into_iter().chain(targets).chain(workspace);
    places.flat_map(|place| KINDS.iter().filter_map(move |kind| place.get(kind)?.as_table_like())).collect()
}

/// Whether the dependency is a package of this project, or one that the workspace's table explains.
fn is_own(dependency: &Item) -> bool {
    dependency.as_table_like().is_some_and(|table| table.contains_key("path") || table.contains_key("workspace"))
}

fn is_explained(key: &Key, dependency: &Item) -> bool {
    let above = key.leaf_decor().prefix();
    let table = dependency.as_table().and_then(|table| table.decor().prefix());
    let beside = dependency.as_value().and_then(|value| value.decor().suffix());
    [above, table, beside].into_iter().flatten().filter_map(RawString::as_str).any(|space| space.contains('#'))
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
        assert_eq!(found("[build-dependencies.b]\nversion = \"1\"\n"), [1]);
    }

    #[test]
    fn comments_above_or_beside_and_own_packages_are_accepted() {
        let manifest = "[dependencies]\n# Parses.\na = \"1\"\nb = \"1\" # Prints.\nc = { path = \"../c\" }\n\
                        d.workspace = true\n\n# Draws.\n[dependencies.e]\nversion = \"1\"\n";
        assert_eq!(found(manifest), Vec::<usize>::new());
    }
}
