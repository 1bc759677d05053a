//! The file that one of several machines wrote, and merging such files: runs of an experiment or of the forecast, and explorations.
//!
//! The merged result is what one machine would have given. So all parts must have the same commit and request, and be complete.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::answers::{Figures, Shard, Words};
use crate::json::{command_line, write_json};
use crate::profile::Profile;

/// One of several, or several that were merged.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(tag = "part_of", rename_all = "snake_case")]
pub enum Part {
    /// Simulated runs.
    Runs(Runs),
    /// An exploration.
    Exploration(Explored),
}

/// What was asked for.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
pub struct Request {
    /// An experiment's name, or that of the forecast.
    pub name: String,
    /// Whether less was wanted.
    pub quick: bool,
    /// How many blocks.
    pub blocks: Option<u32>,
    /// What chance is drawn from.
    pub seed: u64,
    /// On how many CPUs.
    pub cpus: Option<u32>,
    /// With whose costs.
    pub profile: Option<String>,
    /// What these were: a file's contents may be others where parts are merged.
    pub costs: Option<Box<Profile>>,
}

/// Simulated runs of one shard.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
pub struct Runs {
    /// Of which sources.
    pub commit: String,
    /// How it was made.
    pub command: String,
    /// Which part it is.
    pub shard: Shard,
    /// Of what.
    pub request: Request,
    /// How many runs all parts have.
    pub runs: usize,
    /// Which arguments these had, and what they printed.
    pub answers: Vec<(Words, Vec<f64>)>,
}

/// Protocols that were explored, each for so many runs.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
pub struct Explored {
    /// Of which sources.
    pub commit: String,
    /// How it was made.
    pub command: String,
    /// Which part it is.
    pub shard: Shard,
    /// The first seed.
    pub seed: u64,
    /// Runs of each protocol, in all parts.
    pub runs: u64,
    /// What came of it.
    pub protocols: Vec<Protocol>,
}

/// What came of one protocol's runs.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
pub struct Protocol {
    /// Its name.
    pub name: String,
    /// Runs that were made: all of them, or up to the first that failed.
    pub runs: u64,
    /// Their steps.
    pub steps: u64,
    /// The first that failed.
    pub found: Option<Found>,
}

/// A run that failed.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
pub struct Found {
    /// Its number among all parts' runs.
    pub at: u64,
    /// What was wrong, and how it is made again.
    pub text: String,
}

impl Request {
    /// Fills in what the profile says now.
    pub fn with_costs(mut self) -> Result<Self> {
        self.costs = self.profile.as_deref().map(Profile::find).transpose()?.map(Box::new);
        Ok(self)
    }
}

impl Runs {
    /// What a shard of a request made.
    pub fn of(shard: Shard, request: Request, runs: usize, known: Figures) -> Self {
        let answers = known.into_iter().collect();
        Runs { commit: crate::commit(), command: command_line(), shard, request, runs, answers }
    }
}

/// What all parts have together: of runs, the request and what they said; an exploration is told as one.
pub enum Merged {
    /// A request can be evaluated.
    Runs(Request, Figures),
    /// An exploration is over.
    Exploration(Explored),
}

/// Merges all parts.
pub fn merge(parts: Vec<Part>) -> Result<Merged> {
    let (mut runs, mut explored) = (Vec::new(), Vec::new());
    for part in parts {
        match part {
            Part::Runs(one) => runs.push(one),
            Part::Exploration(one) => explored.push(one),
        }
    }
    ensure!(runs.is_empty() || explored.is_empty(), "cannot merge parts of an exploration with others");
    if explored.is_empty() {
        let (request, figures) = merge_runs(runs)?;
        Ok(Merged::Runs(request, figures))
    } else {
        Ok(Merged::Exploration(merge_explored(explored)?))
    }
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, all: impl Iterator<Item = T>) -> Result<T> {
    let mut all = all.collect::<Vec<_>>();
    let first = all.swap_remove(0);
    let other = all.into_iter().find(|other| *other != first);
    ensure!(other.is_none(), "parts differ in their {what}: {first:?} and {:?}", other.as_ref().unwrap_or(&first));
    Ok(first)
}

