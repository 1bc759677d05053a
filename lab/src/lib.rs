//! Honest measurement: programs side by side under several allocators, what may be said about them, and how it is shown.
//!
//! From below: `process` runs one program, `parameters` say which, `arm` says what differs, `blocks` orders the runs, `finding` watches what they do,
//! the package `statistics` knows the rules, `analysis` applies them, and `table`, `report`, `json` and `spreadsheet` show what came out. `experiment` is the
//! frame of the lab's experiments. `profile` says what takes how long on simulated machines,
//! and `forecast` what follows from that. `suite` and `servers` have what allocators are compared by. `answers` has simulated runs made.

pub mod analysis;
pub mod answers;
pub mod arm;
pub mod blocks;
#[cfg(test)]
mod example;
pub mod experiment;
pub mod finding;
pub mod forecast;
pub mod json;
pub mod machine;
pub mod metric;
pub mod parameters;
pub mod process;
pub mod profile;
mod progress;
pub mod report;
pub mod servers;
pub mod sheet;
pub mod spreadsheet;
pub mod suite;
pub mod table;

/// The commit that this was built from, with a plus if the tree had changes then; empty if it was built without git.
pub const BUILT_FROM: &str = env!("LAB_COMMIT");

/// [`BUILT_FROM`], or "unknown"; with a plus if the tree had changes of its own when it was built, or has some now, which
/// may be in what is measured.
pub fn commit() -> String {
    let built = if BUILT_FROM.is_empty() { "unknown" } else { BUILT_FROM };
    // Beside what cargo builds; a command that was installed has no tree.
    let command = std::env::current_exe().unwrap_or_default();
    let tree = command.ancestors().find(|folder| folder.join("lab/starter").is_dir());
    let status = tree.map(|tree| {
        let mut git = std::process::Command::new("git");
        git.arg("-C").arg(tree).args(["status", "--porcelain", "--untracked-files=no"]).output()
    });
    let has_changes = matches!(status, Some(Ok(status)) if status.status.success() && !status.stdout.is_empty());
    if has_changes && !built.ends_with('+') { format!("{built}+") } else { built.to_owned() }
}

/// A seed for those who name none; small enough to be typed again.
pub fn any_seed() -> u64 {
    fastrand::u64(1..1_000_000)
}
