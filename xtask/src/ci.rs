//! The steps of CI, in order, with the time that each takes; the first that fails ends the run.
//!
//! `.ci/run` installs what Debian offers and then comes here, so that CI and a developer run the same list.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::{alone, book, golden, header, reference, tidy};

type Step = fn(&Path) -> Result<(), String>;

const STEPS: [(&str, Step); 11] = [
    ("fmt", fmt),
    ("clippy", |root| cargo(root, &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])),
    ("tidy", tidy::run),
    ("build", |root| cargo(root, &["build", "--release"])),
    ("golden", |root| golden::run(root, false)),
    ("header", |root| header::run(root, false)),
    ("reference", |root| reference::run(root, false)),
    ("book", book::run),
    ("alone", alone::run),
    ("test", |root| cargo(root, &["test", "--workspace"])),
    ("install", install),
];

/// Runs the steps and prints their times.
pub fn run(root: &Path) -> Result<(), String> {
    let mut times = Vec::new();
    let outcome = STEPS.iter().try_for_each(|(name, step)| {
        println!("\n=== {name}");
        let start = Instant::now();
        let outcome = step(root);
        times.push((name, start.elapsed()));
        outcome.map_err(|why| format!("step {name}: {why}"))
    });
    println!("\n=== times");
    for (name, time) in &times {
        println!("{name:9} {:6.1} s", time.as_secs_f64());
    }
    let total: Duration = times.iter().map(|(_, time)| *time).sum();
    println!("{:9} {:6.1} s", "total", total.as_secs_f64());
    outcome
}

fn cargo(root: &Path, args: &[&str]) -> Result<(), String> {
    succeeds(Command::new(env!("CARGO")).args(args).current_dir(root))
}

/// What build scripts compile is no package, and examples are one on their own: Cargo does not see them.
fn fmt(root: &Path) -> Result<(), String> {
    cargo(root, &["fmt", "--all", "--check"])?;
    let apart = ["lab/starter/main.rs", "lab/empty/lib.rs", "lab/words/lib.rs", "examples/rust/src/main.rs"];
    succeeds(Command::new("rustfmt").args(["--check", "--edition", "2024"]).args(apart).current_dir(root))
}

/// An installed command has no library beside it: it must bring its own.
fn install(root: &Path) -> Result<(), String> {
    let place = root.join("target/installed");
    let path = place.to_str().ok_or("the root's path is not UTF-8")?;
    cargo(root, &["install", "--quiet", "--force", "--locked", "--path", "cli", "--root", path])?;
    let mut command = Command::new(place.join("bin/commensal"));
    command.args(["run", "--", "grep", "-q", "/commensal/libcommensal-", "/proc/self/maps"]);
    let alone = |command: &mut Command| {
        succeeds(command.env_remove("COMMENSAL_LIBRARY").env("XDG_CACHE_HOME", place.join("cache")))
    };
    alone(&mut command)?;
    // And what starts programs, and the programs themselves.
    alone(Command::new(place.join("bin/commensal")).args(["compare", "--quick", "--blocks", "1", "--arm", "a="]))
}

fn succeeds(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|error| format!("{command:?} cannot be started: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} ended with {status}")) }
}
