//! What ARCHITECTURE.md cites exists.
//!
//! In backticks, a path must be a file or folder, from the root; a name (`f`, `T::f`, `f(x)`) must stand in the code, and so
//! must each part of it. So a rename that forgets the text is found. Links must lead to files. Blocks of code, commands
//! and whatever else is neither path nor name are not read.

use std::collections::HashSet;

use crate::markdown::{quoted, targets};
use crate::tree::{Tree, Violation};

const TEXT: &str = "ARCHITECTURE.md";

/// Whose words count as code, besides the tokens of Rust files.
const CODE: [&str; 8] = ["c", "h", "cc", "sh", "py", "S", "toml", "ld"];

/// Extensions that make a word without a slash a path.
const FILES: [&str; 6] = ["rs", "md", "toml", "sh", "txt", "lock"];

/// Finds citations of what does not exist.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let Some(text) = tree.file(TEXT) else {
        return Vec::new();
    };
    let names = names_in_code(tree);
    let broken = citations(&text.text).filter_map(|(line, cited)| {
        let what = match cited {
            Cited::Path(path) if !tree.has(&path) => {
                format!("cites `{path}`, which is no file or folder from the root")
            }
            Cited::Name(name) if !name.split("::").all(|part| names.contains(part)) => {
                format!("cites `{name}`, which stands nowhere in the code")
            }
            _ => return None,
        };
        Some(text.violation(line, what))
    });
    broken.collect()
}

enum Cited {
    Path(String),
    Name(String),
}

fn citations(text: &str) -> impl Iterator<Item = (usize, Cited)> {
    let linked = targets(text).filter(|(_, target)| !target.contains("://"));
    let linked = linked.filter_map(|(line, target)| Some((line, Cited::Path(target.split('#').next()?.to_owned()))));
    quoted(text).filter_map(|(line, quoted)| Some((line, understand(quoted)?))).chain(linked)
}

/// What a word in backticks cites, if it is a path or a name.
fn understand(quoted: &str) -> Option<Cited> {
    let of = |extra: &str, text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || extra.contains(c));
    let has_extension = quoted.rsplit_once('.').is_some_and(|(_, extension)| FILES.contains(&extension));
    if of("_-./", quoted) && (has_extension || quoted.contains('/')) {
        let elsewhere = quoted.starts_with('/') || quoted.starts_with("target/");
        return (!elsewhere).then(|| Cited::Path(quoted.to_owned()));
    }
    let name = quoted.split_once('(').map_or(quoted, |(name, _)| name);
    let is_name = of("_:", name) && name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    let parts_are_names = name.split("::").all(|part| !part.is_empty() && !part.contains(':'));
    (is_name && parts_are_names && (name == quoted || quoted.ends_with(')'))).then(|| Cited::Name(name.to_owned()))
}

/// Every word of the code: names, and words in strings; not those in Rust's comments.
fn names_in_code(tree: &Tree) -> HashSet<String> {
    let mut names = HashSet::new();
    let mut add = |text: &str| {
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        names.extend(words.filter(|word| !word.is_empty()).map(str::to_owned));
    };
    for file in &tree.files {
        if file.is_rust() {
            let tokens = file.tokens();
            let is_doc = |at: usize| at >= 2 && tokens[at - 2].text == "doc";
            tokens.iter().enumerate().filter(|(at, _)| !is_doc(*at)).for_each(|(_, token)| add(&token.text));
        } else if file.has_extension(&CODE) {
            add(&file.text);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str =
        "//! Mentions gone_function.\nstruct Zone; impl Zone { fn take_run() { env(\"COMMENSAL_CONF\") } }";

    fn found(text: &str) -> Vec<String> {
        let tree = Tree::of([("runtime/src/page/zone.rs", SOURCE), (TEXT, text)]);
        check(&tree).into_iter().map(|violation| violation.what).collect()
    }

    #[test]
    fn citation_of_what_exists_is_accepted() {
        let text = "`runtime/src/page/zone.rs`, `runtime/`, `Zone`, `Zone::take_run`, `take_run(n)`, `COMMENSAL_CONF`,\n\
                    `cargo run --release`, `target/release/x`, `/proc/self/maps`, `a + b`, [zone](runtime/src/page/zone.rs#L1),\n\
                    [out](https://example.org/x)\n```\n`nothing_here`\n```\n";
        assert_eq!(found(text), Vec::<String>::new());
    }

    #[test]
    fn citation_of_what_does_not_exist_is_found() {
        let planted = [
            "`runtime/src/page/gone.rs`",
            "`zone.rs`",
            "`runtime/src/pag/`",
            "`Gone`",
            "`Zone::gone`",
            "`gone_function(8)`",
            "[zone](runtime/gone.md)",
        ];
        for text in planted {
            assert_eq!(found(text).len(), 1, "{text}");
        }
    }
}
