//! Packs: the figures of machines that people sent, in `docs/packs`, held against their schema and shown as a page.

mod page;

use std::fs;
use std::path::Path;

use serde_json::Value;

use self::page::{SCHEMA, Schema};
use crate::reference;

const FOLDER: &str = "docs/packs";
const PAGE: &str = "docs/packs.md";

/// Reads the packs, and compares the page with the committed one or writes it.
pub fn run(root: &Path, bless: bool) -> Result<(), String> {
    let folder = root.join(FOLDER);
    let entries = fs::read_dir(&folder).map_err(|error| format!("{FOLDER}: {error}"))?;
    let mut names: Vec<_> = entries.flatten().map(|entry| entry.path()).filter(|path| is_json(path)).collect();
    names.sort();
    let schema = Schema::of(read(&root.join(SCHEMA))?)?;
    let mut packs = Vec::new();
    for path in &names {
        let pack = read(path)?;
        schema.check(&pack).map_err(|why| format!("{}: {why}", path.display()))?;
        packs.push(pack);
    }
    reference::settle(root, PAGE, &page::of(&packs), bless, "packs")?;
    println!("packs: {PAGE} has {} machines", packs.len());
    Ok(())
}

fn is_json(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "json")
}

fn read(path: &Path) -> Result<Value, String> {
    let text = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    serde_json::from_slice(&text).map_err(|error| format!("{} is not JSON: {error}", path.display()))
}

#[cfg(test)]
fn schema() -> Schema {
    read(&crate::root().join(SCHEMA)).and_then(Schema::of).unwrap()
}
