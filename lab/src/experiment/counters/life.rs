//! Part a: an object is created, updated by its owner, and destroyed.

use anyhow::Result;

use super::{
    Blocks, CPUS, FORMS, LESS, MAIN_CPUS, Measured, Part, UPDATES, USUAL_UPDATES, curves, forms, measured, nanoseconds,
    probe, with_updates,
};
use crate::analysis::Analysis;
use crate::experiment::Setting;
use crate::machine;
use crate::metric::Metric;
use crate::report::Figure;

const BLOCKS: Blocks = Blocks::of(8, 40);

/// In the order in which the probe prints them.
pub const METRICS: [Metric; 5] = [
    nanoseconds("create_destroy_ns", "create, update, destroy"),
    nanoseconds("create_destroy_alive_ns", "the same with 256 alive"),
    Metric { resolution: 0.01, ..nanoseconds("setup_ns", "set-up and tear-down") },
    Metric { name: "setup_share", unit: "1", title: "their share of the task", words: LESS, resolution: 1e-4 },
    Metric { name: "bytes_per_object", unit: "B", title: "bytes written for them", words: LESS, resolution: 1.0 },
];
const SETUP: usize = 2;
const SHARE: usize = 3;

/// Numbers of CPUs with the usual updates, then numbers of updates at the main number of CPUs.
fn rows() -> impl Iterator<Item = (u64, u64)> {
    let more = UPDATES.into_iter().filter(|&updates| updates != USUAL_UPDATES);
    CPUS.into_iter().map(|cpus| (cpus, USUAL_UPDATES)).chain(more.map(|updates| (MAIN_CPUS, updates)))
}

/// What the rows are told from each other by.
#[cfg(test)]
pub fn parameters() -> impl Iterator<Item = crate::parameters::Parameters> {
    rows().map(|(cpus, updates)| with_updates(cpus, updates))
}

pub fn measure(setting: &Setting) -> Result<Measured> {
    let subjects = rows().map(|(cpus, updates)| {
        probe(setting, &format!("counters life {cpus} {updates}"), with_updates(cpus, updates), &METRICS)
    });
    let analysis = measured(setting, subjects.collect(), &forms(FORMS), BLOCKS, machine::quiet_cpu())?;
    let title = "a. An object is created, updated by its owner, and destroyed";
    Ok(Part::of(title, analysis, plots).into())
}

fn plots(analysis: &Analysis) -> Vec<Figure> {
    let by_cpus = curves::by_cpus(analysis, SETUP, "set-up and tear-down, by possible CPUs");
    let by_updates = curves::by_updates(analysis, SHARE, "their share at 256, by updates");
    by_cpus.into_iter().chain(by_updates).collect()
}
