//! A file opens with its purpose, and is short enough to be one noun.

use crate::header;
use crate::tree::{Tree, Violation};

const MAX_LINES: usize = 600;
const CODE: [&str; 7] = ["rs", "c", "h", "cc", "cpp", "sh", "py"];

/// Finds Rust files that do not open with `//!`.
pub fn check_opening(tree: &Tree) -> Vec<Violation> {
    tree.rust()
        .filter(|file| !file.text.starts_with("//!"))
        .map(|file| file.violation(1, "opens without `//!`; say what it is, what it may use and its invariant"))
        .collect()
}

/// Finds long files. The C header may be one: it is generated, and C programs include a single one.
pub fn check_length(tree: &Tree) -> Vec<Violation> {
    let read = tree.files.iter().filter(|file| file.has_extension(&CODE) && file.path != header::FILE);
    let lengths = read.map(|file| (file, file.text.lines().count())).filter(|(_, lines)| *lines > MAX_LINES);
    lengths
        .map(|(file, lines)| file.violation(lines, format!("has {lines} lines, over {MAX_LINES}; split it")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_purpose_is_found() {
        let tree = Tree::of([("a.rs", "//! Good.\n"), ("b.rs", "// Bad.\n"), ("c.rs", "")]);
        let paths: Vec<String> = check_opening(&tree).into_iter().map(|violation| violation.path).collect();
        assert_eq!(paths, ["b.rs", "c.rs"]);
    }

    #[test]
    fn a_long_file_is_found() {
        let long = "//! Long.\n".repeat(MAX_LINES + 1);
        let tree = Tree::of([("a.rs", &long), ("b.rs", "//! Short.\n"), ("c.md", &long), (header::FILE, &long)]);
        let found: Vec<String> = check_length(&tree).into_iter().map(|violation| violation.path).collect();
        assert_eq!(found, ["a.rs"]);
    }
}
