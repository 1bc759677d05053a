//! What is run: start-up, one malloc and free, threads in turn, whole programs, and counters.

use std::path::PathBuf;

use anyhow::{Context, Result};
use commensal_lab::analysis::{Analysis, BASELINE};
use commensal_lab::answers::Answers;
use commensal_lab::arm::Arm;
use commensal_lab::blocks::{self, Length, Plan, Subject};
use commensal_lab::experiment::{self, Cache, Counters, EMPTY, Experiment, Kicks, Setting, Startup};
use commensal_lab::machine::Machine;
use commensal_lab::metric::{Metric, PEAK, WALL};
use commensal_lab::parameters::Parameters;
use commensal_lab::process::{Interrupt, Program, Run};
use commensal_lab::sheet::Sheet;
use commensal_lab::table;
use commensal_programs::ALL;

use crate::locks;

/// The arm whose malloc hardly works.
pub const FLOOR: &str = "floor";
/// What all parts of the lab's counters are called, of its caches, and of its kicks.
pub const COUNTERS: &str = "counters";
pub const CACHES: &str = "caches";
pub const GROUPS: &str = "groups";
/// Readers, and who waits for them.
pub const RCU: &str = "rcu";
/// This program's first word when it makes one measurement for that.
pub const RCU_PROBE: &str = "measure-rcu";
/// Counters for registries, by a handle and behind the facade `metrics`.
pub const RECORDER: &str = "recorder";
pub const RECORDER_PROBE: &str = "measure-recorder";
/// The runtime's own locks.
pub const LOCKS: &str = "locks";

const FASTER: [&str; 2] = ["faster", "slower"];
const MORE: [&str; 2] = ["less", "more"];

/// How many blocks are alive at a time, and what a pair of malloc and free takes then.
pub const DEPTHS: [(&str, Metric); 2] = [("64", pair("pair_64_ns", "depth 64")), ("1", pair("pair_1_ns", "depth 1"))];

const fn pair(name: &'static str, title: &'static str) -> Metric {
    // It is printed with three decimals.
    Metric { name, unit: "ns", title, words: FASTER, resolution: 0.001 }
}

/// Who else runs in the process: what the bundled program calls it.
const SETTINGS: [&str; 3] = ["solo", "parked", "both"];

/// Where threads run: what the bundled program calls it, and what a reader does.
const PLACES: [(&str, &str); 4] =
    [("one", "on one CPU"), ("across", "on another CPU"), ("anywhere", "anywhere"), ("std", "anywhere, of std")];

/// How much more memory is resident after the threads than before.
const GROWTH: Metric =
    Metric { name: "growth_kb", unit: "kB", title: "memory left of them", words: MORE, resolution: 4.0 };
/// How many of 100 threads ran on the CPU where their creator had just been.
const BESIDE: Metric =
    Metric { name: "beside", unit: "1", title: "beside their creator, of 100", words: MORE, resolution: 0.01 };

/// What all parts need.
pub struct Bench {
    /// The baseline first.
    pub arms: Vec<Arm>,
    /// The library of the floor.
    pub floor: PathBuf,
    /// The command that runs bundled programs.
    pub command: PathBuf,
    /// How many blocks a part has.
    pub blocks: usize,
    /// Ctrl-C.
    pub interrupt: Interrupt,
}

/// What came out of a part.
pub struct Part {
    pub name: &'static str,
    pub title: String,
    pub analysis: Analysis,
    /// What could not be run, and why.
    pub skipped: Vec<String>,
}

impl Part {
    /// A table for each metric.
    pub fn sheets(&self) -> Vec<Sheet> {
        if self.analysis.measured.blocks == 0 {
            return Vec::new();
        }
        if [COUNTERS, CACHES, GROUPS, RCU, RECORDER, LOCKS].contains(&self.name) {
            return (0..self.analysis.measured.rows[0].metrics.len())
                .map(|metric| table::figures(&self.analysis, metric))
                .collect();
        }
        if self.analysis.rows.len() == 1 {
            let others = self
                .analysis
                .others
                .iter()
                .map(|(baseline, rows)| table::of_metric(&self.analysis, &rows[0][0], *baseline));
            return others.chain(table::of_subject(&self.analysis, BASELINE)).collect();
        }
        (0..self.analysis.measured.rows[0].metrics.len())
            .map(|metric| table::of_subjects(&self.analysis, metric))
            .collect()
    }
}

impl Bench {
    /// Starts `/bin/true` again and again, as the lab's experiment does; against glibc and against an empty library.
    pub fn startup(&self) -> Result<Part> {
        let part = Startup.measure(&self.setting(10)?)?.parts.into_iter().next();
        let mut analysis = part.context("start-up has one part")?.analysis;
        analysis.others.retain(|(baseline, _)| analysis.measured.arms[*baseline].name == EMPTY);
        let title = "start-up of a program that does nothing".to_owned();
        Ok(Part { name: "startup", title, analysis, skipped: Vec::new() })
    }

