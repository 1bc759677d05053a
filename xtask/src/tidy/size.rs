//! A file opens with its purpose, is short enough to be one noun, and its lines fit a window.

use super::excuse;
use crate::header;
use crate::tree::{File, Tree, Violation};

const MAX_LINES: usize = 600;
const CODE: [&str; 7] = ["rs", "c", "h", "cc", "cpp", "sh", "py"];

/// The product, and what it runs on: shorter files, and narrow lines.
const CORE: [&str; 2] = ["runtime/src/", "machine/"];
const MAX_CORE_LINES: usize = 499;
const MAX_WIDTH: usize = 120;

/// The map, which is read in one go.
const MAP: &str = "ARCHITECTURE.md";
const MAX_MAP_LINES: usize = 250;

/// Longer files, but of at most MAX_LINES. This table only shrinks.
const LONG: [&str; 2] = ["runtime/src/counter/words.rs", "runtime/src/observe/page/mod.rs"];

/// Folders with wider lines. This table only shrinks.
const WIDE: [&str; 0] = [];

/// Finds Rust files that do not open with `//!`.
pub fn check_opening(tree: &Tree) -> Vec<Violation> {
    tree.rust()
        .filter(|file| !file.text.starts_with("//!"))
        .map(|file| file.violation(1, "opens without `//!`; say what it is, what it may use and its invariant"))
        .collect()
}

/// Finds long files. The C header may be one: it is generated, and C programs include a single one.
pub fn check_length(tree: &Tree) -> Vec<Violation> {
    let code = tree.files.iter().filter(|file| file.has_extension(&CODE) && file.path != header::FILE);
    let shorter = core(tree).map(|file| (file, MAX_CORE_LINES));
    let shorter =
        excuse(tree, longer(shorter.chain(tree.file(MAP).map(|file| (file, MAX_MAP_LINES)))), "", &LONG, file!());
    longer(code.map(|file| (file, MAX_LINES))).into_iter().chain(shorter).collect()
}

/// Finds wide lines.
pub fn check_width(tree: &Tree) -> Vec<Violation> {
    let lines = core(tree)
        .flat_map(|file| file.text.lines().enumerate().map(move |(index, line)| (file, index, line.chars().count())));
    let wide = lines.filter(|(.., width)| *width > MAX_WIDTH);
    let wide = wide.map(|(file, index, width)| {
        file.violation(index + 1, format!("is {width} wide, over {MAX_WIDTH}; break the line"))
    });
    excuse(tree, wide.collect(), "", &WIDE, file!())
}

fn core(tree: &Tree) -> impl Iterator<Item = &File> {
    tree.rust().filter(|file| CORE.iter().any(|folder| file.path.starts_with(folder)))
}

/// The files that have more lines than they may.
fn longer<'a>(limited: impl Iterator<Item = (&'a File, usize)>) -> Vec<Violation> {
    let lengths = limited.map(|(file, limit)| (file, limit, file.text.lines().count()));
    let longer = lengths.filter(|(_, limit, lines)| lines > limit);
    longer
        .map(|(file, limit, lines)| file.violation(lines, format!("has {lines} lines, over {limit}; split it")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_without_purpose_is_found() {
        let tree = Tree::of([("a.rs", "//! Good.\n"), ("b.rs", "// Bad.\n"), ("c.rs", "")]);
        let paths: Vec<String> = check_opening(&tree).into_iter().map(|violation| violation.path).collect();
        assert_eq!(paths, ["b.rs", "c.rs"]);
    }

    /// What a check finds but for places that are excused without need: these trees have none of them.
    fn found(check: fn(&Tree) -> Vec<Violation>, tree: &Tree) -> Vec<String> {
        let found = check(tree).into_iter().filter(|violation| violation.path != file!());
        found.map(|violation| violation.path).collect()
    }

    #[test]
    fn long_file_is_found() {
        let long = "//! Long.\n".repeat(MAX_LINES + 1);
        let tree = Tree::of([("a.rs", &long), ("b.rs", "//! Short.\n"), ("c.md", &long), (header::FILE, &long)]);
        assert_eq!(found(check_length, &tree), ["a.rs"]);
        let long = "//! Long.\n".repeat(MAX_CORE_LINES + 1);
        let tree = Tree::of([("a.rs", &long), ("machine/b.rs", &long), (LONG[0], &long), (MAP, &long)]);
        assert_eq!(found(check_length, &tree), ["machine/b.rs", MAP]);
    }

    #[test]
    fn wide_line_in_the_core_is_found() {
        let (wide, fits) = ("é".repeat(MAX_WIDTH + 1), "é".repeat(MAX_WIDTH));
        let tree = Tree::of([("cli/a.rs", &wide), ("machine/b.rs", &wide), ("runtime/src/c.rs", &fits)]);
        assert_eq!(found(check_width, &tree), ["machine/b.rs"]);
    }
}
