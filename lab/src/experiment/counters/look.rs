//! Part d: reading and summing a counter after its upgrade. An eager one looks at the rows of all CPUs, one from a cache of ready blocks
//! at those that were touched.

use anyhow::Result;

use super::{
    Blocks, CPUS, EAGER, LAZY_AND_CACHED, MAIN_CPUS, Measured, Part, at_cpus, curves, forms, measured, nanoseconds,
    probe,
};
use crate::analysis::Analysis;
use crate::experiment::Setting;
use crate::machine;
use crate::metric::Metric;
use crate::parameters::Parameters;
use crate::report::Figure;

const BLOCKS: Blocks = Blocks::of(8, 40);
/// Slots that were touched where a row says nothing of it.
const USUAL_SLOTS: u64 = 2;
const MORE_SLOTS: [u64; 3] = [8, 80, 256];

/// In the order in which the probe prints them.
pub const METRICS: [Metric; 2] = [nanoseconds("read_ns", "reading"), nanoseconds("sum_ns", "sum")];

const SUM: usize = 1;

/// By CPUs with few slots touched, then by slots at the main number of CPUs.
fn rows() -> impl Iterator<Item = (u64, u64, Parameters)> {
    let few = CPUS.into_iter().map(|cpus| (cpus, USUAL_SLOTS, at_cpus(cpus)));
    few.chain(MORE_SLOTS.into_iter().map(|slots| (MAIN_CPUS, slots, at_cpus(MAIN_CPUS).with("touched_slots", slots))))
}

/// What the rows are told from each other by.
#[cfg(test)]
pub fn parameters() -> impl Iterator<Item = Parameters> {
    rows().map(|(_, _, parameters)| parameters)
}

pub fn measure(setting: &Setting) -> Result<Measured> {
    let subject = |(cpus, slots, parameters): (u64, u64, Parameters)| {
        probe(setting, &format!("counters look {cpus} {slots}"), parameters, &METRICS)
    };
    let arms = forms([EAGER, LAZY_AND_CACHED]);
    let analysis = measured(setting, rows().map(subject).collect(), &arms, BLOCKS, machine::quiet_cpu())?;
    let title =
        format!("d. Reading and summing an upgraded counter; {USUAL_SLOTS} slots touched, if nothing else is said");
    Ok(Part::of(title, analysis, plots).into())
}

fn plots(analysis: &Analysis) -> Vec<Figure> {
    curves::by_cpus(analysis, SUM, "sum, by possible CPUs").into_iter().collect()
}
