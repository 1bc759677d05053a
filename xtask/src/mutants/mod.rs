//! Does exploring find bugs? Each mutation of the list is made in a copy of the tree, built, and explored until it is found.
//!
//! The copy without mutations is explored first: there nothing may be found. [`explore`] explores it for longer.

mod counters;
mod list;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use list::Mutant;

use crate::tree;

/// What a protocol may take to find a mutation, and what it goes on without one.
const SECONDS: &str = "180";
const SECONDS_WITHOUT: &str = "5";
/// Always the same, so that the same is found in the same runs.
const SEED: &str = "1";

fn mutants() -> impl Iterator<Item = &'static Mutant> {
    list::MUTANTS.iter().chain(counters::MUTANTS)
}

/// Which of them.
pub enum Choice<'a> {
    All,
    /// Those whose description has this in it.
    Named(&'a str),
    /// So many, others at each commit.
    Rotating(usize),
}

impl Choice<'_> {
    fn mutants(&self, root: &Path) -> Result<Vec<&'static Mutant>, String> {
        let all: Vec<&Mutant> = mutants().collect();
        let chosen: Vec<&Mutant> = match self {
            Choice::All => all,
            Choice::Named(words) => all.into_iter().filter(|mutant| mutant.what.contains(words)).collect(),
            Choice::Rotating(count) => rotated(&tree::commit(root)?, *count, all.len()).map(|at| all[at]).collect(),
        };
        match self {
            Choice::Named(words) if chosen.is_empty() => {
                Err(format!("found no mutation with '{words}'; the lists are in xtask/src/mutants"))
            }
            _ => Ok(chosen),
        }
    }
}

/// So many places of a list of `all`, spread over it, from one on that the commit's hash says.
fn rotated(commit: &str, count: usize, all: usize) -> impl Iterator<Item = usize> {
    let digits: String = commit.chars().take(8).collect();
    let first = usize::from_str_radix(&digits, 16).unwrap_or(0);
    let count = count.min(all);
    (0..count).map(move |number| (first + number * all / count) % all)
}

pub fn run(root: &Path, choice: &Choice<'_>) -> Result<(), String> {
    let chosen = choice.mutants(root)?;
    let copy = Copy::of(root)?;
    copy.build()?;
    find_all(&copy, &chosen)
}

/// What CI has time for: explores all protocols for some minutes, with new seeds, and some mutations at the same time.
pub fn run_beside_exploring(root: &Path, choice: &Choice<'_>, minutes: f64) -> Result<(), String> {
    let chosen = choice.mutants(root)?;
    let copy = Copy::of(root)?;
    copy.build()?;
    let mut exploring = copy.start_exploring(minutes, moment(), Stdio::piped())?;
    let found = find_all(&copy, &chosen);
    if found.is_err() {
        let _ = exploring.kill();
    }
    let explored = exploring.wait_with_output().map_err(|error| format!("exploring is lost: {error}"))?;
    found?;
    println!("{}", text(&explored).trim());
    if explored.status.success() { Ok(()) } else { Err(FOUND.into()) }
}

const FOUND: &str = "exploring found something; the lines above replay it";

/// Explores all protocols of this tree for so long.
pub fn explore(root: &Path, minutes: f64, seed: Option<u64>) -> Result<(), String> {
    let copy = Copy::of(root)?;
    copy.build()?;
    let mut exploring = copy.start_exploring(minutes, seed.unwrap_or_else(moment), Stdio::inherit())?;
    let status = exploring.wait().map_err(|error| format!("exploring is lost: {error}"))?;
    if status.success() { Ok(()) } else { Err(FOUND.into()) }
}

