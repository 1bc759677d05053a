//! What the project demands of its texts and no compiler checks.
//!
//! A check is a function from the tree to violations. Each has its own file, with a test that plants a violation.

pub mod book;
mod citations;
mod imports;
mod lines;
mod portable;
mod size;
pub mod tiers;

use std::path::Path;

use crate::tree::{Tree, Violation};
use crate::{prose, simulated_manifests};

type Check = fn(&Tree) -> Vec<Violation>;

const CHECKS: [(&str, Check); 12] = [
    ("tiers", tiers::check),
    ("no Linux in the runtime", portable::check),
    ("files open with their purpose", size::check_opening),
    ("file length", size::check_length),
    ("line width", size::check_width),
    ("nothing is switched off", lines::check_finished),
    ("dependencies are explained", lines::check_manifests),
    ("cited names exist", citations::check),
    ("the book holds together", book::check),
    ("prose is plain", prose::check),
    ("no paths of one machine", lines::check_paths),
    ("the simulated machine runs what is shipped", simulated_manifests::check),
];

/// Runs all checks on the tree at `root` and prints what they find.
pub fn run(root: &Path) -> Result<(), String> {
    let tree = Tree::read(root)?;
    let mut count = 0;
    for (name, check) in CHECKS {
        for violation in check(&tree) {
            println!("{violation} ({name})");
            count += 1;
        }
    }
    if count > 0 {
        return Err(format!("tidy found {count} violations; the lines above say where and what to do"));
    }
    println!("tidy: {} checks passed on {} files", CHECKS.len(), tree.files.len());
    Ok(())
}

/// Drops what is found in these places below a folder, which a table in the file `of` excuses for now. It must shrink:
/// a place where nothing is found is itself a violation.
fn excuse(tree: &Tree, found: Vec<Violation>, below: &str, places: &[&str], of: &str) -> Vec<Violation> {
    let is_in = |violation: &Violation, place: &str| {
        violation.path.strip_prefix(below).is_some_and(|path| path.starts_with(place))
    };
    let stale = places.iter().filter(|place| !found.iter().any(|violation| is_in(violation, place)));
    let stale: Vec<Violation> = stale
        .map(|place| {
            let text = tree.file(of).map_or("", |file| &file.text);
            let line = text.lines().position(|line| line.contains(&format!("\"{place}\""))).map_or(1, |line| line + 1);
            let what = format!("excuses {place}, where nothing is wrong any more; take it out of the table");
            Violation { path: of.to_owned(), line, what }
        })
        .collect();
    found.into_iter().filter(|violation| !places.iter().any(|place| is_in(violation, place))).chain(stale).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_that_a_table_excuses_are_dropped_as_long_as_something_is_wrong_there() {
        let tree = Tree::of([("table.rs", "const T: [&str; 2] =\n[\"a/\", \"b/\"];")]);
        let found =
            ["r/a/x.rs", "r/c/x.rs"].map(|path| Violation { path: path.to_owned(), line: 3, what: String::new() });
        let said: Vec<String> =
            excuse(&tree, found.into(), "r/", &["a/", "b/"], "table.rs").iter().map(Violation::to_string).collect();
        assert!(
            said.len() == 2 && said[0].starts_with("r/c/x.rs:3") && said[1].starts_with("table.rs:2: excuses b/"),
            "{said:?}"
        );
    }
}