fn merge_runs(parts: Vec<Runs>) -> Result<(Request, Figures)> {
    Shard::are_all(&parts.iter().map(|part| part.shard).collect::<Vec<_>>())?;
    let commit = same("commit", parts.iter().map(|part| part.commit.clone()))?;
    let own = crate::commit();
    ensure!(commit == own, "the parts were made at commit {commit}, and this command at {own}; use the same commit");
    let request = same("request", parts.iter().map(|part| part.request.clone()))?;
    let runs = same("number of runs", parts.iter().map(|part| part.runs))?;
    let costs = request.clone().with_costs()?.costs;
    ensure!(costs == request.costs, "the profile {:?} has changed since the parts were made", request.profile);
    let mut figures = Figures::new();
    for (words, said) in parts.into_iter().flat_map(|part| part.answers) {
        let told = words.join(" ");
        let before = figures.insert(words, said.clone());
        ensure!(before.is_none_or(|before| before == said), "`{told}` has different results in two parts");
    }
    ensure!(figures.len() == runs, "found {} runs, expected {runs}: one of the shards ended early", figures.len());
    Ok((request, figures))
}

fn merge_explored(mut parts: Vec<Explored>) -> Result<Explored> {
    Shard::are_all(&parts.iter().map(|part| part.shard).collect::<Vec<_>>())?;
    parts.sort_by_key(|part| part.shard);
    let commit = same("commit", parts.iter().map(|part| part.commit.clone()))?;
    let seed = same("first seed", parts.iter().map(|part| part.seed))?;
    let runs = same("number of runs", parts.iter().map(|part| part.runs))?;
    let names = |part: &Explored| part.protocols.iter().map(|protocol| protocol.name.clone()).collect::<Vec<_>>();
    let names = same("protocols", parts.iter().map(names))?;
    let mut protocols = Vec::new();
    for (at, name) in names.into_iter().enumerate() {
        let mut all = Protocol { name, runs: 0, steps: 0, found: None };
        // What comes behind a run that failed would not have been made.
        for part in parts.iter().map(|part| &part.protocols[at]) {
            (all.runs, all.steps) = (all.runs + part.runs, all.steps + part.steps);
            all.found.clone_from(&part.found);
            if all.found.is_some() {
                break;
            }
        }
        ensure!(
            all.found.is_some() || all.runs == runs,
            "{}: found {} runs, expected {runs}: one of the shards ended early",
            all.name,
            all.runs
        );
        protocols.push(all);
    }
    Ok(Explored { commit, command: command_line(), shard: Shard::WHOLE, seed, runs, protocols })
}

impl Explored {
    /// A line for each protocol, and what was found.
    pub fn text(&self) -> String {
        let line = |Protocol { name, runs, steps, found }: &Protocol| match found {
            None => format!("{name:26} {runs:>9} runs, {:>6} million steps, nothing found\n", steps / 1_000_000),
            Some(Found { at, text }) => format!("{name:26} {runs:>9} runs, FOUND in run {at}\n{text}\n"),
        };
        self.protocols.iter().map(line).collect()
    }

    /// Whether nothing was found.
    pub fn is_clean(&self) -> bool {
        self.protocols.iter().all(|protocol| protocol.found.is_none())
    }
}

