//! Markdown, as far as checks read it and generated pages are written in it: blocks of code, prose, links, and the names that headings get.
//!
//! It is not a parser: a text that is odd enough fools it, and `mdbook build` shows what became of that.

use std::collections::HashMap;

/// A block of code between fences.
#[derive(Debug, PartialEq, Eq)]
pub struct Block<'a> {
    /// What stands behind the opening fence.
    pub info: &'a str,
    /// The line of that fence; lines count from 1.
    pub line: usize,
    /// The lines of code.
    pub lines: Vec<&'a str>,
    /// The text of an HTML comment on the line before that fence: what the block is a copy of.
    pub source: Option<&'a str>,
}

/// Blocks of code, and the lines that are in none, with their numbers.
pub fn take_apart(text: &str) -> (Vec<Block<'_>>, Vec<(usize, &str)>) {
    let (mut blocks, mut prose) = (Vec::new(), Vec::new());
    let mut open: Option<Block<'_>> = None;
    let mut before = "";
    for (index, line) in text.lines().enumerate() {
        let fence = line.trim_start().strip_prefix("```");
        match (open.as_mut(), fence) {
            (Some(block), None) => block.lines.push(line),
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some(info)) => {
                let source = before.strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->"));
                open = Some(Block { info: info.trim(), line: index + 1, lines: Vec::new(), source });
            }
            (None, None) => prose.push((index + 1, line)),
        }
        before = line;
    }
    blocks.extend(open);
    (blocks, prose)
}

/// What stands in backticks in a text's prose, with the lines.
pub fn quoted(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let (_, prose) = take_apart(text);
    prose.into_iter().flat_map(|(number, line)| line.split('`').skip(1).step_by(2).map(move |quoted| (number, quoted)))
}

/// Where a text's prose links to, or shows pictures from, with the lines.
pub fn targets(text: &str) -> impl Iterator<Item = (usize, String)> {
    let (_, prose) = take_apart(text);
    prose.into_iter().flat_map(|(number, line)| targets_of(line).into_iter().map(move |target| (number, target)))
}

fn targets_of(line: &str) -> Vec<String> {
    // What is in backticks is no link; but the text of one may be.
    let bare: String = line.split('`').step_by(2).collect::<Vec<_>>().join("");
    let of_markdown = bare.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
    let of_html = ["src=\"", "href=\""].into_iter().flat_map(|attribute| bare.split(attribute).skip(1));
    of_markdown.chain(of_html.filter_map(|rest| rest.split('"').next())).map(str::to_owned).collect()
}

/// The names by which links find headings, as mdBook and the forges make them; and those that HTML in the text has.
pub fn anchors(text: &str) -> Vec<String> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let (_, prose) = take_apart(text);
    let headings = prose.iter().filter_map(|(_, line)| {
        let title = line.trim_start_matches('#');
        (title.len() < line.len()).then(|| title.strip_prefix(' ')).flatten()
    });
    let of_headings = headings.map(|title| {
        let name = anchor(title);
        let again = seen.entry(name.clone()).or_insert(0);
        *again += 1;
        if *again == 1 { name } else { format!("{name}-{}", *again - 1) }
    });
    let mut names: Vec<String> = of_headings.collect();
    for attribute in [" id=\"", " name=\""] {
        let of_html = prose.iter().flat_map(|(_, line)| line.split(attribute).skip(1));
        names.extend(of_html.filter_map(|rest| rest.split('"').next()).map(str::to_owned));
    }
    names
}

/// The name of a heading: its letters and digits, small; dashes for blanks.
fn anchor(title: &str) -> String {
    let kept = title.trim().chars().filter_map(|character| match character {
        _ if character.is_alphanumeric() || "_-".contains(character) => Some(character.to_lowercase().to_string()),
        _ if character.is_whitespace() => Some("-".to_owned()),
        _ => None,
    });
    kept.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_and_prose_are_told_apart() {
        let (blocks, prose) = take_apart("a\n```console\n$ b\n```\n<!-- c -->\n```\nd");
        assert_eq!(prose, [(1, "a"), (5, "<!-- c -->")]);
        let of = |info, line, code, source| Block { info, line, lines: vec![code], source };
        assert_eq!(blocks, [of("console", 2, "$ b", None), of("", 6, "d", Some("c"))]);
    }

    #[test]
    fn links_and_pictures_are_found() {
        let line = "[a](b.md#c), [`f`](d.md) and ![e](f.svg \"g\") but not `[h](i.md)`; <img src=\"j.svg\">";
        assert_eq!(targets_of(line), ["b.md#c", "d.md", "f.svg", "j.svg"]);
    }

    #[test]
    fn headings_have_the_names_that_mdbook_gives_them() {
        let text = "# Lazy counters: why so\n## `cm_counter_add`\n## Twice\n## Twice\n```sh\n# no heading\n```\n#none\n<a id=\"x\"></a>\n";
        assert_eq!(anchors(text), ["lazy-counters-why-so", "cm_counter_add", "twice", "twice-1", "x"]);
    }
}
