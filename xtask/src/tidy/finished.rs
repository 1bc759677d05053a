//! No test is switched off, and no example. (Clippy finds what is unfinished.)

use crate::tree::{File, Tree, Violation};

/// Finds tests and examples that are ignored.
pub fn check(tree: &Tree) -> Vec<Violation> {
    tree.files.iter().filter(|file| file.has_extension(&["rs", "md"])).flat_map(check_file).collect()
}

fn check_file(file: &File) -> impl Iterator<Item = Violation> {
    let ignored = file.text.lines().enumerate().filter(|(_, line)| is_ignored(line));
    let what = "is ignored; mend the test or remove it; let the example compile, or mark it as text";
    ignored.map(move |(index, _)| file.violation(index + 1, what))
}

/// Whether a line switches a test off, or opens a block of code that is not tested although it is Rust.
fn is_ignored(line: &str) -> bool {
    let text = line.trim_start().trim_start_matches(['/', '!']).trim_start();
    let opened = text.strip_prefix("```").into_iter().flat_map(|words| words.split([',', ' ']));
    text.starts_with("#[ignore") || opened.into_iter().any(|word| word.starts_with("ignore"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> usize {
        check(&Tree::of([(path, text)])).len()
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
            assert_eq!(found("a.rs", source), 1, "{source}");
        }
        assert_eq!(found("docs/a.md", "Text.\n\n```rust,ignore\nf();\n```\n"), 1);
        assert_eq!(found("a.rs", "/// ```text\n/// ignore\n/// ```\nfn f() { \"#[ignore]\"; }"), 0);
    }
}
