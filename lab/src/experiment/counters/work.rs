//! Parts e and f: programs, which are started under the malloc. One does nothing, the others do longer real work.

use anyhow::Result;

use super::{Blocks, EAGER, LAZY, MAIN_CPUS, Measured, Part, at_cpus, library, measured};
use crate::arm::{Arm, COMMENSAL, GLIBC};
use crate::blocks::Subject;
use crate::experiment::probing::tables;
use crate::experiment::startup::{self, SYSTEM_TIME};
use crate::experiment::{LAZY_COUNTERS, Setting};
use crate::json::Documented;
use crate::metric::{CPU, SYSTEM, USER, WALL};
use crate::parameters::Parameters;
use crate::process::Run;
use crate::{machine, report, suite, table};

const BLOCKS_OF_SPAWN: Blocks = Blocks::of(12, 150);
/// The main number and what the document has besides.
const CPUS_OF_SPAWN: [u64; 3] = [2, 80, MAIN_CPUS];

/// This malloc laid out at the start, for as many CPUs as a row says, and the same with its usual settings. None without the library.
fn eager_and_lazy(setting: &Setting) -> Option<[Arm; 2]> {
    let library = library(setting)?;
    let with = |name: &str, settings: &str| Arm::commensal(name, library, Some(settings.to_owned()));
    Some([with(EAGER, "lazy:off"), with(LAZY, "lazy:on")])
}

/// What a row asks for of both.
fn settings(cpus: u64) -> Option<String> {
    Some(format!("possible_cpus:{cpus}"))
}

/// Part e: fork and exec of a program that does nothing, in a loop on one CPU, as the document has it: under this
/// malloc, lazy, and laid out for all CPUs at the start; under every installed peer; and with nothing preloaded.
pub fn spawn(setting: &Setting) -> Result<Measured> {
    let Some(ours) = eager_and_lazy(setting) else { return Ok(Measured::default()) };
    let others = setting.arms.iter().filter(|arm| arm.name != COMMENSAL).cloned();
    let arms: Vec<Arm> = ours.into_iter().chain(others).collect();
    let subject = |cpus| Subject { parameters: at_cpus(cpus), settings: settings(cpus), ..startup::subject() };
    let analysis = measured(setting, CPUS_OF_SPAWN.map(subject).into(), &arms, BLOCKS_OF_SPAWN, machine::quiet_cpu())?;
    let documents = SYSTEM_TIME.map(|(cpus, value)| {
        let said = (LAZY_COUNTERS, format!("system time of fork, {cpus} cores"), value);
        Documented::of([EAGER, LAZY], &startup::SYSTEM, at_cpus(cpus), said)
    });
    let sheets = tables(&analysis, |metric| metric.unit == "s", table::of_subjects);
    let title = "e. Fork and exec of a program that does nothing, on one CPU";
    let part = Part { sheets, ..Part::of(title, analysis, report::usual_plots) };
    Ok(Measured::from(part).documented(documents))
}

const BLOCKS: Blocks = Blocks::of(7, 40);
pub const MAKE: &str = "make";
pub const GIT: &str = "git";
/// System time over that of a kernel with eager counters, on 256 cores: kernbench, gitsource.
pub const KERNBENCH: f64 = 1.0 - 0.014;
pub const GITSOURCE: f64 = 1.0 - 0.0312;

/// One of the two, with the malloc laid out for the main number of CPUs where it is eager.
pub fn of_work(name: &str) -> Parameters {
    Parameters::of_workload(name).with("possible_cpus", MAIN_CPUS)
}

/// Part f: longer real work, as kernbench and gitsource were: a C project is compiled by `make -j2`, and a script
/// does what developers do with git. Both are made by the suite, so that every machine does the same.
pub fn work(setting: &Setting) -> Result<Measured> {
    let Some(ours) = eager_and_lazy(setting) else { return Ok(Measured::default()) };
    let suite::Programs { subjects, missing, .. } = suite::programs_named(setting.scratch.path(), &[MAKE, GIT])?;
    let missing = missing.iter().map(|missing| format!("Not measured: f. {missing}.")).collect();
    if subjects.is_empty() {
        return Ok(Measured { parts: Vec::new(), missing });
    }
    let subjects = subjects.into_iter().map(|subject| Subject {
        parameters: of_work(&subject.name()),
        settings: settings(MAIN_CPUS),
        metrics: vec![CPU, SYSTEM, USER, WALL],
        read: costs,
        must_succeed: true,
        ..subject
    });
    let none = setting.arms.iter().filter(|arm| arm.name == GLIBC).cloned();
    let arms: Vec<Arm> = ours.into_iter().chain(none).collect();
    let analysis = measured(setting, subjects.collect(), &arms, BLOCKS, None)?;
    let known = [(MAKE, "kernbench", KERNBENCH), (GIT, "gitsource", GITSOURCE)];
    let documents = known.map(|(program, name, value)| {
        let said = (LAZY_COUNTERS, format!("system time of {name}, {MAIN_CPUS} cores"), value);
        Documented::of([EAGER, LAZY], &SYSTEM, of_work(program), said)
    });
    let sheets = tables(&analysis, |_| true, table::of_subjects);
    let title = "f. Longer work: make -j2 of a C project, and a script of git commands";
    let part = Part { sheets, ..Part::of(title, analysis, report::usual_plots) };
    Ok(Measured { missing, ..Measured::from(part).documented(documents) })
}

fn costs(run: &Run, _: &str) -> Option<Vec<f64>> {
    let cost = run.cost;
    Some(vec![cost.user_s + cost.system_s, cost.system_s, cost.user_s, cost.wall_s])
}
