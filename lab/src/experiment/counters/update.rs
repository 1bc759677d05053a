//! Part c: one update, of a counter that the thread owns, of another's, and of an upgraded one; and what finding out whose it is costs.

use std::thread::available_parallelism;

use anyhow::Result;

use super::{ATOMIC, Blocks, LAZY, Measured, PLAIN, Part, TOLD, forms, measured, nanoseconds, probe, tables};
use crate::analysis::{Analysis, CONTROL, Judged};
use crate::arm::Arm;
use crate::blocks::{self, Subject};
use crate::experiment::Setting;
use crate::json::UNDOCUMENTED;
use crate::machine;
use crate::metric::Metric;
use crate::parameters::Parameters;
use crate::report::Figure;
use crate::report::plot::{self, Scale};

const BLOCKS: Blocks = Blocks { quick: 8, usual: 60 };

const OWNER: Metric = nanoseconds("owner_add_ns", "update by the owner");
const REMOTE: Metric = nanoseconds("remote_add_ns", "update of another's counter");
const UPGRADED: Metric = nanoseconds("upgraded_add_ns", "update of an upgraded counter");
const AUTO: Metric = nanoseconds("auto_add_ns", "update, the path chosen or told");
/// All of the part's.
#[cfg(test)]
pub const METRICS: [Metric; 4] = [OWNER, REMOTE, UPGRADED, AUTO];

fn parameter(name: &str, value: impl Into<serde_json::Value>) -> Parameters {
    Parameters::default().with(name, value)
}

/// A row: its parameters, and what the probe is told.
type Row = (Parameters, &'static [&'static str]);

/// One counter, so that each update waits for the one before, or sixteen in turn.
fn of_owner() -> Vec<Row> {
    vec![(parameter("counters", 1), &["own", "1"]), (parameter("counters", 16), &["own", "16"])]
}

fn of_upgraded() -> Vec<Row> {
    vec![(parameter("threads", 1), &["upgraded", "1"]), (parameter("threads", 2), &["upgraded", "2"])]
}

fn of_paths() -> Vec<Row> {
    vec![
        (parameter("path", "owner"), &["own", "16"]),
        (parameter("path", "remote"), &["others"]),
        (parameter("path", "upgraded"), &["upgraded", "1"]),
    ]
}

/// What needs two CPUs: the counter's owner is another thread that runs.
fn needs_two(words: &[&str]) -> bool {
    matches!(words, ["others"] | ["upgraded", "2"])
}

/// One table: its rows, and its arms, the baseline first.
struct Group {
    title: &'static str,
    metric: Metric,
    rows: Vec<Row>,
    arms: &'static [&'static str],
}

fn groups() -> [Group; 4] {
    const SHARED: &[&str] = &[ATOMIC, LAZY, TOLD];
    let title = "c. One update by the owner";
    let owner = Group { title, metric: OWNER, rows: of_owner(), arms: &[PLAIN, ATOMIC, LAZY, TOLD] };
    let title = "c. One update of a counter that another thread owns";
    let remote = Group { title, metric: REMOTE, rows: vec![(Parameters::default(), &["others"])], arms: SHARED };
    let title = "c. One update of an upgraded counter";
    let upgraded = Group { title, metric: UPGRADED, rows: of_upgraded(), arms: SHARED };
    let title = "c. One update, where the path is chosen, and where it is told";
    let auto = Group { title, metric: AUTO, rows: of_paths(), arms: &[TOLD, LAZY] };
    [owner, remote, upgraded, auto]
}

pub fn measure(setting: &Setting) -> Result<Measured> {
    let is_alone = available_parallelism().map_or(1, usize::from) < 2;
    let mut done = Measured::default();
    for mut group in groups() {
        group.rows.retain(|(_, words)| !(is_alone && needs_two(words)));
        if group.rows.is_empty() {
            done.missing.push(format!("Not measured: {}, as there is one CPU.", group.metric.title));
        } else if !setting.interrupt.seen() {
            done.parts.push(measure_group(setting, group)?);
        }
    }
    Ok(done)
}

fn measure_group(setting: &Setting, group: Group) -> Result<Part> {
    let cpu = if group.rows.iter().any(|(_, words)| needs_two(words)) { None } else { machine::quiet_cpu() };
    let subject = |(parameters, words): Row| -> Subject {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        probe(setting, &words, parameters, &[group.metric])
    };
    let arms: Vec<Arm> = group.arms.iter().flat_map(|arm| forms([*arm])).collect();
    let analysis = measured(setting, group.rows.into_iter().map(subject).collect(), &arms, BLOCKS, cpu)?;
    let (title, sheets) = (group.title.to_owned(), tables(&analysis));
    Ok(Part { title, sheets, analysis, plots, document: UNDOCUMENTED })
}

/// A dot for each arm, a row for each row.
fn plots(analysis: &Analysis) -> Result<Vec<Figure>> {
    let arms = || analysis.measured.arms.iter().enumerate().filter(|(arm, _)| *arm != CONTROL);
    let row = |(row, judged): (&blocks::Row, &Vec<Judged>)| {
        let dots = arms().filter_map(|(arm, _)| Some((arm, judged[0].medians[arm]?.value))).collect();
        (row.name(), dots)
    };
    let rows: Vec<(String, Vec<(usize, f64)>)> = analysis.measured.rows.iter().zip(&analysis.rows).map(row).collect();
    let names: Vec<(usize, &str)> = arms().map(|(arm, described)| (arm, described.name.as_str())).collect();
    let title = analysis.measured.rows[0].metrics[0].title;
    Ok(plot::dots(title, &rows, &names, Scale::Powers("ns"))?.into_iter().map(Figure::bare).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::counters::figures::example;

    #[test]
    fn every_row_has_its_own_parameters() {
        for rows in [of_owner(), of_upgraded(), of_paths()] {
            let names: Vec<String> = rows.iter().map(|(parameters, _)| parameters.to_string()).collect();
            assert!(
                names.iter().enumerate().all(|(at, name)| !name.is_empty() && !names[..at].contains(name)),
                "{names:?}"
            );
        }
        assert!(needs_two(&["others"]) && !needs_two(&["own", "1"]));
    }

    #[test]
    fn each_row_has_a_dot_for_each_arm() {
        let part = example(&[UPGRADED], of_upgraded().into_iter().map(|(parameters, _)| parameters));
        let figures = plots(&part.analysis).unwrap();
        let [figure] = &figures[..] else { panic!("one plot") };
        assert_eq!(figure.svg.matches("<circle").count(), 2 * 5 + 5, "in two rows, and in the key");
        assert!(figure.svg.contains("2 threads") && !figure.svg.contains('#'));
    }
}
