//! The book's reference: settings, statistics, commands and C functions, made of the code, so that it cannot say anything else than the code does.
//!
//! Each page is a function that reads sources or asks the release command. What a page says of a thing stands beside that thing in the source, as its
//! documentation; one without is an error. The pages are committed, and held against what would be made now.

mod c;
mod commands;
mod conf;
mod keys;
mod knobs;
mod source;
mod statistics;

use std::path::Path;

use crate::tree::Tree;
use crate::{committed, library};

/// The page of the commands, which the check of command lines reads.
pub const COMMANDS: &str = "docs/reference/commands.md";
/// The page of the settings, which the same check reads.
pub const CONF: &str = "docs/reference/conf.md";
const STATISTICS: &str = "docs/reference/statistics.md";
const C: &str = "docs/reference/c.md";

/// Makes the pages, and compares them with the committed ones or writes them.
pub fn run(root: &Path, bless: bool) -> Result<(), String> {
    let tree = Tree::read(root);
    let settle = |file: &str, text: String| committed::settle(root, file, &text, bless, "reference");
    // What sources alone tell comes first: the command takes minutes to build.
    settle(CONF, conf::page(&tree)?)?;
    settle(C, c::page(&tree)?)?;
    let command = library::command(root)?;
    settle(COMMANDS, commands::page(&command)?)?;
    settle(STATISTICS, statistics::page(&command)?)?;
    println!("reference: docs/reference/ is what the code says");
    Ok(())
}

/// What a page begins with.
fn opening(title: &str, sources: &str) -> String {
    format!("# {title}\n\n<!-- Made of {sources} by `cargo xtask reference --bless`, which overwrites changes. -->\n\n")
}
