//! The book's reference: settings and statistics, as the command says them by the tables that the library itself works with.
//!
//! The pages are committed, and held against what would be made now; and so is the short table of settings in README.md.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::{committed, library};

const CONF: &str = "docs/reference/conf.md";
const STATISTICS: &str = "docs/reference/statistics.md";
const README: &str = "README.md";

const STATISTICS_OPENING: &str = "\
# Statistics

<!-- Made of the table of figures, runtime/src/observe/figures.rs, by `cargo xtask reference --bless`, which overwrites changes. -->

";

/// Makes the pages, and compares them with the committed ones or writes them.
pub fn run(root: &Path, bless: bool) -> Result<(), String> {
    let settle = |file: &str, text: &str| committed::settle(root, file, text, bless, "reference");
    let command = library::command(root)?;
    let conf = said(&command, &["conf", "--markdown"])?;
    settle(CONF, &conf)?;
    let readme = fs::read_to_string(root.join(README)).map_err(|error| format!("{README}: {error}"))?;
    settle(README, &with_rows(&readme, &conf))?;
    settle(STATISTICS, &(STATISTICS_OPENING.to_owned() + &said(&command, &["stat", "--reference"])?))?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_of_a_setting_is_that_of_the_page() {
        let page = "| key |\n|---|\n| `keep` | 2 |\n";
        let text = "# A\n| `keep` | 1 |\n| `stop` | 1 |\n| keep |\n";
        assert_eq!(with_rows(text, page), "# A\n| `keep` | 2 |\n| `stop` | 1 |\n| keep |\n");
    }
}
