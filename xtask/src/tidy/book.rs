//! The book holds together: its summary has every page and no other, links and pictures lead somewhere, and blocks of
//! code name their language. Each file that a page or README.md names exists, and so does each test that README.md names.
//!
//! A link must not lead out of `docs/`, because the book is built from that folder alone. Name such a file in backticks.
//!
//! A block of code may be a *copy* of a file, or of the part of it between `ANCHOR: NAME` and `ANCHOR_END: NAME`. The line
//! before the block then is the comment `<!-- PATH -->` or `<!-- PATH:NAME -->`. [`refresh`] writes the copies anew.

use crate::markdown::{Block, anchors, quoted, take_apart, targets};
use crate::tree::{File, Tree, Violation};
use std::fs;
use std::path::Path;

const FOLDER: &str = "docs/";
const SUMMARY: &str = "docs/SUMMARY.md";
const README: &str = "README.md";

/// Finds what is missing, left over or leads nowhere.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let pages: Vec<&File> = pages(tree).collect();
    let mut violations = summary(tree, &pages);
    for page in pages {
        violations.extend(links(tree, page, Some(FOLDER)));
        violations.extend(blocks(tree, page));
        violations.extend(files(tree, page));
    }
    if let Some(readme) = tree.file(README) {
        violations.extend(links(tree, readme, None));
        violations.extend(files(tree, readme));
        violations.extend(tests(tree, readme));
    }
    violations
}

/// Writes the copies in all pages as their files are now.
pub fn refresh(root: &Path) -> Result<(), String> {
    let tree = Tree::read(root)?;
    for page in pages(&tree) {
        let fresh = refreshed(&tree, page);
        if fresh != page.text {
            fs::write(root.join(&page.path), fresh).map_err(|error| format!("{}: {error}", page.path))?;
        }
    }
    Ok(())
}

fn refreshed(tree: &Tree, page: &File) -> String {
    let mut lines: Vec<&str> = page.text.lines().collect();
    for block in take_apart(&page.text).0.iter().rev() {
        if let Some(source) = block.source.and_then(|name| source(tree, name)) {
            lines.splice(block.line..block.line + block.lines.len(), source);
        }
    }
    lines.join("\n") + "\n"
}

fn pages(tree: &Tree) -> impl Iterator<Item = &File> {
    tree.files.iter().filter(|file| file.path.starts_with(FOLDER) && file.has_extension(&["md"]))
}

/// The summary has all pages; that its own links lead to some is looked at as with any page.
fn summary(tree: &Tree, pages: &[&File]) -> Vec<Violation> {
    let Some(summary) = tree.file(SUMMARY) else {
        return pages
            .first()
            .map(|page| page.violation(1, format!("is in no book; {SUMMARY} is missing")))
            .into_iter()
            .collect();
    };
    let chapters: Vec<(usize, String)> = targets(&summary.text).collect();
    let path = |target: &str| resolve(SUMMARY, target);
    let left_out = pages.iter().filter(|page| {
        page.path != SUMMARY && !chapters.iter().any(|(_, target)| path(target).as_ref() == Some(&page.path))
    });
    let left_out = left_out.map(|page| page.violation(1, format!("is no chapter; add it to {SUMMARY}")));
    let twice = chapters
        .iter()
        .enumerate()
        .filter(|(at, (_, target))| chapters[..*at].iter().any(|(_, other)| other == target));
    left_out
        .chain(twice.map(|(_, (line, target))| summary.violation(*line, format!("has {target} a second time"))))
        .collect()
}

/// Links and pictures lead to files, and to headings in them; within `bounds`, if there are any.
fn links(tree: &Tree, page: &File, bounds: Option<&str>) -> Vec<Violation> {
    let broken = targets(&page.text).filter_map(|(line, target)| {
        if target.contains("://") || target.starts_with("mailto:") {
            return None;
        }
        let (file, name) = target.split_once('#').map_or((target.as_str(), None), |(file, name)| (file, Some(name)));
        let path = if file.is_empty() { Some(page.path.clone()) } else { resolve(&page.path, file) };
        let what = match path.filter(|path| tree.has(path)) {
            None => format!("links to {target}, which is not there"),
            Some(path) if bounds.is_some_and(|bounds| !path.starts_with(bounds)) => {
                format!("links to {target}, which is not in the book; name the file in backticks, from the root")
            }
            Some(path) => {
                let found = name.is_none_or(|name| {
                    tree.file(&path).is_some_and(|file| anchors(&file.text).iter().any(|known| known == name))
                });
                (!found).then(|| format!("links to {target}, and {path} has no such heading"))?
            }
        };
        Some(page.violation(line, what))
    });
    broken.collect()
}

