//! What the project demands of its texts and no compiler checks.
//!
//! A check is a function from the tree to violations. Each has its own file, with a test that plants a violation.

mod book;
mod citations;
mod finished;
mod machine_paths;
mod manifests;
mod module_order;
mod portable;
mod size;

use std::path::Path;

use crate::simulated_manifests;
use crate::tree::{Tree, Violation};

type Check = fn(&Tree) -> Vec<Violation>;

const CHECKS: [(&str, Check); 10] = [
    ("module order", module_order::check),
    ("no Linux in the runtime", portable::check),
    ("files open with their purpose", size::check_opening),
    ("file length", size::check_length),
    ("nothing is switched off", finished::check),
    ("dependencies are explained", manifests::check),
    ("cited names exist", citations::check),
    ("the book holds together", book::check),
    ("no paths of one machine", machine_paths::check),
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
