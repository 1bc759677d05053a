//! What simulated runs said. Such a run says the same whenever and wherever it is made, so it is made once, several at a time, and if there are very many, on several
//! machines, each of which makes a *shard* of them.
//!
//! Whoever needs runs is asked twice. The first time it is *listed* which ones it wants, with figures that mean nothing; then those are made; and the
//! second time it gets what they said. So what is merged from shards goes the same way as what was made in one place.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::experiment::probing::asked_of;
use crate::process::Interrupt;
use crate::progress::Progress;

/// The arguments of a run of the command.
pub type Words = Vec<String>;

/// The figures that runs printed.
pub type Figures = BTreeMap<Words, Vec<f64>>;

/// How often the progress is drawn.
const LOOK: Duration = Duration::from_millis(50);

/// One of so many parts, from 1 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Shard {
    index: u64,
    of: u64,
}

impl Shard {
    /// Everything.
    pub const WHOLE: Shard = Shard { index: 1, of: 1 };

    /// Whether the job of a number, from 0 on, is in it: each gets every so many, as neighbours take about as long.
    fn has(self, number: usize) -> bool {
        number as u64 % self.of == self.index - 1
    }

    /// Of so many in a row, those that are in it: where it matters what comes first.
    pub fn range(self, total: u64) -> std::ops::Range<u64> {
        let edge = |index: u64| (u128::from(total) * u128::from(index) / u128::from(self.of)) as u64;
        edge(self.index - 1)..edge(self.index)
    }

    /// Whether these are all of them, each once.
    pub fn are_all(shards: &[Shard]) -> Result<()> {
        let of = shards.first().context("no files; expected those of all shards")?.of;
        let mut missing: Vec<Shard> = (1..=of).map(|index| Shard { index, of }).collect();
        for shard in shards {
            ensure!(shard.of == of, "found shards {} and {shard}; expected shards of one N", shards[0]);
            let at = missing.iter().position(|one| one == shard);
            missing.remove(at.with_context(|| format!("shard {shard} was given twice"))?);
        }
        let missing: Vec<String> = missing.iter().map(Shard::to_string).collect();
        ensure!(missing.is_empty(), "missing shards: {}", missing.join(", "));
        Ok(())
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.split_once('/').and_then(|(index, of)| Some((index.parse().ok()?, of.parse().ok()?)));
        let shard =
            numbers.map(|(index, of)| Shard { index, of }).filter(|shard| (1..=shard.of).contains(&shard.index));
        shard.ok_or_else(|| format!("found '{text}'; expected I/N, one of N parts from 1/N to N/N"))
    }
}

impl TryFrom<String> for Shard {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Shard> for String {
    fn from(shard: Shard) -> String {
        shard.to_string()
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.index, self.of)
    }
}

/// What is known, and what is wanted.
#[derive(Clone, Debug, Default)]
pub struct Answers(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    is_listing: bool,
    /// In the order in which they were asked for, each once.
    wanted: Vec<Words>,
    known: Figures,
}

