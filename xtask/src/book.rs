//! The book: built and tested by mdBook, of the one version that is named here.
//!
//! It is taken from the search path if it is that version, and else installed below `target/tools`, so that a machine with nothing but Rust can build the book.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The version by which the book is checked.
const VERSION: &str = "0.5.4";

/// Builds the book into `target/book`, and compiles and runs its examples in Rust.
pub fn run(root: &Path) -> Result<(), String> {
    let mdbook = mdbook(root)?;
    for task in ["build", "test"] {
        let status = Command::new(&mdbook).args([task, "docs"]).current_dir(root).status();
        let status = status.map_err(|error| format!("{} cannot be started: {error}", mdbook.display()))?;
        if !status.success() {
            return Err(format!("mdbook {task} docs ended with {status}"));
        }
    }
    println!("book: target/book/index.html");
    Ok(())
}

/// mdBook of this version; it is installed if there is none.
fn mdbook(root: &Path) -> Result<PathBuf, String> {
    let tools = root.join("target/tools");
    let own = tools.join("bin/mdbook");
    if let Some(found) = [PathBuf::from("mdbook"), own.clone()].into_iter().find(|mdbook| is_it(mdbook)) {
        return Ok(found);
    }
    // Without a server and without looking for changes, which take twice as long to build.
    let status = Command::new(env!("CARGO"))
        .args([
            "install",
            "mdbook",
            "--locked",
            "--no-default-features",
            "--features",
            "search",
            "--version",
            VERSION,
            "--root",
        ])
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
