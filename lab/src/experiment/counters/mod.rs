//! Lazy counters: what it costs to have a per-CPU counter ready for many CPUs, and what waiting for a second thread saves.
//!
//! | file | part |
//! |---|---|
//! | `life` | a. an object is created, updated and destroyed |
//! | `shared` | b. two threads share it |
//! | `update` | c. one update |
//! | `look` | d. reading and summing |
//! | `spawn` | e. fork and exec of a program that does nothing |
//! | `work` | f. longer real work: make, git |
//!
//! `figures` finds what was measured by its names in the JSON, `claims` holds it against the document, and `curves` draws it. Parts a to d run the command's
//! own probe, one arm of one row in a process of its own; so the order of runs and the statistics are those of whole programs.

mod claims;
mod curves;
mod figures;
mod life;
mod look;
mod shared;
mod spawn;
mod update;
mod work;

use std::path::Path;

use anyhow::Result;

pub use figures::Figures;

use super::{Experiment, LAZY_COUNTERS, Outcome, Part, Setting};
use crate::analysis::Analysis;
use crate::arm::{Arm, COMMENSAL};
use crate::blocks::{self, Length, Plan, Subject};
use crate::metric::Metric;
use crate::parameters::Parameters;
use crate::process::{Program, Run};
use crate::sheet::Sheet;
use crate::table;

/// Numbers of CPUs that per-CPU memory is laid out for.
const CPUS: [u64; 5] = [2, 8, 80, 256, 512];
/// The number that the other rows are measured at: the document's larger machine.
const MAIN_CPUS: u64 = 256;
/// Updates in a task.
const UPDATES: [u64; 4] = [8, 64, 512, 4096];
/// What a row that says nothing of updates has.
const USUAL_UPDATES: u64 = UPDATES[0];

const EAGER: &str = "eager";
const MERGED: &str = "merged";
const CACHED: &str = "cached";
const LAZY: &str = "lazy";
const LAZY_AND_CACHED: &str = "lazy and cached";
const ATOMIC: &str = "atomic";
const PLAIN: &str = "plain";
const TOLD: &str = "told";
const CHECKED: &str = "checked";
const PER_CPU: &str = "per-cpu";

const FASTER: [&str; 2] = ["faster", "slower"];
const LESS: [&str; 2] = ["less", "more"];

/// The experiment.
pub struct Counters;

/// What a part hands back: what it measured, and why not the rest.
#[derive(Default)]
struct Measured {
    parts: Vec<Part>,
    missing: Vec<String>,
}

type Measure = fn(&Setting) -> Result<Measured>;

/// All parts. The last two start programs, which a simulated machine has none of.
const PARTS: [Measure; 6] =
    [life::measure, shared::measure, update::measure, look::measure, spawn::measure, work::measure];
const SIMULATED_PARTS: usize = 4;
/// Those that start nothing but the probe.
const COSTS: [Measure; 3] = [life::measure, update::measure, look::measure];

impl Counters {
    /// What a task, an update and a sum cost: parts a, c and d, for who wants no more.
    pub fn costs(&self, setting: &Setting) -> Result<Vec<Part>> {
        Ok(of_parts(&COSTS, setting)?.parts)
    }
}

fn of_parts(parts: &[Measure], setting: &Setting) -> Result<Measured> {
    let mut all = Measured::default();
    for part in parts {
        if setting.interrupt.seen() {
            all.missing.push("Ended early: not all parts were measured.".to_owned());
            break;
        }
        let measured = part(setting)?;
        all.parts.extend(measured.parts);
        all.missing.extend(measured.missing);
    }
    Ok(all)
}

impl Experiment for Counters {
    fn name(&self) -> &'static str {
        "counters"
    }

    fn about(&self) -> &'static str {
        "per-CPU counters for one thread: eager, or lazy"
    }

    fn source(&self) -> &'static str {
        LAZY_COUNTERS
    }

    fn simulates(&self) -> bool {
        true
    }

    fn measure(&self, setting: &Setting) -> Result<Outcome> {
        let machine = setting.machine.clone();
        let possible = if machine.is_simulated() { &PARTS[..SIMULATED_PARTS] } else { &PARTS[..] };
        let Measured { parts, mut missing } = of_parts(possible, setting)?;
        if machine.is_simulated() {
            missing.push("Not simulated: programs that are started, and calls of the library in C.".to_owned());
        }
        let about = EXPLANATION.lines().map(str::to_owned).collect();
        let claims = claims::claims(&parts).into_iter();
        let claims = claims.map(|claim| if machine.is_simulated() { claim.simulated_at(machine.cpus) } else { claim });
        let remarks = claims::remarks(&parts, &machine).into_iter().chain(missing).collect();
        Ok(Outcome { claims: claims.collect(), machine, about, remarks, parts })
    }
}

