//! The steps of CI, in order, with the time that each takes; the first that fails ends the run.
//!
//! `.ci/run` installs what Debian offers and then comes here, so that CI and a developer run the same list.

use std::io;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::Instant;

use crate::{alone, book, golden, header, reference, tidy};

type Step = fn(&Path, &mut Child) -> Result<(), String>;

const STEPS: [(&str, Step); 11] = [
    ("fmt", |root, _| fmt(root)),
    ("clippy", |root, _| cargo(root, &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])),
    ("tidy", |root, _| tidy::run(root)),
    ("build", |_, build| ended_well(BUILD, build.wait())),
    ("golden", |root, _| golden::run(root, false)),
    ("header", |root, _| header::run(root, false)),
    ("reference", |root, _| reference::run(root, false)),
    ("book", |root, _| book::run(root)),
    ("alone", |root, _| alone::run(root)),
    ("test", |root, _| cargo(root, &["test", "--workspace"])),
    ("install", |root, _| install(root)),
];

const BUILD: &str = "cargo build --release --quiet";

/// Runs the steps and prints their times.
pub fn run(root: &Path) -> Result<(), String> {
    // Most of a release is made by one thread at the end, so it is made beside the first steps, in a directory that these do not lock.
    let mut build = Command::new(env!("CARGO"));
    let build = build.args(BUILD.split(' ').skip(1)).current_dir(root).spawn();
    let mut build = build.map_err(|error| format!("{BUILD} cannot be started: {error}"))?;
    let mut times = Vec::new();
    let start_of_all = Instant::now();
    let outcome = STEPS.iter().try_for_each(|(name, step)| {
        println!("\n=== {name}");
        let start = Instant::now();
        let outcome = step(root, &mut build);
        times.push((name, start.elapsed()));
        outcome.map_err(|why| format!("step {name}: {why}"))
    });
    println!("\n=== times");
    for (name, time) in &times {
        println!("{name:9} {:6.1} s", time.as_secs_f64());
    }
    println!("{:9} {:6.1} s", "total", start_of_all.elapsed().as_secs_f64());
    // Where a step before it failed, nobody waits for it.
    let _ = build.kill();
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
    let status = command.status();
    ended_well(&format!("{command:?}"), status)
}

fn ended_well(command: &str, status: io::Result<ExitStatus>) -> Result<(), String> {
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{command} ended with {status}")),
        Err(error) => Err(format!("{command} cannot be run: {error}")),
    }
}
