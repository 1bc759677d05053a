//! Does exploring find bugs? Each mutation of the list is made in a copy of the tree, built, and explored until it is found.
//!
//! The copy without mutations is explored first: there nothing may be found.

mod counters;
mod list;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use list::Mutant;

use crate::copy;

/// What a protocol may take to find a mutation, and what it goes on without one.
const SECONDS: &str = "180";
const SECONDS_WITHOUT: &str = "5";
/// Always the same, so that the same is found in the same runs.
const SEED: &str = "1";

/// All mutations.
fn mutants() -> impl Iterator<Item = &'static Mutant> {
    list::MUTANTS.iter().chain(counters::MUTANTS)
}

/// Explores every mutation, or those whose description has `only` in it.
pub fn run(root: &Path, only: Option<&str>) -> Result<(), String> {
    let chosen: Vec<&Mutant> = mutants().filter(|mutant| only.is_none_or(|only| mutant.what.contains(only))).collect();
    if chosen.is_empty() {
        return Err(format!("found no mutation with '{}'; the lists are in xtask/src/mutants", only.unwrap_or("")));
    }
    let copy = Copy::of(root)?;
    let start = Instant::now();
    println!("without a mutation:");
    let mut protocols: Vec<&str> = chosen.iter().flat_map(|mutant| mutant.protocols).copied().collect();
    protocols.sort_unstable();
    protocols.dedup();
    copy.build()?;
    for protocol in protocols {
        let explored = copy.explore(protocol, SECONDS_WITHOUT)?;
        if !explored.status.success() {
            return Err(format!("found without a mutation:\n{}", text(&explored)));
        }
        println!("  {}", text(&explored).trim());
    }
    let mut missed = 0;
    for (number, mutant) in chosen.iter().enumerate() {
        let begun = Instant::now();
        let found = copy.mutated(mutant, || mutant.protocols.iter().find_map(|protocol| copy.find(protocol)))?;
        let time = begun.elapsed().as_secs_f64();
        let left = left(start, number + 1, chosen.len());
        match found {
            Some(how) => println!(
                "{:2}/{} found in {time:.0} s: {}\n      {how} ({left})",
                number + 1,
                chosen.len(),
                mutant.what
            ),
            None => {
                missed += 1;
                println!("{:2}/{} MISSED in {time:.0} s: {} ({left})", number + 1, chosen.len(), mutant.what);
            }
        }
    }
    println!("{} of {} mutations found", chosen.len() - missed, chosen.len());
    if missed == 0 { Ok(()) } else { Err(format!("{missed} mutations were missed")) }
}

/// Explores all protocols of this tree for so long.
pub fn explore(root: &Path, minutes: f64, seed: Option<u64>) -> Result<(), String> {
    let mut command = Command::new(env!("CARGO"));
    command.args(["run", "--quiet", "--release", "--package", "commensal-exploration", "--", "run", "--seconds"]);
    command.arg((minutes * 60.0).to_string()).current_dir(root);
    if let Some(seed) = seed {
        command.args(["--seed", &seed.to_string()]);
    }
    let status = command.status().map_err(|error| format!("cargo cannot be started: {error}"))?;
    if status.success() { Ok(()) } else { Err("exploring found something; the lines above replay it".into()) }
}

fn left(start: Instant, done: usize, all: usize) -> String {
    let left: Duration = start.elapsed() / done as u32 * (all - done) as u32;
    format!("about {} min left", left.as_secs().div_ceil(60))
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// A copy of the tree, and where it is built.
struct Copy {
    tree: PathBuf,
    target: PathBuf,
}

impl Copy {
    fn of(root: &Path) -> Result<Self, String> {
        let place = root.join("target/mutants");
        let copy = Copy { tree: place.join("tree"), target: place.join("target") };
        copy::tree(root, &copy.tree)?;
        Ok(copy)
    }

    /// Does `work` while the mutation is in the copy.
    fn mutated<R>(&self, mutant: &Mutant, work: impl FnOnce() -> R) -> Result<R, String> {
        let path = self.tree.join(mutant.file);
        let source = fs::read_to_string(&path).map_err(|error| format!("{} cannot be read: {error}", mutant.file))?;
        let mutated = mutate(mutant, &source)?;
        let write =
            |text: &str| fs::write(&path, text).map_err(|error| format!("{} cannot be written: {error}", mutant.file));
        write(&mutated)?;
        let built = self.build();
        let result = built.map(|()| work());
        write(&source)?;
        result.map_err(|why| format!("'{}' cannot be built: {why}", mutant.what))
    }

    fn build(&self) -> Result<(), String> {
        let mut command = Command::new(env!("CARGO"));
        command.args(["build", "--quiet", "--release", "--package", "commensal-exploration", "--target-dir"]);
        command.arg(&self.target).current_dir(&self.tree).env("RUSTFLAGS", "-Awarnings");
        // Quickly built is quick enough.
        command.envs([("CARGO_PROFILE_RELEASE_LTO", "off"), ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")]);
        let output = command.output().map_err(|error| format!("cargo cannot be started: {error}"))?;
        if output.status.success() { Ok(()) } else { Err(text(&output)) }
    }

    fn explore(&self, protocol: &str, seconds: &str) -> Result<Output, String> {
        let program = self.target.join("release/commensal-explore");
        let mut command = Command::new(&program);
        command.args(["run", protocol, "--seconds", seconds, "--seed", SEED]);
        command.output().map_err(|error| format!("{} cannot be started: {error}", program.display()))
    }

    /// How a protocol found something, in one line; none if it did not.
    fn find(&self, protocol: &str) -> Option<String> {
        let explored = self.explore(protocol, SECONDS).ok().filter(|output| output.status.code() == Some(1))?;
        let text = text(&explored);
        let mut lines = text.lines();
        let what = lines.next()?.to_owned();
        // What a process that died said comes next.
        let more = lines.clone().find(|line| line.starts_with("panicked") || line.starts_with("commensal")).is_some();
        let why = if more { text.lines().nth(2).map(|line| format!(" {line}")) } else { None };
        let run = lines.find(|line| line.starts_with("found in run"))?;
        Some(format!("{what}{}; {}", why.unwrap_or_default(), run.trim_end_matches(':')))
    }
}

/// The file with the mutation.
fn mutate(mutant: &Mutant, source: &str) -> Result<String, String> {
    match source.matches(mutant.from).count() {
        1 => Ok(source.replace(mutant.from, mutant.to)),
        count => Err(format!("'{}' stands {count} times in {}; expected once", mutant.from, mutant.file)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The list is of use only as long as it fits the sources.
    #[test]
    fn each_mutation_has_its_place_in_the_sources() {
        for mutant in mutants() {
            let source = fs::read_to_string(crate::root().join(mutant.file)).unwrap();
            let mutated = mutate(mutant, &source).unwrap();
            assert_ne!(mutated, source, "{}", mutant.what);
        }
        assert!(mutants().count() >= 10);
    }

    #[test]
    fn what_stands_twice_is_refused() {
        let mutant = Mutant { what: "", file: "", from: "a", to: "b", protocols: &[] };
        assert!(mutate(&mutant, "a a").is_err() && mutate(&mutant, "").is_err());
        assert_eq!(mutate(&mutant, "xax").unwrap(), "xbx");
    }
}
