//! How plain prose is: words a sentence, sentences over 30 words, and constructions that readers stumble on, mostly agents without a name.
//!
//! Of Markdown it is all text but code, tables and headings; of sources, the comments.

use std::fs;

use anyhow::{Context, Result, ensure};

const LONG: usize = 30;
/// With fewer words it is a label.
const SHORTEST: usize = 3;
/// Each of them wherever it stands.
const STUMBLES: [&str; 9] = ["whoever", "whom", "nobody", "somebody", "anybody", "whatever", "he", "his", "him"];
/// Before the word "along".
const COMES: [&str; 3] = ["come", "comes", "came"];
/// At the beginning of a clause that is no question.
const HEADLESS: [&str; 8] = ["Who ", "What ", "Where ", "Which ", "Whose ", "Those ", "One that ", "None of "];
const SOURCES: [&str; 4] = [".rs", ".c", ".h", ".cc"];

#[derive(Default)]
struct Sums {
    sentences: usize,
    words: usize,
    long: usize,
    stumbles: usize,
}

/// Of all files together.
pub fn figures(files: &[&str]) -> Result<Vec<f64>> {
    let mut sums = Sums::default();
    for file in files {
        let text = fs::read_to_string(file).with_context(|| format!("cannot read {file}"))?;
        sums.add(&if SOURCES.iter().any(|end| file.ends_with(end)) { comments(&text) } else { text });
    }
    ensure!(sums.sentences > 0, "there is no sentence in {files:?}");
    let of = |part: usize, whole: usize| part as f64 / whole as f64;
    Ok(vec![
        of(sums.words, sums.sentences),
        100.0 * of(sums.long, sums.sentences),
        100.0 * of(sums.stumbles, sums.words),
    ])
}

/// Comments without their signs; code between two of them parts paragraphs.
fn comments(text: &str) -> String {
    let line = |line: &str| {
        let line = line.trim_start();
        let signs = ["///", "//!", "//", "/**", "/*", "*/", "*"];
        signs.iter().find_map(|sign| line.strip_prefix(sign)).unwrap_or_default().to_owned() + "\n"
    };
    text.lines().map(line).collect()
}

impl Sums {
    fn add(&mut self, text: &str) {
        let (mut block, mut is_code) = (String::new(), false);
        for line in text.lines().chain([""]) {
            let bare = line.trim_start();
            let is_fence = bare.starts_with("```");
            is_code ^= is_fence;
            let is_left_out = is_code || is_fence || bare.is_empty() || bare.starts_with(['#', '|', '>', '!', '<']);
            let is_item = ["* ", "- "].iter().any(|sign| bare.starts_with(sign))
                || bare.split_once(". ").is_some_and(|(number, _)| number.parse::<u32>().is_ok());
            if is_left_out || is_item || (block.is_empty() && line.starts_with("    ")) {
                self.paragraph(&std::mem::take(&mut block));
            }
            if !is_left_out {
                block += bare.strip_prefix("* ").or(bare.strip_prefix("- ")).unwrap_or(bare);
                block.push(' ');
            }
        }
    }

    fn paragraph(&mut self, block: &str) {
        // Code within a line is a word, whatever it holds.
        let text: String =
            block.split('`').enumerate().map(|(at, piece)| if at % 2 == 1 { "code" } else { piece }).collect();
        let ends = text.match_indices(['.', '!', '?']).map(|(at, _)| at + 1);
        let is_end = |at: &usize| {
            let rest = text[*at..].trim_start();
            rest.len() < text.len() - at && rest.starts_with(|first: char| first.is_ascii_uppercase() || first == '*')
        };
        let mut begin = 0;
        for end in ends.filter(is_end).chain([text.len()]).collect::<Vec<_>>() {
            self.sentence(text[begin..end].trim());
            begin = end;
        }
    }

    fn sentence(&mut self, sentence: &str) {
        let pieces = sentence.split(|letter: char| !letter.is_ascii_alphabetic() && !"'-".contains(letter));
        let words: Vec<&str> =
            pieces.filter(|word| word.starts_with(|first: char| first.is_ascii_alphabetic())).collect();
        if words.len() < SHORTEST {
            return;
        }
        (self.sentences, self.words) = (self.sentences + 1, self.words + words.len());
        self.long += usize::from(words.len() > LONG);
        let is_stumble = |word: &&&str| STUMBLES.contains(&word.to_ascii_lowercase().as_str());
        self.stumbles += words.iter().filter(is_stumble).count();
        self.stumbles += words.windows(2).filter(|two| COMES.contains(&two[0]) && two[1] == "along").count();
        let clauses = sentence.split([':', ';', '.']).map(str::trim_start);
        let is_headless = |clause: &&str| !clause.contains('?') && HEADLESS.iter().any(|head| clause.starts_with(head));
        self.stumbles += clauses.filter(is_headless).count();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(text: &str) -> [usize; 4] {
        let mut sums = Sums::default();
        sums.add(text);
        [sums.sentences, sums.words, sums.long, sums.stumbles]
    }

    #[test]
    fn plain_sentences_have_no_stumbles() {
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
    fn agents_without_a_name_are_stumbles() {
        assert_eq!(sums("Whoever comes along takes it. Who waits says who it is: What is there?")[3], 3);
        assert_eq!(sums("So he frees what nobody had: Those that wait go on.")[3], 3);
    }

    #[test]
    fn long_sentences_are_counted() {
        assert_eq!(sums(&format!("{}. {}.", ["Word"; 31].join(" "), ["Word"; 30].join(" "))), [2, 61, 1, 0]);
    }

    #[test]
    fn sources_have_prose_in_comments_alone() {
        assert_eq!(sums(&comments("//! It is here.\nfn who_is() {\n    // Nobody was here.\n}\n")), [2, 6, 0, 1]);
    }
}
