//! The page of the C interface: every function, type and macro of the header, with its comment.
//!
//! The header's opening comment introduces its parts, such as "Lazy counters."; what is declared belongs to the part whose names begin like its own, and what
//! begins otherwise to the part of the function that has it first.

use super::opening;
use crate::header::FILE;
use crate::markdown::plain;
use crate::tree::Tree;

/// Makes the page.
pub fn page(tree: &Tree) -> Result<String, String> {
    let header =
        &tree.file(FILE).ok_or_else(|| format!("{FILE} is not there; make it: cargo xtask header --bless"))?.text;
    let introduction = introduction(header);
    let declared = declared(header)?;
    let parts = parts(&introduction, &declared)?;
    let mut text = opening("The C interface", FILE) + &introduction.opening;
    text += &format!("\n\n## What the comments end with\n\n{}\n", introduction.conventions);
    for part in parts {
        text += &format!("\n## {}\n\n{}\n", part.title, part.about);
        for item in part.items {
            text += &format!("\n### {}\n\n```c\n{}\n```\n\n{}\n", item.name, item.declaration, plain(&item.says));
        }
    }
    Ok(text)
}

/// What the header's first comment says.
struct Introduction {
    opening: String,
    /// Titles, and what is below them, as Markdown.
    parts: Vec<(String, String)>,
    conventions: String,
}

fn introduction(header: &str) -> Introduction {
    let comment =
        header.split_once("/*").and_then(|(_, rest)| rest.split_once("*/")).map_or("", |(comment, _)| comment);
    let lines = comment.lines().map(|line| line.trim_start().strip_prefix('*').unwrap_or(line));
    let lines: Vec<&str> = lines.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
    let end = lines
        .iter()
        .position(|line| line.starts_with("What the comments of the functions end with"))
        .unwrap_or(lines.len());
    let mut parts: Vec<(String, Vec<&str>)> = Vec::new();
    let mut opening = Vec::new();
    for (at, line) in lines[..end].iter().enumerate() {
        let begins = at > 0 && lines[at - 1].is_empty();
        // A title is a short sentence that a paragraph begins with.
        let title = line.split_once(". ").filter(|(title, _)| begins && title.len() < 24 && !title.contains(','));
        match (title, parts.last_mut()) {
            (Some((title, rest)), _) if !line.starts_with(' ') => parts.push((title.to_owned(), vec![rest])),
            (_, Some((_, below))) => below.push(line),
            (_, None) => opening.push(*line),
        }
    }
    let parts = parts.into_iter().map(|(title, lines)| (title, with_code(&lines))).collect();
    let conventions = as_list(lines.get(end + 1..).unwrap_or(&[]));
    Introduction { opening: with_code(&opening), parts, conventions }
}

/// Lines of a comment as Markdown: what is indented by four is code.
fn with_code(lines: &[&str]) -> String {
    let mut text = String::new();
    let mut in_code = false;
    for (at, line) in lines.iter().enumerate() {
        let goes_on = line.is_empty()
            && lines[at..].iter().find(|line| !line.is_empty()).is_some_and(|line| line.starts_with("    "));
        let is_code = line.starts_with("    ") || (in_code && goes_on);
        if is_code != in_code {
            text += if is_code { "```c\n" } else { "```\n" };
            in_code = is_code;
        }
        text += &if is_code { line.strip_prefix("    ").unwrap_or("").to_owned() } else { plain(line) };
        text += "\n";
    }
    text += if in_code { "```\n" } else { "" };
    text.trim().to_owned()
}

/// Lines of words, each with what it means behind two blanks or more and in the indented lines below, as a list; and what follows it.
fn as_list(lines: &[&str]) -> String {
    let mut text = String::new();
    for line in lines {
        text += &match line.split_once("  ") {
            Some((word, says)) if !word.is_empty() => format!("* **{}**: {}\n", plain(word), plain(says.trim())),
            Some((_, says)) => format!("  {}\n", plain(says.trim())),
            None => format!("{}\n", plain(line)),
        };
    }
    text.trim().to_owned()
}

/// Something that the header declares.
#[derive(Debug)]
struct Item {
    name: String,
    says: String,
    declaration: String,
    line: usize,
}

