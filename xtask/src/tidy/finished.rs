//! Nothing unfinished and no test switched off: no `todo`, no `unimplemented`, no ignored test or example.

use crate::tokens::{Token, find};
use crate::tree::{File, Tree, Violation};

const UNFINISHED: [(&[&str], &str); 3] = [
    (&["todo", "!"], "finish it"),
    (&["unimplemented", "!"], "finish it"),
    (&["#", "[", "ignore"], "mend the test or remove it"),
];

/// Finds what is unfinished or switched off.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let rust = tree.rust().flat_map(check_rust);
    let markdown = tree.files.iter().filter(|file| file.has_extension(&["md"])).flat_map(check_markdown);
    rust.chain(markdown).collect()
}

fn check_rust(file: &File) -> Vec<Violation> {
    let tokens = file.tokens();
    let mut violations = Vec::new();
    for (pattern, advice) in UNFINISHED {
        violations.extend(
            find(&tokens, pattern)
                .map(|at| file.violation(tokens[at].line, format!("has `{}`; {advice}", pattern.concat()))),
        );
    }
    let documented =
        find(&tokens, &["doc", "="]).filter_map(|at| tokens.get(at + 2).filter(|_| tokens[at + 1].text == "="));
    violations.extend(documented.filter(|doc| is_ignored_example(doc)).map(|doc| ignored_example(file, doc.line)));
    violations
}

fn is_ignored_example(doc: &Token) -> bool {
    // The lines of a block comment are one literal, whose line ends are escaped.
    doc.text.replace("\\n", "\n").split(['"', '\n']).any(opens_ignored)
}

fn check_markdown(file: &File) -> Vec<Violation> {
    let lines = file.text.lines().enumerate();
    lines.filter(|(_, line)| opens_ignored(line)).map(|(index, _)| ignored_example(file, index + 1)).collect()
}

/// Whether the line opens a block of code that is not tested although it is Rust.
fn opens_ignored(line: &str) -> bool {
    let words = line.trim_start().strip_prefix("```");
    words.is_some_and(|words| words.split([',', ' ']).any(|word| word.starts_with("ignore")))
}

fn ignored_example(file: &File, line: usize) -> Violation {
    file.violation(line, "has an ignored example; let it compile, or mark it as text")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> usize {
        check(&Tree::of([(path, text)])).len()
    }

    #[test]
    fn what_is_unfinished_or_switched_off_is_found() {
        let planted = [
            "fn f() { todo!() }",
            "fn f() { unimplemented!(\"later\") }",
            "#[test]\n#[ignore = \"slow\"]\nfn f() {}",
            "/// ```ignore\n/// f();\n/// ```\nfn f() {}",
            "//! ```rust,ignore\n//! f();\n//! ```",
            "/** Text.\n```ignore\nf();\n```\n*/ fn f() {}",
        ];
        for source in planted {
            assert_eq!(found("a.rs", source), 1, "{source}");
        }
        assert_eq!(found("docs/a.md", "Text.\n\n```rust,ignore\nf();\n```\n"), 1);
    }

    #[test]
    fn words_in_comments_and_strings_are_left_alone() {
        assert_eq!(found("a.rs", "// todo!()\n/// ```text\n/// ignore\n/// ```\nfn f() { \"todo!()\"; }"), 0);
    }
}
