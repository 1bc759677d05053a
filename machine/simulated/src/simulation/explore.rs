//! Exploration: many runs of one body, each with another seed, until one fails; then that run again, shortened.

use super::minimise::minimise;
use super::pct::Priorities;
use super::worker::{self, Exit, Progress};
use super::{Deviation, Random, Rates, Replay, Report, Settings, Strategy, simulate};
use std::fmt;
use std::io::Write;
use std::time::{Duration, Instant};

/// An error that a body found, if any.
pub type Outcome = Result<(), String>;

#[derive(Clone, Copy)]
pub struct Subject<'a> {
    pub name: &'a str,
    /// The machine for a seed.
    pub settings: &'a dyn Fn(u64) -> Settings,
    /// The first thread's work; its own random choices come from the seed.
    pub body: &'a dyn Fn(u64) -> Outcome,
    /// Strategies, used in turn.
    pub plans: &'a [Plan],
    /// One run in so many is made twice, and must be the same twice.
    pub twice_one_in: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// A random walk.
    Random(Rates),
    /// Random priorities, and a number of steps at which something happens.
    Priorities(u32, Rates),
}

impl Plan {
    /// Its name on a command line.
    pub fn name(&self) -> &'static str {
        match self {
            Plan::Random(_) => "random",
            Plan::Priorities(..) => "priorities",
        }
    }

    pub fn strategy(&self, seed: u64) -> Box<dyn Strategy> {
        match *self {
            Plan::Random(rates) => Box::new(Random::new(seed, rates)),
            Plan::Priorities(changes, rates) => Box::new(Priorities::new(seed, changes, rates)),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Index of the subject's plan.
    pub plan: usize,
    pub seed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// After the runs of a range of numbers, which may be part of an exploration.
    Runs {
        /// The first run.
        from: u64,
        /// One after the last run.
        to: u64,
    },
    /// After so long.
    Time(Duration),
}

impl Until {
    fn first(self) -> u64 {
        match self {
            Until::Runs { from, .. } => from,
            Until::Time(_) => 0,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Nothing { runs: u64, steps: u64 },
    Found(Box<Finding>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Searched {
    /// Number of runs, the failed one included.
    pub runs: u64,
    pub steps: u64,
    /// The error of the last run, if any.
    pub what: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub name: String,
    pub run: Run,
    pub plan: &'static str,
    /// Number of the run, from 1 on.
    pub runs: u64,
    pub steps: u64,
    pub what: String,
    /// The fewest choices found that make it fail.
    pub schedule: Vec<Deviation>,
    /// Choices of the whole run.
    pub choices: usize,
    /// Events of the shortened run.
    pub trace: Vec<String>,
}

/// Longest time for one step of a worker's work.
const PATIENCE: Duration = Duration::from_secs(120);
/// The same while a failure is shortened: most runs take milliseconds, and an endless one is seldom that failure.
const SHORT_PATIENCE: Duration = Duration::from_secs(2);
/// Longest time for shortening a failure.
const SHORTENING: Duration = Duration::from_secs(20);

/// The error of a run, from its body or its end.
fn result(report: Report<Outcome>) -> Outcome {
    report.outcome.map_err(|failure| failure.to_string())?
}

impl Subject<'_> {
    pub fn run_at(&self, first_seed: u64, index: u64) -> Run {
        let plans = self.plans.len() as u64;
        Run { plan: (index % plans) as usize, seed: first_seed.wrapping_add(index / plans) }
    }

    fn simulate(&self, run: Run, schedule: Option<&[Deviation]>, sink: Option<i32>) -> Report<Outcome> {
        let settings = Settings { sink, ..(self.settings)(run.seed) };
        let strategy = match schedule {
            Some(schedule) => Box::new(Replay::new(schedule.iter().copied())) as Box<dyn Strategy>,
            None => self.plans[run.plan].strategy(run.seed),
        };
        simulate(settings, Some(strategy), || (self.body)(run.seed))
    }

    /// Makes runs until one fails or the end is reached; shortens a failure.
    pub fn explore(&self, first_seed: u64, until: Until, look: impl FnMut(&Progress)) -> Verdict {
        let Searched { runs, steps, what } = self.search(first_seed, until, look);
        match what {
            None => Verdict::Nothing { runs, steps },
            Some(what) => {
                let last = until.first() + runs - 1;
                let run = self.run_at(first_seed, last);
                Verdict::Found(Box::new(Finding { steps, ..self.finding(run, last + 1, what) }))
            }
        }
    }

    /// Makes runs until one fails or the end is reached.
    pub fn search(&self, first_seed: u64, until: Until, mut look: impl FnMut(&Progress)) -> Searched {
        let start = Instant::now();
        let first = until.first();
        let mut last = (first, 0);
        let exit = worker::work(
            PATIENCE,
            |progress| {
                last = (progress.at, progress.steps);
                look(progress);
            },
            |progress, output| {
                for index in first.. {
                    // SAFETY: the page is the worker's to write.
                    let show = |change: &dyn Fn(&mut Progress)| unsafe { change(&mut *progress) };
                    show(&|progress| (progress.at, progress.beats) = (index, progress.beats + 1));
                    let is_over = match until {
                        Until::Runs { to, .. } => index >= to,
                        Until::Time(time) => start.elapsed() >= time,
                    };
                    if is_over {
                        return;
                    }
                    let run = self.run_at(first_seed, index);
                    let report = self.simulate(run, None, None);
                    let (hash, steps) = (report.hash, report.steps);
                    show(&|progress| progress.steps += steps);
                    let mut found = result(report).err();
                    if found.is_none() && index.is_multiple_of(self.twice_one_in) {
                        let again = self.simulate(run, None, None);
                        if (again.hash, again.steps) != (hash, steps) {
                            found = Some(format!(
                                "the same run twice was not the same: {steps} steps and {:#x}, then {} and {:#x}",
                                hash, again.steps, again.hash
                            ));
                        }
                    }
                    if let Some(what) = found {
                        output.write_all(what.as_bytes()).expect("memory can be written");
                        return;
                    }
                }
            },
        );
        match exit == Exit::default() {
            true => Searched { runs: last.0 - first, steps: last.1, what: None },
            false => Searched { runs: last.0 + 1 - first, steps: last.1, what: Some(exit.what().unwrap_or_default()) },
        }
    }

    /// Makes the same run again, in a process of its own; returns its error, choices and trace.
    pub fn replay(&self, run: Run, schedule: Option<&[Deviation]>) -> Replayed {
        let mut replayed = Replayed::default();
        let exit = worker::work(
            PATIENCE,
            |_| {},
            |progress, output| {
                use std::os::fd::AsRawFd;
                let report = self.simulate(run, schedule, Some(output.as_raw_fd()));
                // SAFETY: the page is the worker's to write.
                unsafe { (*progress).beats += 1 };
                if let Err(what) = result(report) {
                    writeln!(output, "!{}", what.replace('\n', "\n!")).expect("memory can be written");
                }
            },
        );
        let mut what: Vec<String> = exit.death.into_iter().collect();
        for line in String::from_utf8_lossy(&exit.output).lines() {
            match line.split_at_checked(1) {
                Some(("!", line)) => what.push(line.into()),
                Some(("@", choice)) => replayed.schedule.extend(choice.parse::<Deviation>().ok()),
                _ => replayed.trace.push(line.into()),
            }
        }
        replayed.what = (!what.is_empty()).then(|| what.join("\n"));
        replayed
    }

    fn failure(&self, run: Run, schedule: &[Deviation]) -> Option<String> {
        let exit = worker::work(
            SHORT_PATIENCE,
            |_| {},
            |_, output| {
                if let Err(what) = result(self.simulate(run, Some(schedule), None)) {
                    output.write_all(what.as_bytes()).expect("memory can be written");
                }
            },
        );
        exit.what()
    }

    fn finding(&self, run: Run, runs: u64, what: String) -> Finding {
        let whole = self.replay(run, None);
        let kind = kind_of(&what);
        let schedule = minimise(&whole.schedule, SHORTENING, |schedule| {
            self.failure(run, schedule).is_some_and(|failure| kind_of(&failure) == kind)
        });
        let (schedule, shown) = match schedule {
            Some(schedule) => {
                let shown = self.replay(run, Some(&schedule));
                (schedule, shown)
            }
            None => (whole.schedule.clone(), whole.clone()),
        };
        Finding {
            name: self.name.into(),
            run,
            plan: self.plans[run.plan].name(),
            runs,
            steps: 0,
            what: shown.what.unwrap_or(what),
            choices: whole.schedule.len(),
            schedule,
            trace: shown.trace,
        }
    }
}

/// The first words of a message without addresses, numbers or names of threads, so that like errors are equal.
fn kind_of(what: &str) -> String {
    let has_digit = |word: &&str| word.contains(|letter: char| letter.is_ascii_digit());
    what.split_whitespace().filter(|word| !has_digit(word)).take(6).collect::<Vec<_>>().join(" ")
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    pub what: Option<String>,
    pub schedule: Vec<Deviation>,
    pub trace: Vec<String>,
}

/// Last lines of a trace to show with a finding.
const SHOWN: usize = 60;

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "{}: {}", self.name, self.what)?;
        writeln!(
            formatter,
            "found in run {}: strategy {}, seed {}; {} of its {} choices are enough:",
            self.runs,
            self.plan,
            self.run.seed,
            self.schedule.len(),
            self.choices
        )?;
        for deviation in &self.schedule {
            writeln!(formatter, "  {deviation}")?;
        }
        if self.trace.len() > SHOWN {
            writeln!(formatter, "  … {} lines before", self.trace.len() - SHOWN)?;
        }
        for line in &self.trace[self.trace.len().saturating_sub(SHOWN)..] {
            writeln!(formatter, "{line}")?;
        }
        Ok(())
    }
}
