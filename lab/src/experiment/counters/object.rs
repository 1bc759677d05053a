//! Parts a, b and d: the object, by possible CPUs or updates. It lives and dies, two threads share it, and its counters
//! are read. Their plots have a curve for each form.

use anyhow::Result;

use super::{
    Blocks, CPUS, EAGER, FORMS, LAZY, LAZY_AND_CACHED, MAIN_CPUS, Measured, UPDATES, USUAL_UPDATES, at_cpus, forms,
    nanoseconds, part, with_updates,
};
use crate::analysis::{Analysis, CONTROL, Judged};
use crate::blocks::Row;
use crate::experiment::{LAZY_COUNTERS, Setting};
use crate::json::Documented;
use crate::metric::{LESS, Metric};
use crate::parameters::Parameters;
use crate::report::Figure;
use crate::report::plot::{self, Curve, Scale};

const BLOCKS: Blocks = Blocks { are_on_one_cpu: true, ..Blocks::of(8, 40) };

/// In the order in which the probe prints them.
pub const LIFE: [Metric; 5] = [
    nanoseconds("create_destroy_ns", "create, update, destroy"),
    nanoseconds("create_destroy_alive_ns", "the same with 256 alive"),
    Metric { resolution: 0.01, ..nanoseconds("setup_ns", "set-up and tear-down") },
    Metric::new("setup_share", "1", "their share of the task", LESS, 1e-4),
    Metric::new("bytes_per_object", "B", "bytes written for them", LESS, 1.0),
];
const SETUP: usize = 2;

/// Numbers of CPUs with the usual updates, then numbers of updates at the main number of CPUs.
fn rows_of_life() -> impl Iterator<Item = (u64, u64)> {
    let more = UPDATES.into_iter().filter(|&updates| updates != USUAL_UPDATES);
    CPUS.into_iter().map(|cpus| (cpus, USUAL_UPDATES)).chain(more.map(|updates| (MAIN_CPUS, updates)))
}

/// Part a: an object is created, updated by its owner, and destroyed.
pub fn life(setting: &Setting) -> Result<Measured> {
    let title = "a. An object is created, updated by its owner, and destroyed";
    let row = |(cpus, updates)| (with_updates(cpus, updates), format!("counters life {cpus} {updates}"));
    part(setting, title, rows_of_life().map(row), &LIFE, &forms(FORMS), BLOCKS, plots_of_life)
}

fn plots_of_life(analysis: &Analysis) -> Vec<Figure> {
    by_cpus(analysis, SETUP, "set-up and tear-down, by possible CPUs").into_iter().collect()
}

const UPGRADE: Metric = nanoseconds("upgrade_ns", "upgrade");
pub const TOTAL: Metric = nanoseconds("shared_total_ns", "task of two threads");

/// The document's two threads are 2 to 4 % better.
pub const TWO_THREADS: f64 = 0.97;

/// Two threads share an object that is laid out for so many CPUs.
pub fn by_two(cpus: u64) -> Parameters {
    at_cpus(cpus).with("threads", 2)
}

/// Part b: two threads share the object, as in the document's "parallel-true".
pub fn upgrade(setting: &Setting) -> Result<Measured> {
    let title = "b. A second thread is announced: the upgrade alone";
    let rows = CPUS.map(|cpus| (at_cpus(cpus), format!("counters upgrade {cpus}")));
    part(setting, title, rows, &[UPGRADE], &forms([LAZY, LAZY_AND_CACHED]), BLOCKS, plots_of_shared)
}

pub fn shared(setting: &Setting) -> Result<Measured> {
    let title = "b. Create, announce, hand over, 8 updates by each of two threads, destroy";
    let rows = CPUS.map(|cpus| (by_two(cpus), format!("counters shared {cpus} {USUAL_UPDATES}")));
    let done = part(setting, title, rows, &[TOTAL], &forms(FORMS), BLOCKS, plots_of_shared)?;
    let figure = "two threads (parallel-true), 2 to 4 % better; of whole processes".to_owned();
    let said = (LAZY_COUNTERS, figure, TWO_THREADS);
    Ok(done.documented([Documented::of([EAGER, LAZY], &TOTAL, by_two(MAIN_CPUS), said)]))
}