/// All that is declared, in order. An error if something has no comment.
fn declared(header: &str) -> Result<Vec<Item>, String> {
    let lines: Vec<&str> = header.lines().collect();
    let start = lines.iter().position(|line| line.starts_with("#include")).unwrap_or(0);
    let mut items = Vec::new();
    let mut comment: Option<String> = None;
    let mut at = start;
    while at < lines.len() {
        let line = lines[at];
        if line.starts_with("/*") {
            let end = lines[at..].iter().position(|line| line.contains("*/")).map_or(lines.len() - 1, |end| at + end);
            comment = Some(said(&lines[at..=end]));
            at = end + 1;
            continue;
        }
        if let Some(name) = name_of(line) {
            let end = end_of(&lines, at);
            // One that is declared a second time, before what is inlined, has its comment there.
            let again = line.contains('(') && lines[end + 1..].iter().any(|line| name_of(line) == Some(name));
            match comment.take() {
                Some(says) => items.push(Item {
                    name: name.to_owned(),
                    says,
                    declaration: declaration(&lines[at..=end]),
                    line: at + 1,
                }),
                None if again => {}
                None => return Err(format!("{FILE}:{}: {name} has no comment; write what it does above it", at + 1)),
            }
            at = end;
        } else if !line.is_empty() {
            comment = None;
        }
        at += 1;
    }
    Ok(items)
}

/// The text of a comment.
fn said(lines: &[&str]) -> String {
    let text = lines.iter().map(|line| {
        let line = line.trim().trim_end_matches("*/").trim_end();
        line.trim_start_matches("/*").trim_start_matches('*').trim_start()
    });
    text.collect::<Vec<_>>().join("\n").trim().to_owned()
}

/// What a line declares, if it begins a declaration of ours.
fn name_of(line: &str) -> Option<&str> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if let Some(rest) = line.strip_prefix("#define ") {
        return rest.split(|c| !is_word(c)).next().filter(|name| name.starts_with("CM_"));
    }
    let declares = line.starts_with(|c: char| c.is_ascii_lowercase()) && !line.starts_with("extern");
    let words = || line.split(|c: char| !is_word(c)).filter(|word| word.starts_with("cm_"));
    if !declares {
        return None;
    }
    match line.starts_with("typedef") {
        // `typedef struct NAME {`, `typedef struct NAME NAME;` and `typedef void (*NAME)(…);`.
        true => words().next(),
        false => line
            .split_once('(')
            .and_then(|(before, _)| before.rsplit(|c: char| !is_word(c)).find(|word| word.starts_with("cm_"))),
    }
}

/// The last line of a declaration.
fn end_of(lines: &[&str], start: usize) -> usize {
    let is_macro = lines[start].starts_with('#');
    let mut depth = 0_i32;
    for (at, line) in lines.iter().enumerate().skip(start) {
        depth += line.matches('{').count() as i32 - line.matches('}').count() as i32;
        let ends =
            if is_macro { !line.ends_with('\\') } else { depth == 0 && (line.ends_with(';') || line.ends_with('}')) };
        if ends {
            return at;
        }
    }
    lines.len() - 1
}

/// A declaration as it is shown: of what is inlined without its body.
fn declaration(lines: &[&str]) -> String {
    match lines[0].strip_suffix(" {") {
        Some(head) if head.starts_with("static inline") => format!("{head};"),
        _ => lines.join("\n"),
    }
}

struct Part {
    title: String,
    about: String,
    items: Vec<Item>,
}

/// The parts with what belongs to each.
fn parts(introduction: &Introduction, declared: &[Item]) -> Result<Vec<Part>, String> {
    // `cm_counters_read` and `CM_COUNTERS` begin with `cm_counter`.
    let begins: Vec<String> =
        introduction.parts.iter().map(|(_, about)| beginning(about).unwrap_or_default()).collect();
    let of_name =
        |name: &str| begins.iter().position(|begin| !begin.is_empty() && name.to_lowercase().starts_with(begin));
    let of_item = |item: &Item| {
        let users = declared.iter().filter(|user| user.declaration.contains(&item.name));
        of_name(&item.name).or_else(|| users.filter_map(|user| of_name(&user.name)).next())
    };
    let mut parts: Vec<Part> = introduction
        .parts
        .iter()
        .map(|(title, about)| Part { title: title.clone(), about: about.clone(), items: Vec::new() })
        .collect();
    for item in declared {
        let part = of_item(item).ok_or_else(|| {
            format!("{FILE}:{}: {} belongs to no part that the opening comment introduces", item.line, item.name)
        })?;
        let Item { name, says, declaration, line } = item;
        parts[part].items.push(Item {
            name: name.clone(),
            says: says.clone(),
            declaration: declaration.clone(),
            line: *line,
        });
    }
    Ok(parts)
}

