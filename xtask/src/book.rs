//! The book: built and tested by mdBook, of the one version that is named here.
//!
//! It is taken from the search path if it is that version, and else installed below `target/tools`, so that a machine with nothing but Rust can build the book.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The version by which the book is checked.
const VERSION: &str = "0.5.4";

/// Builds the book into `target/book`, and compiles and runs its examples in Rust.
pub fn run(root: &Path) -> Result<(), String> {
    let mdbook = mdbook(root)?;
    for task in ["build", "test"] {
        let answer = Command::new(&mdbook).args([task, "docs"]).current_dir(root).stdout(Stdio::inherit()).output();
        let answer = answer.map_err(|error| format!("{} cannot be started: {error}", mdbook.display()))?;
        let said = String::from_utf8_lossy(&answer.stderr);
        eprint!("{said}");
        if !answer.status.success() {
            return Err(format!("mdbook {task} docs ended with {}", answer.status));
        }
        if let Some(line) = complaint(&said) {
            return Err(format!("mdbook {task} docs is not content: {line}"));
        }
    }
    println!("book: target/book/index.html");
    Ok(())
}

/// The first line that warns: mdBook ends with success in spite of warnings.
fn complaint(said: &str) -> Option<&str> {
    said.lines().map(str::trim).find(|line| line.starts_with("ERROR") || line.starts_with("WARN"))
}

/// mdBook of this version; it is installed if there is none.
fn mdbook(root: &Path) -> Result<PathBuf, String> {
    let tools = root.join("target/tools");
    let own = tools.join("bin/mdbook");
    if let Some(found) = [PathBuf::from("mdbook"), own.clone()].into_iter().find(|mdbook| is_it(mdbook)) {
        return Ok(found);
    }
    // Without what serves and watches, not optimised, and without debug information: 90 seconds of one CPU in place of 220. The book is small.
    let status = Command::new(env!("CARGO"))
        .args(["install", "mdbook", "--locked", "--debug", "--no-default-features", "--features", "search"])
        .args(["--version", VERSION, "--root"])
        .env("CARGO_PROFILE_DEV_DEBUG", "false")
        .arg(&tools)
        .current_dir(root)
        .status()
        .map_err(|error| format!("cargo cannot be started: {error}"))?;
    if status.success() { Ok(own) } else { Err(format!("cargo install mdbook ended with {status}")) }
}

fn is_it(mdbook: &Path) -> bool {
    let answer = Command::new(mdbook).arg("--version").output();
    answer.is_ok_and(|answer| String::from_utf8_lossy(&answer.stdout).trim() == format!("mdbook v{VERSION}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_found_and_news_are_not() {
        let built = " INFO Book building has started\n INFO HTML book written to `target/book`\n";
        assert_eq!(complaint(built), None);
        let broken = format!("{built} WARN unclosed HTML tag `<p>` found in `a.md`\n");
        assert_eq!(complaint(&broken), Some("WARN unclosed HTML tag `<p>` found in `a.md`"));
    }
}