    /// The lab's counters, as far as what they do themselves is concerned.
    pub fn counters(&self) -> Result<Vec<Part>> {
        Ok(of_lab(COUNTERS, Counters.costs(&self.setting(3)?)?))
    }

    /// The lab's caches, likewise.
    pub fn caches(&self) -> Result<Vec<Part>> {
        Ok(of_lab(CACHES, Cache.costs(&self.setting(3)?)?))
    }

    /// What it takes to make caches for groups, and who is interrupted for it.
    pub fn groups(&self) -> Result<Vec<Part>> {
        Ok(of_lab(GROUPS, Kicks.measure(&self.setting(1)?)?.parts))
    }

    /// Readers of all kinds, alone and beside another one, and who waits for one that runs.
    pub fn rcu(&self) -> Result<Vec<Part>> {
        let subject = |parameters, words: &[&str], metric| probed(RCU_PROBE, parameters, words, metric);
        let beside = |others: u64| Parameters::default().with("readers_besides", others);
        let nanoseconds = |name, title| Metric { name, unit: "ns", title, words: FASTER, resolution: 1e-5 };
        let reads = [0, 1].map(|others| {
            let words = ["read", ["0", "1"][others as usize]];
            subject(beside(others), &words, nanoseconds("read_ns", "one section"))
        });
        let waits =
            subject(beside(1), &["synchronize"], nanoseconds("synchronize_ns", "waiting for one running reader"));
        // The library whose functions are called is preloaded.
        let library = |name: &str| (name == rcu::CALLED).then(|| self.arms[1].library.clone()).flatten();
        let arm = |name: &&str| Arm { library: library(name), ..Arm::told(*name, *name) };
        let arms = |names: &[&str]| names.iter().map(arm).collect::<Vec<_>>();
        let reads = reads.into_iter().collect::<Result<Vec<_>>>()?;
        let read = self.measure(RCU, "sections in which nothing is read", reads, &arms(&rcu::reading()))?;
        let checks = subject(Parameters::default(), &["checkpoint"], nanoseconds("checkpoint_ns", "one checkpoint"))?;
        let check = self.measure(RCU, "checkpoints that find nothing new", vec![checks], &arms(&rcu::checking()))?;
        let retires =
            subject(Parameters::default(), &["retire"], nanoseconds("retire_ns", "allocate, retire, free 64 bytes"))?;
        let retiring: Vec<&str> = rcu::RETIRING.iter().map(|(name, _)| *name).collect();
        let retire = self.measure(RCU, "objects that go after a grace period", vec![retires], &arms(&retiring))?;
        let wait = self.measure(RCU, "who waits for readers", vec![waits?], &arms(&rcu::waiting()))?;
        Ok(vec![read, wait, check, retire])
    }

    /// Increments of one counter by one thread and by two.
    pub fn recorder(&self) -> Result<Vec<Part>> {
        let subject = |threads| {
            let metric =
                Metric { name: "handle_ns", unit: "ns", title: "one increment", words: FASTER, resolution: 1e-5 };
            let words = [["1", "2"][threads as usize - 1]];
            probed(RECORDER_PROBE, Parameters::default().with("threads", threads), &words, metric)
        };
        let subjects = [1, 2].map(subject).into_iter().collect::<Result<Vec<_>>>()?;
        let arms: Vec<Arm> = recorder::names().iter().map(|name| Arm::told(*name, *name)).collect();
        Ok(vec![self.measure(RECORDER, "increments by a handle", subjects, &arms)?])
    }

    /// A lock that nobody else wants, with and without accounting.
    pub fn locks(&self) -> Result<Part> {
        let program = Program::new(&std::env::current_exe()?, ["bench", locks::WORD]);
        let metric =
            Metric { name: "pass_ns", unit: "ns", title: "taking and giving back", words: FASTER, resolution: 1e-5 };
        let (metrics, read) = (vec![metric], read_figure as fn(&Run, &str) -> Option<Vec<f64>>);
        let parameters = Parameters::default();
        let subject = Subject { parameters, metrics, read, prints_the_same: false, ..Subject::of_program("", program) };
        self.measure(LOCKS, "a lock that nobody else wants", vec![subject], &locks::ARMS.map(|arm| Arm::told(arm, arm)))
    }

    /// An experiment of the lab, with more blocks than the other parts have, as its runs are short.
    fn setting(&self, times: usize) -> Result<Setting> {
        Ok(Setting {
            quick: false,
            blocks: Some(times * self.blocks),
            seed: commensal_lab::any_seed(),
            machine: Machine::host(),
            arms: self.arms.clone(),
            command: self.command.clone(),
            scratch: tempfile::tempdir()?.into(),
            interrupt: self.interrupt.clone(),
            answers: Answers::default(),
        })
    }

