//! What simulated runs said. Such a run says the same whenever it is made, so it is made once, several at a time.
//!
//! What needs runs is asked twice. The first time it is *listed* which ones it wants, with figures that mean nothing.
//! Then those are made, and the second time it gets what they said.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use anyhow::Result;

use crate::experiment::probing::asked_of;
use crate::process::Interrupt;
use crate::progress::Progress;

/// The arguments of a run of the command.
pub type Words = Vec<String>;

/// How often the progress is drawn.
const LOOK: Duration = Duration::from_millis(50);

/// What is known, and what is wanted.
#[derive(Clone, Debug, Default)]
pub struct Answers(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    is_listing: bool,
    /// In the order in which they were asked for, each once.
    wanted: Vec<Words>,
    /// The figures that runs printed.
    known: BTreeMap<Words, Vec<f64>>,
}

impl Answers {
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

    /// Makes the runs that are wanted and not known. One that fails ends it, and those that are done stay known.
    pub fn make(&self, command: &Path, interrupt: &Interrupt) -> Result<()> {
        let jobs: Vec<Words> = {
            let state = self.state();
            state.wanted.iter().filter(|words| !state.known.contains_key(*words)).cloned().collect()
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

    fn words(text: &str) -> Words {
        text.split(' ').map(str::to_owned).collect()
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
        (0..2).for_each(|_| answers.make(&command, &interrupt).unwrap());
        assert_eq!(want().unwrap(), [7.0, 5.0, 8.0, 5.0, 7.0, 5.0, 9.0, 5.0]);
        let mut made: Vec<String> =
            std::fs::read_to_string(place.path().join("log")).unwrap().lines().map(str::to_owned).collect();
        made.sort();
        assert_eq!(made, ["7", "8", "9"], "each once");
    }

    #[test]
    fn failed_run_is_reported_and_gives_no_answer() {
        let place = tempfile::tempdir().unwrap();
        let answers = Answers::default();
        answers.list(|| Ok([3, 13].map(|number: i32| answers.of(&words(&number.to_string()), 1)))).unwrap();
        let told = answers.make(&printer(place.path()), &Interrupt::never().unwrap()).unwrap_err();
        assert!(told.to_string().contains("13"), "{told:#}");
        assert!(answers.of(&words("13"), 1).is_none());
    }
}
