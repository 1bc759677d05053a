//! Part c: one update, of a counter that the thread owns, of another's, and of an upgraded one; through a call of the library's C function;
//! and what finding out whose it is costs.

use std::fs;

use anyhow::{Context, Result};

use super::{
    ATOMIC, Blocks, CHECKED, LAZY, Measured, PER_CPU, PLAIN, Part, TOLD, forms, library, measured, nanoseconds, probe,
};
use crate::arm::Arm;
use crate::experiment::Setting;
use crate::experiment::probing::dots;
use crate::machine;
use crate::metric::Metric;
use crate::parameters::Parameters;

const BLOCKS: Blocks = Blocks::of(8, 60);

const OWNER: Metric = nanoseconds("owner_add_ns", "update by the owner");
const REMOTE: Metric = nanoseconds("remote_add_ns", "update of another's counter");
const UPGRADED: Metric = nanoseconds("upgraded_add_ns", "update of an upgraded counter");
const AUTO: Metric = nanoseconds("auto_add_ns", "update, the path chosen or told");
const CALLED_OWNER: Metric = nanoseconds("called_owner_add_ns", "update by the owner, through a call");
const CALLED_UPGRADED: Metric = nanoseconds("called_upgraded_add_ns", "update of an upgraded counter, through a call");

/// Libraries whose counters are words, which are called as the real one's are.
const PLAIN_WORDS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libplain.so"));
const ATOMIC_WORDS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libatomic.so"));

fn parameter(name: &str, value: impl Into<serde_json::Value>) -> Parameters {
    Parameters::default().with(name, value)
}

/// Its arms are others than those of the same name in Rust.
fn in_c() -> Parameters {
    parameter("interface", "C")
}

/// A row: its parameters, and what the probe is told.
type Row = (Parameters, &'static str);

/// One counter, so that each update waits for the one before; sixteen in turn, which lie apart; and sixteen of a set, which lie side by
/// side.
fn of_owner() -> Vec<Row> {
    vec![
        (parameter("counters", 1), "own one"),
        (parameter("counters", 16), "own apart"),
        (parameter("counters", 16).with("in", "a set"), "own in-set"),
    ]
}

fn of_upgraded() -> Vec<Row> {
    vec![(parameter("threads", 1), "upgraded 1"), (parameter("threads", 2), "upgraded 2")]
}

fn of_paths() -> Vec<Row> {
    vec![
        (parameter("path", "owner"), "own apart"),
        (parameter("path", "remote"), "others"),
        (parameter("path", "upgraded"), "upgraded 1"),
    ]
}

/// What needs two CPUs: the counter's owner is another thread that runs.
fn needs_two(words: &str) -> bool {
    ["others", "upgraded 2", "called 2"].contains(&words)
}

/// One table: its rows, and its arms, the baseline first.
struct Group {
    title: &'static str,
    metric: Metric,
    rows: Vec<Row>,
    arms: Vec<Arm>,
}

fn groups() -> [Group; 4] {
    let title = "c. One update by the owner";
    let arms = forms([PLAIN, CHECKED, ATOMIC, PER_CPU, LAZY, TOLD]);
    let owner = Group { title, metric: OWNER, rows: of_owner(), arms };
    let title = "c. One update of a counter that another thread owns";
    let arms = forms([ATOMIC, LAZY, TOLD]);
    let remote = Group { title, metric: REMOTE, rows: vec![(Parameters::default(), "others")], arms };
    let title = "c. One update of an upgraded counter";
    let arms = forms([ATOMIC, PER_CPU, LAZY, TOLD]);
    let upgraded = Group { title, metric: UPGRADED, rows: of_upgraded(), arms };
    let title = "c. One update, with the path found at run time, or told by the caller";
    let auto = Group { title, metric: AUTO, rows: of_paths(), arms: forms([TOLD, LAZY]) };
    [owner, remote, upgraded, auto]
}

/// What programs in C do. None without the library.
fn called_groups(setting: &Setting) -> Result<Option<[Group; 2]>> {
    let Some(library) = library(setting).filter(|_| !setting.machine.is_simulated()) else { return Ok(None) };
    let words = |name: &str, bytes| {
        let file = setting.scratch.path().join(format!("lib{name}.so"));
        fs::write(&file, bytes).with_context(|| format!("cannot write {}", file.display()))?;
        anyhow::Ok(Arm::preloading(name, file))
    };
    let (plain, atomic, lazy) =
        (words(PLAIN, PLAIN_WORDS)?, words(ATOMIC, ATOMIC_WORDS)?, Arm::preloading(LAZY, library));
    let title = "c. One update by the owner, through a call of a C function";
    let rows = vec![(in_c(), "called own")];
    let owner = Group { title, metric: CALLED_OWNER, rows, arms: vec![plain, atomic.clone(), lazy.clone()] };
    let title = "c. One update of an upgraded counter, through a call of a C function";
    let rows = [1, 2].into_iter().zip(["called 1", "called 2"]);
    let rows = rows.map(|(threads, words)| (in_c().with("threads", threads), words)).collect();
    Ok(Some([owner, Group { title, metric: CALLED_UPGRADED, rows, arms: vec![atomic, lazy] }]))
}

pub fn measure(setting: &Setting) -> Result<Measured> {
    let is_alone = setting.machine.cpus < 2;
    let mut done = Measured::default();
    for mut group in groups().into_iter().chain(called_groups(setting)?.into_iter().flatten()) {
        group.rows.retain(|(_, words)| !(is_alone && needs_two(words)));
        if group.rows.is_empty() {
            done.missing.push(format!("Not measured: {}, because this machine has one CPU.", group.metric.title));
        } else if !setting.interrupt.seen() {
            done.parts.push(measure_group(setting, group)?);
        }
    }
    Ok(done)
}

fn measure_group(setting: &Setting, group: Group) -> Result<Part> {
    let cpu = if group.rows.iter().any(|(_, words)| needs_two(words)) { None } else { machine::quiet_cpu() };
    let subject = |(parameters, words): Row| probe(setting, &format!("counters {words}"), parameters, &[group.metric]);
    let analysis = measured(setting, group.rows.into_iter().map(subject).collect(), &group.arms, BLOCKS, cpu)?;
    Ok(Part::of(group.title, analysis, |analysis| dots(analysis, 0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::counters::example;
    use crate::report::plot::count_of_dots;

    #[test]
    fn update_rows_have_distinct_parameters() {
        for rows in [of_owner(), of_upgraded(), of_paths()] {
            let names: Vec<String> = rows.iter().map(|(parameters, _)| parameters.to_string()).collect();
            assert!(
                names.iter().enumerate().all(|(at, name)| !name.is_empty() && !names[..at].contains(name)),
                "{names:?}"
            );
        }
        let two = ["others", "upgraded 2", "called 2"];
        let one = ["own one", "upgraded 1", "called 1", "called own"];
        assert!(two.into_iter().all(needs_two) && !one.into_iter().any(needs_two));
    }

    #[test]
    fn plain_and_atomic_words_differ() {
        assert_ne!(PLAIN_WORDS, ATOMIC_WORDS);
    }

    #[test]
    fn plot_of_updates_has_a_dot_for_each_row_and_arm() {
        let part = example(&[UPGRADED], of_upgraded().into_iter().map(|(parameters, _)| parameters));
        let figures = dots(&part.analysis, 0);
        let [figure] = &figures[..] else { panic!("one plot") };
        assert_eq!(count_of_dots(&figure.svg), 2 * 5 + 5, "in two rows, and in the key");
        assert!(figure.svg.contains("2 threads") && !figure.svg.contains('#'));
    }
}