/// Blocks of code name their language, because `mdbook test` takes others for Rust. Copies are what they are copies of.
fn blocks(tree: &Tree, page: &File) -> Vec<Violation> {
    let (blocks, _) = take_apart(&page.text);
    let unnamed = blocks.iter().filter(|block| block.info.is_empty());
    let unnamed = unnamed.map(|block| {
        page.violation(block.line, "opens a block of code without saying of what; write text, console, sh, c, rs, …")
    });
    let copies = blocks.iter().filter_map(|block| {
        let what = wrong_with_copy(tree, block)?;
        Some(page.violation(block.line, what))
    });
    unnamed.chain(copies).collect()
}

fn wrong_with_copy(tree: &Tree, block: &Block<'_>) -> Option<String> {
    let name = block.source?;
    match source(tree, name) {
        None => Some(format!("copies {name}, which is no file, or no part of one between `ANCHOR`s")),
        Some(lines) if lines != block.lines => {
            Some(format!("is not {name} as it is now; `cargo xtask reference --bless` copies it again"))
        }
        Some(_) => None,
    }
}

/// The lines of a file, or of a part of it, called PATH or PATH:NAME.
fn source<'a>(tree: &'a Tree, name: &str) -> Option<Vec<&'a str>> {
    let (path, part) = name.split_once(':').unwrap_or((name, ""));
    let mut lines = tree.file(path)?.text.lines();
    if part.is_empty() {
        return Some(lines.collect());
    }
    let marks = |line: &str, mark: &str| {
        line.split_once(mark).is_some_and(|(_, marked)| marked.split_whitespace().next() == Some(part))
    };
    lines.find(|line| marks(line, "ANCHOR: "))?;
    Some(lines.take_while(|line| !marks(line, "ANCHOR_END: ")).collect())
}

/// What stands in backticks and begins with a folder of ours is there.
fn files(tree: &Tree, page: &File) -> Vec<Violation> {
    let broken = quoted(&page.text).filter_map(|(line, quoted)| {
        let is_path = quoted.chars().all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c));
        let (first, _) = quoted.split_once('/').filter(|_| is_path)?;
        let is_ours = !first.is_empty() && tree.has(first) && !tree.has(quoted);
        is_ours.then(|| page.violation(line, format!("names `{quoted}`, which is no file or folder from the root")))
    });
    broken.collect()
}

/// What stands in backticks and is as long a name as only tests have is a function of ours.
fn tests(tree: &Tree, page: &File) -> Vec<Violation> {
    let is_long = |name: &str| {
        name.matches('_').count() > 3 && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    };
    let missing = quoted(&page.text).filter(|(_, name)| is_long(name)).filter(|(_, name)| {
        let function = format!("fn {name}(");
        !tree.rust().any(|file| file.text.contains(&function))
    });
    missing.map(|(line, name)| page.violation(line, format!("names the test `{name}`, and there is none"))).collect()
}