    /// One malloc and one free of 64 bytes: with one thread, with one that sleeps besides, with two at work.
    pub fn micro(&self) -> Result<Part> {
        let subjects = SETTINGS.map(|setting| {
            let metrics = DEPTHS.map(|(_, metric)| metric).to_vec();
            let prints_the_same = false;
            Subject { metrics, read: read_pairs, prints_the_same, ..self.bundled(setting, &["pair", setting, "9"]) }
        });
        self.measure("micro", "one malloc and one free of 64 bytes", subjects.into(), &self.arms)
    }

    /// 10,000 threads that come and go. Where the scheduler places them, what counts most is where; so the table tells how many
    /// ran beside their creator, and what all this takes on a malloc that hardly works.
    pub fn threads(&self) -> Result<Part> {
        let subjects = PLACES.map(|(place, name)| {
            let metrics = vec![WALL, GROWTH, BESIDE];
            let subject = self.bundled(name, &["threads-placed", place]);
            Subject { metrics, read: read_threads, prints_the_same: false, ..subject }
        });
        let floor = Arm::preloading(FLOOR, &self.floor);
        let arms: Vec<Arm> = self.arms.iter().cloned().chain([floor]).collect();
        self.measure("threads", "10,000 threads that come and go", subjects.into(), &arms)
    }

    /// The bundled programs.
    pub fn programs(&self, only: Option<&str>) -> Result<Part> {
        let is_chosen = |name: &str| only.is_none_or(|only| only == name);
        let ours = ALL.iter().map(|workload| self.bundled(workload.name, &[workload.name]));
        let mut subjects: Vec<Subject> = ours.collect();
        subjects.retain(|subject| is_chosen(&subject.name()));
        let subjects = subjects.into_iter().map(|subject| match subject.prints_the_same {
            true => Subject { metrics: vec![WALL, PEAK], read: read_cost, ..subject },
            false => subject,
        });
        self.measure("programs", "whole programs", subjects.collect(), &self.arms)
    }

    pub fn bundled(&self, name: &str, words: &[&str]) -> Subject {
        let words = ["commensal", "workload"].iter().chain(words);
        Subject::of_program(name, Program::new(&self.command, words))
    }

    pub fn measure(
        &self,
        name: &'static str,
        title: &'static str,
        subjects: Vec<Subject>,
        arms: &[Arm],
    ) -> Result<Part> {
        let plan = Plan::of(Length::Blocks(self.blocks), commensal_lab::any_seed());
        let analysis = Analysis::of(blocks::measure(subjects, arms, plan, &self.interrupt)?);
        Ok(Part { name, title: title.to_owned(), analysis, skipped: Vec::new() })
    }
}

fn of_lab(name: &'static str, parts: Vec<experiment::Part>) -> Vec<Part> {
    let of = |part: experiment::Part| Part { name, title: part.title, analysis: part.analysis, skipped: Vec::new() };
    parts.into_iter().map(of).collect()
}

fn read_cost(run: &Run, _: &str) -> Option<Vec<f64>> {
    Some(vec![run.cost.wall_s, run.cost.peak_kb])
}

/// Makes one measurement, and prints it.
pub fn probe(measure: fn(&[&str]) -> Result<f64, String>, words: impl Iterator<Item = String>) -> Result<bool> {
    let words: Vec<String> = words.collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    println!("{:.5}", measure(&words).map_err(anyhow::Error::msg)?);
    Ok(true)
}

fn read_figure(_: &Run, printed: &str) -> Option<Vec<f64>> {
    Some(vec![printed.trim().parse().ok()?])
}

/// A figure that one of the probes here measures in a process of its own.
fn probed(probe: &str, parameters: Parameters, words: &[&str], metric: Metric) -> Result<Subject> {
    let program = Program::new(&std::env::current_exe()?, ["bench", probe].iter().chain(words));
    let (metrics, read) = (vec![metric], read_figure as fn(&Run, &str) -> Option<Vec<f64>>);
    Ok(Subject { parameters, metrics, read, prints_the_same: false, ..Subject::of_program("", program) })
}

/// Lines of a depth, the best round and the median one; the best tells what the allocator takes when nothing disturbs.
fn read_pairs(_: &Run, printed: &str) -> Option<Vec<f64>> {
    let best = |depth: &str| {
        let line = printed.lines().find(|line| line.split(' ').next() == Some(depth))?;
        line.split(' ').nth(1)?.parse().ok()
    };
    DEPTHS.iter().map(|(depth, _)| best(depth)).collect()
}

/// The answer, the memory before and after, and how many threads ran beside their creator, of 10,000.
fn read_threads(run: &Run, printed: &str) -> Option<Vec<f64>> {
    let figures: Option<Vec<f64>> = printed.split_whitespace().skip(1).map(|word| word.parse().ok()).collect();
    let [before, after, beside] = figures?.try_into().ok()?;
    // A malloc that takes memory back leaves less than nothing, which has no ratio.
    Some(vec![run.cost.wall_s, f64::max(after - before, 0.0), beside / 100.0])
}
