//! How plain prose is: words a sentence, sentences over 30 words, and stumbles. A stumble is an actor without a name, such as "whoever".
//!
//! The prose of Markdown is its text without code, tables and headings; the prose of a source is its comments.
//! `cargo xtask prose FILE…` prints the three figures, and tidy holds each document to LIMITS.

use std::path::Path;

use crate::header;
use crate::tree::{File, Tree, Violation};

const LONG: usize = 30;
/// A shorter text is a label.
const SHORTEST: usize = 3;
/// Stumbles in any place.
const STUMBLES: [&str; 9] = ["whoever", "whom", "nobody", "somebody", "anybody", "whatever", "he", "his", "him"];
/// Stumbles before the word "along".
const COMES: [&str; 3] = ["come", "comes", "came"];
/// Stumbles at the start of a clause, unless it is a question.
const HEADLESS: [&str; 8] = ["Who ", "What ", "Where ", "Which ", "Whose ", "Those ", "One that ", "None of "];
const SOURCES: [&str; 4] = ["rs", "c", "h", "cc"];

/// The most words that a file's sentences have on average, and the largest share of sentences over LONG words, in percent.
const LIMITS: [f64; 2] = [18.0, 10.0];
/// A file with fewer words has no average worth holding to a limit.
const FEW_WORDS: usize = 100;
/// Folders, and the names' ends, of the files that are held to LIMITS beside PAGES.
const FOLDERS: [(&str, &str); 2] = [("docs/", ".md"), ("runtime/src/", ".rs")];
const PAGES: [&str; 4] = ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", header::FILE];

/// Prints the figures of all files together: words a sentence, percent of long sentences, stumbles per 100 words.
pub fn run(root: &Path, paths: &[String]) -> Result<(), String> {
    let tree = Tree::read(root)?;
    let mut sums = Sums::default();
    for path in paths {
        sums.add_file(tree.file(path).ok_or_else(|| format!("found no text {path}; expected a path from the root"))?);
    }
    if sums.sentences == 0 {
        return Err(format!("found no sentence in {paths:?}"));
    }
    let [mean, long] = sums.figures();
    println!("{mean:.2} {long:.2} {:.3}", 100.0 * sums.stumbles.len() as f64 / sums.words as f64);
    Ok(())
}

/// Finds documents, and sources of the runtime, that are not plain.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let is_held = |path: &str| {
        PAGES.contains(&path) || FOLDERS.iter().any(|(folder, end)| path.starts_with(folder) && path.ends_with(end))
    };
    tree.files.iter().filter(|file| is_held(&file.path)).flat_map(check_file).collect()
}

fn check_file(file: &File) -> Vec<Violation> {
    let mut sums = Sums::default();
    sums.add_file(file);
    let stumbles = sums.stumbles.iter().map(|(line, word)| {
        file.violation(*line, format!("has `{word}` in this paragraph; name the actor, then say what it does"))
    });
    let figures = sums.figures().into_iter().zip(LIMITS).zip(["words a sentence", "% of sentences over 30 words"]);
    let beyond = figures.filter(|((figure, limit), _)| figure > limit && sums.words >= FEW_WORDS);
    let beyond = beyond.map(|((figure, limit), what)| {
        file.violation(1, format!("has {figure:.1} {what}, over {limit}; split its longest sentences"))
    });
    stumbles.chain(beyond).collect()
}

#[derive(Default)]
struct Sums {
    sentences: usize,
    words: usize,
    long: usize,
    /// The paragraph's first line, and the word.
    stumbles: Vec<(usize, String)>,
}

/// Comments without their signs. Each line of code becomes an empty line, which ends a paragraph.
fn comments(text: &str) -> String {
    let line = |line: &str| {
        let line = line.trim_start();
        let signs = ["///", "//!", "//", "/**", "/*", "*/", "*"];
        signs.iter().find_map(|sign| line.strip_prefix(sign)).unwrap_or_default().to_owned() + "\n"
    };
    text.lines().map(line).collect()
}

impl Sums {
    fn figures(&self) -> [f64; 2] {
        let sentences = self.sentences.max(1) as f64;
        [self.words as f64 / sentences, 100.0 * self.long as f64 / sentences]
    }

    fn add_file(&mut self, file: &File) {
        if file.has_extension(&SOURCES) { self.add(&comments(&file.text)) } else { self.add(&file.text) }
    }

