//! The steps of CI, in order, with the time that each takes; the first that fails ends the run.
//!
//! `.ci/run` installs what Debian offers and then comes here, so that CI and a developer run the same list. What takes longer than CI may is in `nightly`.

use std::path::Path;
use std::process::{Child, Command};
use std::time::Instant;

use crate::library::{self, ended_well, succeeds};
use crate::mutants::{self, Choice};
use crate::torture::{self, Build};
use crate::{abi, book, charts, fuzz, golden, header, misuse, packs, portable, proof, reference, tidy};

/// Of the list of mutations, others at each commit.
const MUTANTS: usize = 3;
const MINUTES_OF_EXPLORATION: f64 = 2.0;
const MINUTES_OF_TORTURE: f64 = 1.0;

/// A step, which may wait for the release that is built beside the first ones.
type Step = fn(&Path, &mut Release) -> Result<(), String>;

const STEPS: [(&str, Step); 14] = [
    ("fmt", |root, _| fmt(root)),
    ("clippy", |root, _| clippy(root)),
    ("rustdoc", |root, _| document(root)),
    ("tidy", |root, _| tidy::run(root).and_then(|()| fuzz::check_lock(&root.join("fuzz")))),
    ("build", |root, release| release.wait().and_then(|()| library::check_size(root))),
    ("golden", |root, _| golden::run(root, false)),
    ("header", |root, _| header::run(root, false)),
    ("abi", |root, _| abi::run(root, false)),
    ("docs", |root, _| {
        packs::run(root, false)?;
        proof::show(root, false)?;
        reference::run(root, false).and_then(|()| charts::run(root, false, false)).and_then(|()| book::run(root))
    }),
    ("misuse", |root, _| misuse::check(root)),
    // The README's command.
    ("test", |root, _| cargo(root, &["test", "--workspace"])),
    ("portable", |root, _| portable::test(root)),
    ("torture", |root, _| torture::run(root, MINUTES_OF_TORTURE, Build::OfTests)),
    ("explore", |root, _| mutants::run_beside_exploring(root, &Choice::Rotating(MUTANTS), MINUTES_OF_EXPLORATION)),
];

pub fn run(root: &Path) -> Result<(), String> {
    let mut release = Release::start(root)?;
    run_steps(&STEPS, |step| step(root, &mut release))
}

/// Runs each until one fails.
pub fn run_steps<S>(steps: &[(&'static str, S)], mut run: impl FnMut(&S) -> Result<(), String>) -> Result<(), String> {
    let mut times = Vec::new();
    let start_of_all = Instant::now();
    let outcome = steps.iter().try_for_each(|(name, step)| {
        println!("\n=== {name}");
        let start = Instant::now();
        let outcome = run(step);
        times.push((name, start.elapsed()));
        outcome.map_err(|why| format!("step {name}: {why}"))
    });
    println!("\n=== times");
    for (name, time) in &times {
        println!("{name:9} {:6.1} s", time.as_secs_f64());
    }
    println!("{:9} {:6.1} s", "total", start_of_all.elapsed().as_secs_f64());
    outcome
}

/// Most of a release is made by one thread at the end, so it is made beside the first steps, in a directory that these do not lock.
struct Release(Child);

impl Release {
    const COMMAND: &str = "cargo build --release --quiet";

    fn start(root: &Path) -> Result<Self, String> {
        let mut command = Command::new(env!("CARGO"));
        let child = command.args(Self::COMMAND.split(' ').skip(1)).current_dir(root).spawn();
        child.map(Self).map_err(|error| format!("{} cannot be started: {error}", Self::COMMAND))
    }

    fn wait(&mut self) -> Result<(), String> {
        ended_well(Self::COMMAND, self.0.wait())
    }
}

impl Drop for Release {
    /// Where a step before it failed, nobody waits for it.
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub fn cargo(root: &Path, args: &[&str]) -> Result<(), String> {
    succeeds(Command::new(env!("CARGO")).args(args).current_dir(root))
}

/// The example that has dependencies of its own is compiled nowhere else.
fn clippy(root: &Path) -> Result<(), String> {
    cargo(root, &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])?;
    let example = ["--locked", "--manifest-path=examples/server/Cargo.toml", "--target-dir=target/examples"];
    cargo(root, &[&["clippy"], &example[..], &["--", "-D", "warnings"]].concat())
}

/// Links in comments lead somewhere. The lints in the published crates deny items without a comment, errors and panics.
fn document(root: &Path) -> Result<(), String> {
    let mut doc = Command::new(env!("CARGO"));
    doc.args(["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings").current_dir(root);
    succeeds(&mut doc)
}

/// What build scripts compile is no package, and examples are one on their own: Cargo does not see them.
fn fmt(root: &Path) -> Result<(), String> {
    cargo(root, &["fmt", "--all", "--check"])?;
    let apart =
        ["lab/starter/main.rs", "lab/empty/lib.rs", "examples/greeter/src/main.rs", "examples/server/src/main.rs"];
    succeeds(Command::new("rustfmt").args(["--check", "--edition", "2024"]).args(apart).current_dir(root))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn failed_step_ends_the_run_with_its_name() {
        let done = RefCell::new(Vec::new());
        let steps = [("one", "true"), ("two", "exit 3"), ("three", "true")];
        let outcome = run_steps(&steps, |script| {
            done.borrow_mut().push(*script);
            succeeds(Command::new("sh").args(["-c", script]))
        });
        let why = outcome.unwrap_err();
        assert!(why.starts_with("step two: ") && why.ends_with("exit status: 3"), "{why}");
        assert_eq!(*done.borrow(), ["true", "exit 3"]);
        assert!(succeeds(&mut Command::new("/no/such/program")).unwrap_err().contains("cannot be run"));
    }
}
