//! Parts a, b and d: the object, by possible CPUs or updates. It lives and dies, two threads share it, and its counters
//! are read. Their plots have a curve for each form.

use anyhow::Result;

use super::{
    Blocks, CPUS, EAGER, FORMS, LAZY, LAZY_AND_CACHED, LESS, MAIN_CPUS, Measured, Part, UPDATES, USUAL_UPDATES,
    at_cpus, forms, measured, nanoseconds, probe, with_updates,
};
use crate::analysis::{Analysis, CONTROL};
use crate::experiment::{LAZY_COUNTERS, Setting};
use crate::json::{Compared, Documented};
use crate::machine;
use crate::metric::Metric;
use crate::parameters::Parameters;
use crate::report::Figure;
use crate::report::plot::{self, Curve, Scale};

/// Of parts a, b and d.
const BLOCKS: Blocks = Blocks::of(8, 40);

/// In the order in which the probe prints them.
pub const LIFE: [Metric; 5] = [
    nanoseconds("create_destroy_ns", "create, update, destroy"),
    nanoseconds("create_destroy_alive_ns", "the same with 256 alive"),
    Metric { resolution: 0.01, ..nanoseconds("setup_ns", "set-up and tear-down") },
    Metric { name: "setup_share", unit: "1", title: "their share of the task", words: LESS, resolution: 1e-4 },
    Metric { name: "bytes_per_object", unit: "B", title: "bytes written for them", words: LESS, resolution: 1.0 },
];
const SETUP: usize = 2;
const SHARE: usize = 3;

/// Numbers of CPUs with the usual updates, then numbers of updates at the main number of CPUs.
fn rows_of_life() -> impl Iterator<Item = (u64, u64)> {
    let more = UPDATES.into_iter().filter(|&updates| updates != USUAL_UPDATES);
    CPUS.into_iter().map(|cpus| (cpus, USUAL_UPDATES)).chain(more.map(|updates| (MAIN_CPUS, updates)))
}

/// Part a: an object is created, updated by its owner, and destroyed.
pub fn life(setting: &Setting) -> Result<Measured> {
    let subjects = rows_of_life().map(|(cpus, updates)| {
        probe(setting, &format!("counters life {cpus} {updates}"), with_updates(cpus, updates), &LIFE)
    });
    let analysis = measured(setting, subjects.collect(), &forms(FORMS), BLOCKS, machine::quiet_cpu())?;
    let title = "a. An object is created, updated by its owner, and destroyed";
    Ok(Part::of(title, analysis, plots_of_life).into())
}

