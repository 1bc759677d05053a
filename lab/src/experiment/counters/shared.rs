//! Part b: two threads share the object, as in the document's "parallel-true".

use anyhow::Result;

use super::{
    Blocks, CPUS, EAGER, FORMS, LAZY, LAZY_AND_CACHED, MAIN_CPUS, Measured, Part, USUAL_UPDATES, at_cpus, curves,
    forms, measured, nanoseconds, probe,
};
use crate::analysis::Analysis;
use crate::experiment::{LAZY_COUNTERS, Setting};
use crate::json::{Compared, Documented};
use crate::machine;
use crate::metric::Metric;
use crate::parameters::Parameters;
use crate::report::Figure;

const BLOCKS: Blocks = Blocks::of(8, 40);

pub const UPGRADE: Metric = nanoseconds("upgrade_ns", "upgrade");
pub const TOTAL: Metric = nanoseconds("shared_total_ns", "task of two threads");

/// The document's two threads are 2 to 4 % better.
pub const TWO_THREADS: f64 = 0.97;

/// Two threads share an object that is laid out for so many CPUs.
pub fn by_two(cpus: u64) -> Parameters {
    at_cpus(cpus).with("threads", 2)
}

pub fn measure(setting: &Setting) -> Result<Measured> {
    let mut done = Measured::from(upgrade(setting)?);
    if setting.machine.cpus < 2 {
        done.missing.push("Not measured: what two threads do, as there is one CPU.".to_owned());
    } else {
        done.parts.push(both(setting)?);
    }
    Ok(done)
}

fn upgrade(setting: &Setting) -> Result<Part> {
    let subject = |cpus: u64| probe(setting, &format!("counters upgrade {cpus}"), at_cpus(cpus), &[UPGRADE]);
    let subjects = CPUS.map(subject).into();
    let analysis = measured(setting, subjects, &forms([LAZY, LAZY_AND_CACHED]), BLOCKS, machine::quiet_cpu())?;
    let title = "b. A second thread is announced: the upgrade alone";
    Ok(Part::of(title, analysis, plots))
}

fn both(setting: &Setting) -> Result<Part> {
    let line = |cpus: u64| format!("counters shared {cpus} {USUAL_UPDATES}");
    let subject = |cpus: u64| probe(setting, &line(cpus), by_two(cpus), &[TOTAL]);
    let analysis = measured(setting, CPUS.map(subject).into(), &forms(FORMS), BLOCKS, None)?;
    let title = "b. Create, announce, hand over, 8 updates by each of two threads, destroy";
    Ok(Part { document, ..Part::of(title, analysis, plots) })
}

fn plots(analysis: &Analysis) -> Vec<Figure> {
    let title = format!("{}, by possible CPUs", analysis.measured.rows[0].metrics[0].title);
    curves::by_cpus(analysis, 0, &title).into_iter().collect()
}

fn document(of: &Compared) -> Option<Documented> {
    let is_it = of.baseline.name == EAGER && of.candidate.name == LAZY && *of.parameters == by_two(MAIN_CPUS);
    let figure = "two threads (parallel-true), 2 to 4 % better; of whole processes".to_owned();
    is_it.then(|| Documented { source: LAZY_COUNTERS.to_owned(), figure, value: TWO_THREADS })
}