/// The path from the root of what a file calls `target`; none if that leads out of the project.
fn resolve(file: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = file.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()?),
            _ => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "docs/a/b.md";

    fn found(text: &str) -> Vec<String> {
        let tree = Tree::of([
            (SUMMARY, "# Summary\n- [B](a/b.md)\n- [C](a/c.md)\n"),
            (PAGE, text),
            ("docs/a/c.md", "# See\n## Two words\n"),
            ("docs/a/d.svg", "<svg/>"),
            ("examples/x.c", "/* ANCHOR: main */\nint x;\n/* ANCHOR_END: main */\n"),
            (README, "`examples/x.c`\n"),
        ]);
        check(&tree).into_iter().map(|violation| violation.to_string()).collect()
    }

    #[test]
    fn book_that_holds_together_is_accepted() {
        let text = "[c](c.md), [it](c.md#two-words), [here](#top), ![d](d.svg), [out](https://example.org/x)\n# Top\n\
                    `examples/x.c`, `mm/vmstat.c`, `[x](gone.md)`\n<!-- examples/x.c:main -->\n```c\nint x;\n```\n\
                    ```console\n$ cat [x](gone.md)\n```\n<!-- README.md -->\n```text\n`examples/x.c`\n```\n";
        assert_eq!(found(text), Vec::<String>::new());
    }

    #[test]
    fn links_and_copies_that_are_wrong_are_found() {
        for (text, what) in [
            ("[c](gone.md)", "links to gone.md, which is not there"),
            ("![c](gone.svg)", "links to gone.svg"),
            ("<img src=\"gone.svg\">", "links to gone.svg"),
            ("[c](c.md#three-words)", "docs/a/c.md has no such heading"),
            ("[c](#top)", "docs/a/b.md has no such heading"),
            ("[c](../../../x)", "which is not there"),
            ("[x](../../examples/x.c)", "which is not in the book"),
            ("`examples/gone.c`", "names `examples/gone.c`"),
            ("```\nx\n```", "opens a block of code without saying of what"),
            ("<!-- examples/gone.c -->\n```c\n```", "copies examples/gone.c, which is no file"),
            ("<!-- examples/x.c:more -->\n```c\n```", "copies examples/x.c:more, which is no file, or no part"),
            ("<!-- examples/x.c:main -->\n```c\nint y;\n```", "is not examples/x.c:main as it is now"),
        ] {
            let found = found(text);
            assert!(found.len() == 1 && found[0].contains(what), "{text}: {found:?}");
        }
    }

    #[test]
    fn copies_are_refreshed_and_the_rest_stays() {
        let text = "a\n<!-- x.c -->\n```c\nold\n```\nb\n<!-- x.c:p -->\n```c\n```\n<!-- gone.c -->\n```c\nc\n```\n";
        let tree = Tree::of([(PAGE, text), ("x.c", "1\n/* ANCHOR: p */\n2\n/* ANCHOR_END: p */\n")]);
        let fresh = refreshed(&tree, &tree.files[0]);
        let whole = text.replacen("old", "1\n/* ANCHOR: p */\n2\n/* ANCHOR_END: p */", 1);
        assert_eq!(fresh, whole.replacen(":p -->\n```c\n", ":p -->\n```c\n2\n", 1));
    }

    #[test]
    fn pages_and_chapters_are_the_same() {
        let check_with = |summary: &str| {
            let tree = Tree::of([(SUMMARY, summary), (PAGE, ""), ("docs/a/c.md", "")]);
            check(&tree).into_iter().map(|violation| violation.to_string()).collect::<Vec<_>>()
        };
        let both = "- [B](a/b.md)\n- [C](a/c.md)\n";
        assert_eq!(check_with(both), Vec::<String>::new());
        assert_eq!(check_with("- [B](a/b.md)\n"), ["docs/a/c.md:1: is no chapter; add it to docs/SUMMARY.md"]);
        assert!(
            check_with(&format!("{both}- [D](a/d.md)\n"))[0]
                .contains("SUMMARY.md:3: links to a/d.md, which is not there")
        );
        assert!(check_with(&format!("{both}- [C](a/c.md)\n"))[0].contains("a/c.md a second time"));
        assert!(check(&Tree::of([(PAGE, "")]))[0].what.contains("is in no book"));
    }

    #[test]
    fn readme_may_link_to_anything_that_is_there() {
        let source = "#[test]\nfn what_was_found_stays_there() {}";
        let found = |text: &str| check(&Tree::of([(README, text), ("examples/x.c", ""), ("a.rs", source)])).len();
        assert_eq!(found("[x](examples/x.c) and `what_was_found_stays_there`"), 0);
        assert_eq!(found("[x](examples/y.c) and `examples/z.c`"), 2);
        assert_eq!(found("`what_was_lost_stays_there`"), 1);
    }
}
