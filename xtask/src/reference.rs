//! The book's reference: settings, statistics and commands, as the command says them by the tables that the library itself works with.
//!
//! The pages are committed, so that reading them needs no tool, and held against what would be made now. So are the short
//! table of settings in README.md, and the C header. Blessing also writes the pages' copies of files anew.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::library;
use crate::tidy::book;

const CONF: &str = "docs/reference/conf.md";
const STATISTICS: &str = "docs/reference/statistics.md";
const COMMANDS: &str = "docs/reference/commands.md";
const README: &str = "README.md";

const STATISTICS_OPENING: &str = "\
# Statistics

<!-- Made of the table of figures, runtime/src/observe/figures.rs, by `cargo xtask reference --bless`, which overwrites changes. -->

";

/// Makes the pages, and compares them with the committed ones or writes them.
pub fn run(root: &Path, bless: bool) -> Result<(), String> {
    if bless {
        book::refresh(root)?;
    }
    let settled = |file: &str, text: &str| settle(root, file, text, bless, "reference");
    let command = library::command(root)?;
    let conf = said(&command, &["conf", "--markdown"])?;
    settled(CONF, &conf)?;
    let readme = fs::read_to_string(root.join(README)).map_err(|error| format!("{README}: {error}"))?;
    settled(README, &with_rows(&readme, &conf))?;
    settled(STATISTICS, &(STATISTICS_OPENING.to_owned() + &said(&command, &["stat", "--reference"])?))?;
    settled(COMMANDS, &said(&command, &["man", "--markdown"])?)?;
    println!("reference: docs/reference/ is what the code says");
    Ok(())
}

/// What the command prints.
fn said(command: &Path, words: &[&str]) -> Result<String, String> {
    let answer = Command::new(command).args(words).output();
    let answer = answer.map_err(|error| format!("{} cannot be started: {error}", command.display()))?;
    if !answer.status.success() {
        return Err(format!("commensal {} ended with {}", words.join(" "), answer.status));
    }
    String::from_utf8(answer.stdout).map_err(|error| error.to_string())
}

/// A text whose table rows of settings are those of the page.
fn with_rows(text: &str, page: &str) -> String {
    let key =
        |line: &str| line.strip_prefix("| `").and_then(|rest| rest.split_once("` |")).map(|(key, _)| key.to_owned());
    let row = |line: &str| page.lines().find(|row| key(line).is_some() && key(row) == key(line)).map(str::to_owned);
    text.lines().map(|line| row(line).unwrap_or_else(|| line.to_owned()) + "\n").collect()
}

/// Compares a committed file with its text of now, or, blessed, writes it before. `task` is the one of xtask that does this.
pub fn settle(root: &Path, file: &str, generated: &str, bless: bool, task: &str) -> Result<(), String> {
    let path = root.join(file);
    if bless {
        let written = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&path, generated));
        written.map_err(|error| format!("{file} cannot be written: {error}"))?;
    }
    let committed = fs::read_to_string(&path)
        .map_err(|error| format!("{file} cannot be read: {error}; to write it: cargo xtask {task} --bless"))?;
    compare(file, &committed, generated, task)
}

/// An error that names the first line that differs.
pub fn compare(file: &str, committed: &str, generated: &str, task: &str) -> Result<(), String> {
    if committed == generated {
        return Ok(());
    }
    let same =
        committed.lines().zip(generated.lines()).take_while(|(committed, generated)| committed == generated).count();
    let [found, expected] = [committed, generated].map(|text| text.lines().nth(same).unwrap_or("the end of the file"));
    let line = same + 1;
    Err(format!("{file}:{line}: found {found:?}, expected {expected:?}; to accept that: cargo xtask {task} --bless"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_of_a_setting_is_that_of_the_page() {
        let page = "| key |\n|---|\n| `keep` | 2 |\n";
        let text = "# A\n| `keep` | 1 |\n| `stop` | 1 |\n| keep |\n";
        assert_eq!(with_rows(text, page), "# A\n| `keep` | 2 |\n| `stop` | 1 |\n| keep |\n");
    }

    #[test]
    fn file_that_differs_is_found_with_the_line() {
        let text = "int a(void);\nint b(void);\n";
        assert!(compare("x.h", text, text, "header").is_ok());
        let said = compare("x.h", "int a(void);\nint c(void);\n", text, "header").unwrap_err();
        assert!(said.contains("x.h:2: found \"int c(void);\", expected \"int b(void);\""), "{said}");
        assert!(said.ends_with("cargo xtask header --bless"), "{said}");
        let shorter = compare("x.h", "int a(void);\n", text, "header").unwrap_err();
        assert!(shorter.contains("found \"the end of the file\""), "{shorter}");
    }
}