/// How names of a part begin: as the first function or type in its text, without the s of a plural.
fn beginning(about: &str) -> Option<String> {
    let word = about.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').find(|word| word.starts_with("cm_"))?;
    let first = word.strip_prefix("cm_")?.split('_').next()?;
    Some(format!("cm_{first}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "/* Commensal: this.
 *
 * Lazy counters. A counter counts.
 *
 *     static cm_counter requests;
 *
 * Object caches. They give objects.
 *
 *     cm_cache *contexts;
 *
 * What the comments of the functions end with:
 *
 * errno   what it is set to.
 */
#include <stdint.h>

/* A counter of value 0. */
#define CM_COUNTER_INIT \\
    {0}

/**
 * A value.
 */
typedef struct cm_reading {
    /**
     * What was read.
     */
    int64_t value;
} cm_reading;

void cm_cache_due(void);

/* Inlined. */
static inline void cm_cache_check(void) {
    cm_cache_due();
}

/**
 * Reads *it*.
 *
 * errno: kept.
 */
struct cm_reading cm_counter_read(const struct cm_counter *counter);

/**
 * A cache's.
 */
void cm_cache_due(void);
";

    fn said(header: &str) -> Result<String, String> {
        page(&Tree::of([(FILE, header)]))
    }

    #[test]
    fn everything_is_in_its_part_with_its_comment() {
        let page = said(HEADER).unwrap();
        let expected = "## Lazy counters\n\nA counter counts.\n\n```c\nstatic cm_counter requests;\n\n```\n";
        assert!(page.contains(expected) || page.contains(&expected.replace("\n\n```\n", "\n```\n")), "{page}");
        let at = |what: &str| page.find(what).unwrap_or_else(|| panic!("{what} is not in\n{page}"));
        assert!(
            at("### CM_COUNTER_INIT\n\n```c\n#define CM_COUNTER_INIT \\\n    {0}\n```\n\nA counter of value 0.")
                < at("### cm_reading")
        );
        assert!(at("### cm_counter_read") < at("## Object caches"));
        assert!(at("```c\nstatic inline void cm_cache_check(void);\n```\n\nInlined.") < at("### cm_cache_due"));
        assert!(page.contains("Reads \\*it\\*.\n\nerrno: kept."), "{page}");
        assert_eq!(page.matches("### cm_cache_due").count(), 1);
        assert!(page.contains("* **errno**: what it is set to.\n"));
    }

    #[test]
    fn what_has_no_comment_or_part_is_found() {
        let error = said(&HEADER.replace("/**\n * A cache's.\n */\n", "")).unwrap_err();
        assert!(error.contains("commensal.h:45: cm_cache_due has no comment"), "{error}");
        let error = said(&HEADER.replace("cm_cache_check", "cm_more_check")).unwrap_err();
        assert!(error.contains("cm_more_check belongs to no part"), "{error}");
    }

    #[test]
    fn the_committed_header_is_read_whole() {
        let tree = Tree::read(&crate::root());
        let page = page(&tree).unwrap();
        let header = &tree.file(FILE).unwrap().text;
        let functions = header
            .lines()
            .filter(|line| !line.starts_with([' ', '#']) && line.contains(" cm_") || line.contains(" *cm_"));
        let names = functions.filter(|line| line.ends_with(");")).filter_map(name_of);
        let missing: Vec<&str> = names.filter(|name| !page.contains(&format!("\n### {name}\n"))).collect();
        assert!(missing.is_empty(), "{missing:?}");
        assert!(page.matches("\n### ").count() > 80, "{}", page.matches("\n### ").count());
    }
}