fn moment() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn find_all(copy: &Copy, chosen: &[&Mutant]) -> Result<(), String> {
    let start = Instant::now();
    println!("without a mutation:");
    let mut protocols: Vec<&str> = chosen.iter().flat_map(|mutant| mutant.protocols).copied().collect();
    protocols.sort_unstable();
    protocols.dedup();
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
        let found = copy.mutated(mutant, || mutant.protocols.iter().find_map(|protocol| copy.find(protocol)));
        let (verdict, how) = match found {
            Ok(Some(how)) => ("found", how),
            Ok(None) => ("MISSED", String::new()),
            Err(why) => ("FAILED", why),
        };
        missed += usize::from(verdict != "found");
        let (time, left) = (begun.elapsed().as_secs(), left(start, number + 1, chosen.len()));
        println!("{:2}/{} {verdict} in {time} s: {}\n      {how} ({left})", number + 1, chosen.len(), mutant.what);
    }
    println!("{} of {} mutations found", chosen.len() - missed, chosen.len());
    if missed == 0 { Ok(()) } else { Err(format!("{missed} mutations were missed, or could not be planted")) }
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
        tree::copy(root, &copy.tree)?;
        Ok(copy)
    }

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
        command.args(["build", "--quiet", "--profile", "exploring", "--package", "exploration", "--target-dir"]);
        command.arg(&self.target).current_dir(&self.tree).env("RUSTFLAGS", "-Awarnings");
        let output = command.output().map_err(|error| format!("cargo cannot be started: {error}"))?;
        if output.status.success() { Ok(()) } else { Err(text(&output)) }
    }

    fn program(&self) -> Command {
        Command::new(self.target.join("exploring/commensal-explore"))
    }

    fn explore(&self, protocol: &str, seconds: &str) -> Result<Output, String> {
        let mut command = self.program();
        command.args(["run", protocol, "--seconds", seconds, "--seed", SEED]);
        command.output().map_err(|error| format!("{command:?} cannot be started: {error}"))
    }

    fn start_exploring(&self, minutes: f64, seed: u64, output: Stdio) -> Result<Child, String> {
        let mut command = self.program();
        command.args(["run", "--seconds", &(minutes * 60.0).to_string(), "--seed", &seed.to_string()]);
        command.stdout(output).spawn().map_err(|error| format!("{command:?} cannot be started: {error}"))
    }

    /// How a protocol found something, in one line; none if it did not.
    fn find(&self, protocol: &str) -> Option<String> {
        let explored = self.explore(protocol, SECONDS).ok().filter(|output| !output.status.success())?;
        let text = text(&explored);
        // A small body runs in the command itself, which a panic ends.
        if explored.status.code() != Some(1) {
            return text.lines().find(|line| line.contains("panicked at ")).map(str::to_owned);
        }
        let mut lines = text.lines();
        let what = lines.next()?.to_owned();
        // What a process that died said comes next.
        let more = lines.clone().find(|line| line.starts_with("panicked") || line.starts_with("commensal")).is_some();
        let why = if more { text.lines().nth(2).map(|line| format!(" {line}")) } else { None };
        let run = lines.find(|line| line.starts_with("found in run"))?;
        Some(format!("{what}{}; {}", why.unwrap_or_default(), run.trim_end_matches(':')))
    }
}

fn mutate(mutant: &Mutant, source: &str) -> Result<String, String> {
    match source.matches(mutant.from).count() {
        1 => Ok(source.replace(mutant.from, mutant.to)),
        count => Err(format!("'{}' stands {count} times in {}; expected once", mutant.from, mutant.file)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mutations_all_fit_the_sources() {
        for mutant in mutants() {
            let source = fs::read_to_string(crate::root().join(mutant.file)).unwrap();
            let mutated = mutate(mutant, &source).unwrap();
            assert_ne!(mutated, source, "{}", mutant.what);
        }
        assert!(mutants().count() >= 10);
    }

    #[test]
    fn rotating_chooses_others_at_another_commit_and_none_twice() {
        let of = |commit: &str| rotated(commit, 3, 90).collect::<Vec<usize>>();
        let (one, other) = (of("00000001aa"), of("00000002aa"));
        assert!(one.len() == 3 && one.iter().all(|at| !other.contains(at)), "{one:?} {other:?}");
        assert_ne!(one[0], one[1]);
        let mut all: Vec<usize> = rotated("ffffffff", 8, 7).collect();
        all.sort_unstable();
        assert_eq!(all, (0..7).collect::<Vec<_>>());
    }

    #[test]
    fn mutation_of_text_that_occurs_twice_is_refused() {
        let mutant = Mutant { what: "", file: "", from: "a", to: "b", protocols: &[] };
        assert!(mutate(&mutant, "a a").is_err() && mutate(&mutant, "").is_err());
        assert_eq!(mutate(&mutant, "xax").unwrap(), "xbx");
    }
}