fn plots_of_life(analysis: &Analysis) -> Vec<Figure> {
    let by_cpus = by_cpus(analysis, SETUP, "set-up and tear-down, by possible CPUs");
    let by_updates = by_updates(analysis, SHARE, "their share at 256, by updates");
    by_cpus.into_iter().chain(by_updates).collect()
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
pub fn shared(setting: &Setting) -> Result<Measured> {
    let mut done = Measured::from(upgrade(setting)?);
    if setting.machine.cpus < 2 {
        done.missing.push("Not measured: two threads, because this machine has one CPU.".to_owned());
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
    Ok(Part::of(title, analysis, plots_of_shared))
}

fn both(setting: &Setting) -> Result<Part> {
    let line = |cpus: u64| format!("counters shared {cpus} {USUAL_UPDATES}");
    let subject = |cpus: u64| probe(setting, &line(cpus), by_two(cpus), &[TOTAL]);
    let analysis = measured(setting, CPUS.map(subject).into(), &forms(FORMS), BLOCKS, None)?;
    let title = "b. Create, announce, hand over, 8 updates by each of two threads, destroy";
    Ok(Part { document, ..Part::of(title, analysis, plots_of_shared) })
}

fn plots_of_shared(analysis: &Analysis) -> Vec<Figure> {
    let title = format!("{}, by possible CPUs", analysis.measured.rows[0].metrics[0].title);
    by_cpus(analysis, 0, &title).into_iter().collect()
}

fn document(of: &Compared) -> Option<Documented> {
    let is_it = of.baseline.name == EAGER && of.candidate.name == LAZY && *of.parameters == by_two(MAIN_CPUS);
    let figure = "two threads (parallel-true), 2 to 4 % better; of whole processes".to_owned();
    is_it.then(|| Documented { source: LAZY_COUNTERS.to_owned(), figure, value: TWO_THREADS })
}

/// Slots that were touched where a row says nothing of it.
const USUAL_SLOTS: u64 = 2;
const MORE_SLOTS: [u64; 3] = [8, 80, 256];

/// In the order in which the probe prints them.
pub const LOOK: [Metric; 2] = [nanoseconds("read_ns", "reading"), nanoseconds("sum_ns", "sum")];

const SUM: usize = 1;

/// By CPUs with few slots touched, then by slots at the main number of CPUs.
fn rows_of_look() -> impl Iterator<Item = (u64, u64, Parameters)> {
    let few = CPUS.into_iter().map(|cpus| (cpus, USUAL_SLOTS, at_cpus(cpus)));
    few.chain(MORE_SLOTS.into_iter().map(|slots| (MAIN_CPUS, slots, at_cpus(MAIN_CPUS).with("touched_slots", slots))))
}

/// Part d: reading and summing a counter after its upgrade. An eager one looks at the rows of all CPUs, one from a
/// cache of ready blocks at those that were touched.
pub fn look(setting: &Setting) -> Result<Measured> {
    let subject = |(cpus, slots, parameters): (u64, u64, Parameters)| {
        probe(setting, &format!("counters look {cpus} {slots}"), parameters, &LOOK)
    };
    let arms = forms([EAGER, LAZY_AND_CACHED]);
    let analysis = measured(setting, rows_of_look().map(subject).collect(), &arms, BLOCKS, machine::quiet_cpu())?;
    let title = format!(
        "d. Reading and summing an upgraded counter, with {USUAL_SLOTS} slots touched unless a row says otherwise"
    );
    Ok(Part::of(title, analysis, |analysis| by_cpus(analysis, SUM, "sum, by possible CPUs").into_iter().collect())
        .into())
}

/// One metric in nanoseconds over possible CPUs, where nothing else varies; both axes have logarithms.
fn by_cpus(analysis: &Analysis, metric: usize, title: &str) -> Option<Figure> {
    let at = |parameters: &Parameters| {
        let is_usual = ["updates", "touched_slots"].iter().all(|name| parameters.number(name).is_none());
        parameters.number("possible_cpus").filter(|_| is_usual)
    };
    let axes = [Scale::At(marks(CPUS)), Scale::Powers("ns")];
    plot::curves(title, &curves(analysis, metric, at), axes)
}

/// A share over the updates in a task, at the main number of CPUs.
fn by_updates(analysis: &Analysis, metric: usize, title: &str) -> Option<Figure> {
    let at = |parameters: &Parameters| {
        let is_main = parameters.number("possible_cpus") == Some(MAIN_CPUS);
        is_main.then(|| parameters.number("updates").unwrap_or(USUAL_UPDATES))
    };
    let axes = [Scale::At(marks(UPDATES)), Scale::Percent];
    plot::curves(title, &curves(analysis, metric, at), axes)
}

fn marks<const N: usize>(numbers: [u64; N]) -> Vec<f64> {
    numbers.map(|number| number as f64).into()
}

/// A curve for each arm but the control: its medians, at what a row says of the axis.
fn curves(analysis: &Analysis, metric: usize, at: impl Fn(&Parameters) -> Option<u64>) -> Vec<Curve> {
    let arms = analysis.measured.arms.iter().enumerate().filter(|(arm, _)| *arm != CONTROL);
    let of_arm = |arm: usize| {
        let rows = analysis.measured.rows.iter().zip(&analysis.rows);
        let points =
            rows.filter_map(|(row, judged)| Some((at(&row.parameters)? as f64, judged[metric].medians[arm]?.value)));
        let mut points: Vec<(f64, f64)> = points.collect();
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        points
    };
    arms.map(|(arm, described)| Curve { arm, name: described.name.clone(), points: of_arm(arm) }).collect()
}

#[cfg(test)]
mod tests {
    use super::super::example;
    use super::*;
    use crate::report::plot::count_of_dots;

    fn at(curves: &[Curve], curve: usize) -> Vec<f64> {
        curves[curve].points.iter().map(|point| point.0).collect()
    }

    #[test]
    fn curve_goes_through_each_number_once() {
        let part = example(&LIFE, rows_of_life().map(|(cpus, updates)| with_updates(cpus, updates)));
        let of_cpus =
            curves(&part.analysis, 2, |row| row.number("possible_cpus").filter(|_| row.number("updates").is_none()));
        assert_eq!(of_cpus.len(), 5, "a curve for each form, none for the control");
        assert_eq!(at(&of_cpus, 0), [2.0, 8.0, 80.0, 256.0, 512.0]);
        let (cpus, updates) = (by_cpus(&part.analysis, 2, "a"), by_updates(&part.analysis, 3, "b"));
        let (cpus, updates) = (cpus.unwrap().svg, updates.unwrap().svg);
        // Five forms at five numbers of CPUs and at four of updates, and five in the key.
        assert_eq!((count_of_dots(&cpus), count_of_dots(&updates)), (5 * 5 + 5, 5 * 4 + 5));
        assert!([cpus, updates].iter().all(|svg| svg.contains("lazy and cached") && !svg.contains('#')));
    }

    #[test]
    fn rows_where_something_else_varies_are_left_out() {
        let part = example(&LOOK, rows_of_look().map(|(_, _, parameters)| parameters));
        let svg = by_cpus(&part.analysis, 1, "sum").unwrap().svg;
        assert_eq!(count_of_dots(&svg), 5 * 5 + 5);
    }
}