fn plots_of_shared(analysis: &Analysis) -> Vec<Figure> {
    let title = format!("{}, by possible CPUs", analysis.measured.rows[0].metrics[0].title);
    by_cpus(analysis, 0, &title).into_iter().collect()
}

/// Slots that were touched where a row says nothing of it.
const USUAL_SLOTS: u64 = 2;
const MORE_SLOTS: [u64; 3] = [8, 80, 256];

/// In the order in which the probe prints them.
pub const LOOK: [Metric; 2] = [nanoseconds("read_ns", "reading"), nanoseconds("sum_ns", "sum")];
const SUM: usize = 1;

/// By CPUs with few slots touched, then by slots at the main number of CPUs.
fn rows_of_look() -> impl Iterator<Item = (Parameters, String)> {
    let few = CPUS.into_iter().map(|cpus| (at_cpus(cpus), cpus, USUAL_SLOTS));
    let more = MORE_SLOTS.map(|slots| (at_cpus(MAIN_CPUS).with("touched_slots", slots), MAIN_CPUS, slots));
    few.chain(more).map(|(parameters, cpus, slots)| (parameters, format!("counters look {cpus} {slots}")))
}

/// Part d: reading and summing a counter after its upgrade. An eager one looks at the rows of all CPUs, one from a
/// cache of ready blocks at those that were touched.
pub fn look(setting: &Setting) -> Result<Measured> {
    let title = "d. Reading and summing an upgraded counter, with 2 slots touched unless a row says otherwise";
    let plots = |analysis: &_| by_cpus(analysis, SUM, "sum, by possible CPUs").into_iter().collect();
    part(setting, title, rows_of_look(), &LOOK, &forms([EAGER, LAZY_AND_CACHED]), BLOCKS, plots)
}

/// One metric in nanoseconds over possible CPUs, where nothing else varies, with a curve for each arm but the control; both axes have
/// logarithms.
fn by_cpus(analysis: &Analysis, metric: usize, title: &str) -> Option<Figure> {
    let at = |parameters: &Parameters| {
        let is_usual = ["updates", "touched_slots"].iter().all(|name| parameters.number(name).is_none());
        parameters.number("possible_cpus").filter(|_| is_usual)
    };
    let rows = || analysis.measured.rows.iter().zip(&analysis.rows);
    let points = |arm: usize| {
        let point = |(row, judged): (&Row, &Vec<Judged>)| {
            Some((at(&row.parameters)? as f64, judged[metric].medians[arm]?.value))
        };
        rows().filter_map(point).collect()
    };
    let arms = analysis.measured.arms.iter().enumerate().filter(|(arm, _)| *arm != CONTROL);
    let curves = arms.map(|(arm, described)| Curve { arm, name: described.name.clone(), points: points(arm) });
    let marks = Scale::At(CPUS.map(|cpus| cpus as f64).into());
    plot::curves(title, &curves.collect::<Vec<_>>(), [marks, Scale::Powers("ns")])
}

#[cfg(test)]
mod tests {
    use super::super::example;
    use super::*;
    use crate::report::plot::count_of_dots;

    #[test]
    fn curve_goes_through_each_number_once_where_nothing_else_varies() {
        let part = example(&LIFE, rows_of_life().map(|(cpus, updates)| with_updates(cpus, updates)));
        // Five forms at five numbers of CPUs, and five in the key; none for the control.
        assert_eq!(count_of_dots(&plots_of_life(&part.analysis)[0].svg), 5 * 5 + 5);
        let part = example(&LOOK, rows_of_look().map(|(parameters, _)| parameters));
        assert_eq!(count_of_dots(&by_cpus(&part.analysis, SUM, "sum").unwrap().svg), 5 * 5 + 5);
    }
}