impl Part {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let expected = "expected what a run with --shard wrote";
        serde_json::from_str(&text).with_context(|| format!("{} is no part; {expected}", path.display()))
    }

    /// Writes it.
    pub fn write(&self, path: &Path) -> Result<()> {
        write_json(path, self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explored(shard: &str, found: Option<u64>, runs: u64) -> Part {
        let found = found.map(|at| Found { at, text: format!("failed at {at}") });
        let protocol = Protocol { name: "fork".into(), runs, steps: 10 * runs, found };
        let (commit, command, shard) = ("c".into(), shard.to_owned(), shard.parse().unwrap());
        Part::Exploration(Explored { commit, command, shard, seed: 3, runs: 30, protocols: vec![protocol] })
    }

    fn merged(parts: Vec<Part>) -> Result<Explored, String> {
        match merge(parts).map_err(|error| error.to_string())? {
            Merged::Exploration(all) => Ok(all),
            Merged::Runs(..) => panic!("no runs"),
        }
    }

    #[test]
    fn merged_parts_count_only_runs_up_to_the_first_finding() {
        let all = merged(vec![explored("3/3", Some(25), 6), explored("1/3", None, 10), explored("2/3", Some(14), 5)]);
        let protocol = all.unwrap().protocols.remove(0);
        assert_eq!((protocol.runs, protocol.steps, protocol.found.unwrap().at), (15, 150, 14));
        let first = || explored("1/2", None, 15);
        let all = merged(vec![first(), explored("2/2", None, 15)]).unwrap();
        assert_eq!((all.protocols[0].runs, all.is_clean(), all.shard), (30, true, Shard::WHOLE));
        assert!(merged(vec![first()]).unwrap_err().contains("2/2"));
        assert!(merged(vec![first(), explored("2/2", None, 14)]).unwrap_err().contains("ended early"));
    }

    fn runs(shard: &str, answers: &[(&str, f64)], change: impl Fn(&mut Runs)) -> Part {
        let request = Request {
            name: "stagger".into(),
            quick: true,
            blocks: None,
            seed: 1,
            cpus: Some(72),
            profile: Some("aarch64-72".into()),
            costs: None,
        };
        let answers = answers.iter().map(|(word, figure)| (vec![(*word).to_owned()], vec![*figure])).collect();
        let mut runs = Runs::of(shard.parse().unwrap(), request.with_costs().unwrap(), 3, answers);
        change(&mut runs);
        Part::Runs(runs)
    }

    #[test]
    fn runs_of_the_same_request_are_merged_if_all_are_there() {
        let first = || runs("1/2", &[("a", 1.0), ("b", 2.0)], |_| ());
        match merge(vec![first(), runs("2/2", &[("c", 3.0)], |_| ())]) {
            Ok(Merged::Runs(request, figures)) => assert_eq!((request.name.as_str(), figures.len()), ("stagger", 3)),
            _ => panic!("it is whole"),
        }
        let stale = |runs: &mut Runs| {
            runs.request.costs = runs.request.costs.take().map(|costs| Box::new(costs.with("hit", 9.0)));
        };
        let second = |change: &dyn Fn(&mut Runs)| runs("2/2", &[("c", 3.0)], change);
        let stale_first = runs("1/2", &[("a", 1.0), ("b", 2.0)], stale);
        for (parts, words) in [
            ([first(), runs("2/2", &[], |_| ())], "found 2 runs, expected 3"),
            ([first(), runs("2/2", &[("b", 2.5), ("c", 3.0)], |_| ())], "`b` has different results"),
            ([first(), runs("1/2", &[("c", 3.0)], |_| ())], "given twice"),
            ([first(), second(&|runs| runs.request.seed = 2)], "differ in their request"),
            ([first(), second(&|runs| runs.commit = "another".into())], "differ in their commit"),
            ([stale_first, second(&stale)], "has changed since"),
            ([first(), explored("2/2", None, 3)], "cannot merge parts of an exploration"),
        ] {
            let told = merge(parts.into()).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(told.contains(words), "{words:?}: {told}");
        }
    }

    #[test]
    fn parts_are_read_as_they_were_written() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("part.json");
        for part in [runs("1/2", &[("a", 0.1 + 0.2)], |_| ()), explored("1/2", Some(3), 4)] {
            part.write(&path).unwrap();
            assert_eq!(Part::read(&path).unwrap(), part);
        }
        fs::write(&path, "{}").unwrap();
        assert!(format!("{:#}", Part::read(&path).unwrap_err()).contains("expected what a run with --shard wrote"));
    }
}