const EXPLANATION: &str = "\
The object is modelled on the kernel's mm_struct: four counters, and two per-CPU members more. Eager: three blocks, zeroed for all CPUs; \
merged: one block; cached: one ready block, wiped when it is given back, as far as it was touched; lazy: words for the owner, and no block \
until a second thread comes; lazy and cached: then a ready block. Setting up for N possible CPUs is work for one thread, so it is \
measured for real; what many CPUs do to each other cannot be told on few, and is not claimed.
Part c: checked is a plain word behind a look at another, the least that any counter with a state does; per-cpu is a counter that has its \
cells from the beginning; told is lazy where the caller says whose the counter is. Sixteen words that are compared lie as the counters \
do, apart or side by side: some processors write two words of a line at once. Calls go to libraries, each arm's with a function of the same name.
Times of parts a to d are the best of some rounds in a process of its own for each arm and block. Bytes are counted: the object itself, and \
for each block one line of its head and (2 + rows) × its width, where rows are the CPUs that are laid out, or what was touched.";

/// Arms that the probe has inside.
fn forms<const N: usize>(names: [&str; N]) -> Vec<Arm> {
    names.map(|name| Arm::told(name, name.replace(' ', "-"))).into()
}

/// The library, if there is one.
fn library(setting: &Setting) -> Option<&Path> {
    setting.arms.iter().find(|arm| arm.name == COMMENSAL)?.library.as_deref()
}

/// A run of the command's own probe, which prints as many figures as there are metrics.
fn probe(setting: &Setting, words: &[String], parameters: Parameters, metrics: &[Metric]) -> Subject {
    let cpus = setting.machine.cpus.to_string();
    let simulated: &[&str] = if setting.machine.is_simulated() { &["simulated", &cpus] } else { &[] };
    let first = ["commensal", "workload", "counters"].into_iter().chain(simulated.iter().copied());
    let words = first.chain(words.iter().map(String::as_str));
    let mut program = Program::new(&setting.command, words);
    program.environment.clear();
    let metrics = metrics.to_vec();
    Subject { parameters, metrics, read: printed, prints_the_same: false, ..Subject::of_program("", program) }
}

fn printed(_: &Run, printed: &str) -> Option<Vec<f64>> {
    printed.split_whitespace().map(|word| word.parse().ok()).collect()
}

/// How many blocks a part has: when it must be quick, and else.
struct Blocks {
    quick: usize,
    usual: usize,
}

/// Measures under these arms, on one CPU if one is named.
fn measured(
    setting: &Setting,
    subjects: Vec<Subject>,
    arms: &[Arm],
    blocks: Blocks,
    cpu: Option<usize>,
) -> Result<Analysis> {
    let usual = if setting.quick { blocks.quick } else { blocks.usual };
    let length = Length::Blocks(setting.blocks.unwrap_or(usual));
    let plan = Plan { cpu, ..Plan::of(length, setting.seed) };
    Ok(Analysis::of(blocks::measure(subjects, arms, plan, &setting.interrupt)?))
}

/// A table with every arm's own figures for each of the metrics.
fn tables(analysis: &Analysis) -> Vec<Sheet> {
    if analysis.measured.blocks == 0 {
        return Vec::new();
    }
    (0..analysis.measured.rows[0].metrics.len()).map(|metric| table::figures(analysis, metric)).collect()
}

/// Laid out for so many CPUs.
fn at_cpus(cpus: u64) -> Parameters {
    Parameters::default().with("possible_cpus", cpus)
}

/// Likewise, with so many updates in a task.
fn with_updates(cpus: u64, updates: u64) -> Parameters {
    if updates == USUAL_UPDATES { at_cpus(cpus) } else { at_cpus(cpus).with("updates", updates) }
}

/// Nanoseconds of something, as the probe prints them.
const fn nanoseconds(name: &'static str, title: &'static str) -> Metric {
    Metric { name, unit: "ns", title, words: FASTER, resolution: 1e-5 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::{Cost, End};

    #[test]
    fn figures_are_read_as_they_are_printed() {
        let run = Run { end: End::Exited(0), cost: Cost::default(), left_running: false };
        assert_eq!(printed(&run, "3.17059 0.52000 80.00000\n"), Some(vec![3.17059, 0.52, 80.0]));
        assert_eq!(printed(&run, "no figures\n"), None);
    }

    /// The names in the JSON are fixed.
    #[test]
    fn names_are_those_that_results_are_compared_by() {
        let metrics = life::METRICS.iter().chain([&shared::UPGRADE, &shared::TOTAL]).chain(&update::METRICS);
        let names: Vec<&str> = metrics.chain(&look::METRICS).map(|metric| metric.name).collect();
        for name in [
            "create_destroy_ns",
            "create_destroy_alive_ns",
            "setup_share",
            "bytes_per_object",
            "owner_add_ns",
            "remote_add_ns",
            "upgraded_add_ns",
            "upgrade_ns",
            "auto_add_ns",
            "called_owner_add_ns",
            "called_upgraded_add_ns",
            "shared_total_ns",
            "read_ns",
            "sum_ns",
        ] {
            assert!(names.contains(&name), "{name} is missing in {names:?}");
        }
        let words: Vec<String> = forms([EAGER, LAZY_AND_CACHED]).iter().flat_map(|arm| arm.words.clone()).collect();
        assert_eq!(words, ["eager", "lazy-and-cached"]);
        assert_eq!(with_updates(256, 8), at_cpus(256), "eight updates are not named");
        assert_eq!(with_updates(256, 64).number("updates"), Some(64));
    }
}