    fn add(&mut self, text: &str) {
        let (mut block, mut first, mut is_code) = (String::new(), 0, false);
        for (number, line) in (1..).zip(text.lines().chain([""])) {
            let bare = line.trim_start();
            let is_fence = bare.starts_with("```");
            is_code ^= is_fence;
            let is_left_out = is_code || is_fence || bare.is_empty() || bare.starts_with(['#', '|', '>', '!', '<']);
            let is_item = ["* ", "- "].iter().any(|sign| bare.starts_with(sign))
                || bare.split_once(". ").is_some_and(|(number, _)| number.parse::<u32>().is_ok());
            if is_left_out || is_item || (block.is_empty() && line.starts_with("    ")) {
                self.paragraph(first, &std::mem::take(&mut block));
            }
            if block.is_empty() {
                first = number;
            }
            if !is_left_out {
                block += bare.strip_prefix("* ").or(bare.strip_prefix("- ")).unwrap_or(bare);
                block.push(' ');
            }
        }
    }

    fn paragraph(&mut self, first: usize, block: &str) {
        // Code within a line counts as one word.
        let text: String =
            block.split('`').enumerate().map(|(at, piece)| if at % 2 == 1 { "code" } else { piece }).collect();
        let ends = text.match_indices(['.', '!', '?']).map(|(at, _)| at + 1);
        let is_end = |at: &usize| {
            let rest = text[*at..].trim_start();
            rest.len() < text.len() - at && rest.starts_with(|first: char| first.is_ascii_uppercase() || first == '*')
        };
        let mut begin = 0;
        for end in ends.filter(is_end).chain([text.len()]).collect::<Vec<_>>() {
            self.sentence(first, text[begin..end].trim());
            begin = end;
        }
    }

    fn sentence(&mut self, first: usize, sentence: &str) {
        let pieces = sentence.split(|letter: char| !letter.is_ascii_alphabetic() && !"'-".contains(letter));
        let words: Vec<&str> =
            pieces.filter(|word| word.starts_with(|first: char| first.is_ascii_alphabetic())).collect();
        if words.len() < SHORTEST {
            return;
        }
        (self.sentences, self.words) = (self.sentences + 1, self.words + words.len());
        self.long += usize::from(words.len() > LONG);
        let nameless = words.iter().copied().filter(|word| STUMBLES.contains(&word.to_ascii_lowercase().as_str()));
        let along = words.windows(2).filter(|two| COMES.contains(&two[0]) && two[1] == "along").map(|two| two[0]);
        let clauses = sentence.split([':', ';', '.']).map(str::trim_start).filter(|clause| !clause.contains('?'));
        let heads =
            clauses.filter_map(|clause| HEADLESS.into_iter().find(|head| clause.starts_with(head))).map(str::trim);
        self.stumbles.extend(nameless.chain(along).chain(heads).map(|word| (first, word.to_owned())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(text: &str) -> [usize; 4] {
        let mut sums = Sums::default();
        sums.add(text);
        [sums.sentences, sums.words, sums.long, sums.stumbles.len()]
    }

    #[test]
    fn sentences_that_are_plain_have_no_stumbles() {
        assert_eq!(
            sums("# A title\n\nThe thread takes a lock. It calls `free(p)` then.\n\n| a | b c d |\n"),
            [2, 9, 0, 0]
        );
        assert_eq!(
            sums("```\nnobody runs this code\n```\n* The first item here\n* The second one here\n"),
            [2, 8, 0, 0]
        );
    }

    #[test]
    fn actors_without_a_name_are_stumbles() {
        assert_eq!(sums("Whoever comes along takes it. Who waits says who it is: What is there?")[3], 3);
        assert_eq!(sums("So he frees what nobody had: Those that wait go on.")[3], 3);
    }

    #[test]
    fn sentences_over_30_words_are_counted() {
        assert_eq!(sums(&format!("{}. {}.", ["Word"; 31].join(" "), ["Word"; 30].join(" "))), [2, 61, 1, 0]);
    }

    #[test]
    fn sources_have_prose_in_comments_alone() {
        assert_eq!(sums(&comments("//! It is here.\nfn who_is() {\n    // Nobody was here.\n}\n")), [2, 6, 0, 1]);
    }

    #[test]
    fn documents_that_are_not_plain_are_found_by_their_lines() {
        let long = format!("# Title\n\n{}.\n", ["word"; 120].join(" "));
        let tree = Tree::of([
            ("docs/a.md", "# Who\n\nA thread\nwaits for nobody.\n"),
            ("README.md", &long),
            ("runtime/src/a.rs", "//! Plain words.\n\n// Whoever waits, waits.\n"),
            ("lab/src/a.rs", "// Whoever waits, waits.\n"),
        ]);
        let found: Vec<String> = check(&tree).iter().map(Violation::to_string).collect();
        assert!(found[0].starts_with("docs/a.md:3: has `nobody`"), "{found:?}");
        assert!(found[1].starts_with("README.md:1: has 120.0 words"), "{found:?}");
        assert!(found[2].starts_with("README.md:1: has 100.0 %"), "{found:?}");
        assert!(found[3].starts_with("runtime/src/a.rs:3: has `Whoever`") && found.len() == 4, "{found:?}");
    }
}
