//! A file opens with its purpose, and is short enough to be one noun.

use crate::tree::{Tree, Violation};

const MAX_LINES: usize = 600;
const CODE: [&str; 7] = ["rs", "c", "h", "cc", "cpp", "sh", "py"];

/// Files that may be longer, each line `path: reason`.
const EXCEPTIONS: &str = "xtask/tidy-exceptions.txt";

/// Finds Rust files that do not open with `//!`.
pub fn check_opening(tree: &Tree) -> Vec<Violation> {
    tree.rust()
        .filter(|file| !file.text.starts_with("//!"))
        .map(|file| file.violation(1, "opens without `//!`; say what it is, what it may use and its invariant"))
        .collect()
}

/// Finds long files without an exception, and exceptions without a reason or a long file.
pub fn check_length(tree: &Tree) -> Vec<Violation> {
    let exceptions = exceptions(tree);
    let long: Vec<_> =
        tree.files.iter().filter(|file| file.has_extension(&CODE) && file.text.lines().count() > MAX_LINES).collect();
    let mut violations: Vec<Violation> = long
        .iter()
        .filter(|file| !exceptions.iter().any(|exception| exception.path == file.path))
        .map(|file| {
            let lines = file.text.lines().count();
            file.violation(
                lines,
                format!("has {lines} lines, over {MAX_LINES}; split it, or give a reason in {EXCEPTIONS}"),
            )
        })
        .collect();
    for exception in exceptions {
        let problem = if exception.reason.is_empty() {
            "gives no reason"
        } else if long.iter().all(|file| file.path != exception.path) {
            "is not needed: there is no such file, or it is short enough"
        } else {
            continue;
        };
        let what = format!("the exception for {} {problem}", exception.path);
        violations.push(Violation { path: EXCEPTIONS.to_owned(), line: exception.line, what });
    }
    violations
}

struct Exception<'a> {
    path: &'a str,
    reason: &'a str,
    line: usize,
}

fn exceptions(tree: &Tree) -> Vec<Exception<'_>> {
    let lines = tree.file(EXCEPTIONS).map_or("", |file| &file.text).lines();
    lines
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'))
        .map(|(index, line)| {
            let (path, reason) = line.split_once(':').unwrap_or((line, ""));
            Exception { path: path.trim(), reason: reason.trim(), line: index + 1 }
        })
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
    fn a_long_file_needs_a_reason() {
        let long = "//! Long.\n".repeat(MAX_LINES + 1);
        let found = |exceptions: &str| {
            let tree = Tree::of([("a.rs", &long), ("b.md", &long), (EXCEPTIONS, exceptions)]);
            check_length(&tree).len()
        };
        assert_eq!(found(""), 1);
        assert_eq!(found("a.rs"), 1, "no reason");
        assert_eq!(found("# Comment\n\na.rs: a table, one row a case\n"), 0);
        assert_eq!(found("a.rs: a table\ngone.rs: was long\n"), 1);
    }
}