impl Answers {
    /// Nothing but these.
    pub fn given(known: Figures) -> Self {
        Answers(Arc::new(Mutex::new(State { known, ..State::default() })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("nobody panics with it")
    }

    /// Lists what `work` wants. What it comes to means nothing.
    pub fn list<R>(&self, work: impl FnOnce() -> Result<R>) -> Result<()> {
        self.state().is_listing = true;
        let done = work();
        self.state().is_listing = false;
        done.map(drop)
    }

    /// Whether it is listed what is wanted.
    pub fn are_listed(&self) -> bool {
        self.state().is_listing
    }

    /// What a run printed, which prints so many figures; none if nobody knows.
    pub fn of(&self, words: &[String], figures: usize) -> Option<Vec<f64>> {
        let mut state = self.state();
        if let Some(known) = state.known.get(words) {
            return Some(known.clone());
        }
        if !state.is_listing {
            return None;
        }
        if !state.wanted.iter().any(|wanted| wanted == words) {
            state.wanted.push(words.to_vec());
        }
        Some(vec![1.0; figures])
    }

    /// How many runs are wanted, or known.
    pub fn runs(&self) -> usize {
        let state = self.state();
        state.wanted.iter().filter(|words| !state.known.contains_key(*words)).count() + state.known.len()
    }

    /// All that is known.
    pub fn known(&self) -> Figures {
        self.state().known.clone()
    }

    /// Makes the runs of a shard that are wanted and not known. One that fails ends it, and those that are done stay known.
    pub fn make(&self, shard: Shard, command: &Path, interrupt: &Interrupt) -> Result<()> {
        let jobs: Vec<Words> = {
            let state = self.state();
            let mine = state.wanted.iter().enumerate().filter(|(number, _)| shard.has(*number));
            mine.map(|(_, words)| words.clone()).filter(|words| !state.known.contains_key(words)).collect()
        };
        let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let trouble = Mutex::new(None);
        let work = || {
            while let Some(words) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                let said =
                    if interrupt.seen() { Err(anyhow::anyhow!("interrupted")) } else { asked_of(command, words) };
                match said {
                    Ok(figures) => drop(self.state().known.insert(words.clone(), figures)),
                    Err(error) => {
                        next.store(jobs.len(), Ordering::Relaxed);
                        trouble.lock().expect("nobody panics with it").get_or_insert(error);
                    }
                }
                done.fetch_add(1, Ordering::Relaxed);
            }
        };
        let progress = Progress::new();
        thread::scope(|scope| {
            let at_once = thread::available_parallelism().map_or(1, usize::from).min(jobs.len());
            let workers: Vec<_> = (0..at_once).map(|_| scope.spawn(work)).collect();
            while workers.iter().any(|worker| !worker.is_finished()) {
                progress.part(done.load(Ordering::Relaxed) as f64 / jobs.len() as f64, "simulated");
                thread::sleep(LOOK);
            }
        });
        progress.finish();
        trouble.into_inner().expect("nobody panics with it").map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shard(text: &str) -> Shard {
        text.parse().unwrap()
    }

    fn words(text: &str) -> Words {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn job_is_in_exactly_one_shard() {
        for of in 1..8 {
            for total in [0, 1, 5, 100] {
                let shards: Vec<Shard> = (1..=of).map(|index| Shard { index, of }).collect();
                let mut next = 0;
                for shard in &shards {
                    assert_eq!(shard.range(total).start, next);
                    next = shard.range(total).end;
                }
                assert_eq!(next, total);
                let times = |number| shards.iter().filter(|shard| shard.has(number)).count();
                assert!((0..total as usize).all(|number| times(number) == 1));
            }
        }
        for wrong in ["", "3", "0/2", "3/2", "1/0", "a/b", "1/2/3", "-1/2"] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
        assert_eq!(shard("2/3").to_string(), "2/3");
    }

    /// A command whose runs print the number that they are told, and leave a line in a file.
    fn printer(place: &Path) -> std::path::PathBuf {
        use std::os::unix::fs::PermissionsExt;
        let (path, log) = (place.join("printer"), place.join("log"));
        std::fs::write(&path, format!("#!/bin/sh\necho $1 >> {}\n[ $1 != 13 ] && echo $1 5\n", log.display())).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    #[test]
    fn listed_run_is_made_once_and_known_from_then_on() {
        let place = tempfile::tempdir().unwrap();
        let (command, interrupt) = (printer(place.path()), Interrupt::never().unwrap());
        let answers = Answers::default();
        let want = || -> Result<Vec<f64>> {
            let one = |number: i32| answers.of(&words(&number.to_string()), 2).unwrap_or_default();
            Ok([7, 8, 7, 9].into_iter().flat_map(one).collect())
        };
        assert_eq!(want().unwrap(), Vec::<f64>::new(), "nobody knows");
        answers.list(want).unwrap();
        assert_eq!(answers.runs(), 3);
        answers.make(shard("1/2"), &command, &interrupt).unwrap();
        assert_eq!(answers.known().keys().cloned().collect::<Vec<_>>(), [words("7"), words("9")]);
        answers.make(Shard::WHOLE, &command, &interrupt).unwrap();
        assert_eq!(want().unwrap(), [7.0, 5.0, 8.0, 5.0, 7.0, 5.0, 9.0, 5.0]);
        let mut made: Vec<String> =
            std::fs::read_to_string(place.path().join("log")).unwrap().lines().map(str::to_owned).collect();
        made.sort();
        assert_eq!(made, ["7", "8", "9"], "each once");
        assert_eq!(Answers::given(answers.known()).of(&words("8"), 2), Some(vec![8.0, 5.0]));
    }

    #[test]
    fn failed_run_is_reported_and_gives_no_answer() {
        let place = tempfile::tempdir().unwrap();
        let answers = Answers::default();
        answers.list(|| Ok([3, 13].map(|number: i32| answers.of(&words(&number.to_string()), 1)))).unwrap();
        let told = answers.make(Shard::WHOLE, &printer(place.path()), &Interrupt::never().unwrap()).unwrap_err();
        assert!(told.to_string().contains("13"), "{told:#}");
        assert!(answers.of(&words("13"), 1).is_none());
    }
}
