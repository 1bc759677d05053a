//! Part c: one update, of a counter that the thread owns, of another's, and of an upgraded one; and what finding out whose it is
//! costs.

use anyhow::Result;

use super::{ATOMIC, Blocks, CHECKED, LAZY, Measured, PER_CPU, PLAIN, TOLD, forms, nanoseconds, part};
use crate::arm::Arm;
use crate::experiment::Setting;
use crate::experiment::probing::{dots_of_first, of_parts};
use crate::metric::Metric;
use crate::parameters::Parameters;

const BLOCKS: Blocks = Blocks { are_on_one_cpu: true, ..Blocks::of(8, 60) };

/// One table: its rows, with what the probe is told for each, and its arms, the baseline first.
struct Group {
    title: &'static str,
    metric: Metric,
    rows: Vec<(Parameters, &'static str)>,
    arms: Vec<Arm>,
}

fn parameter(name: &str, value: impl Into<serde_json::Value>) -> Parameters {
    Parameters::default().with(name, value)
}

/// One counter, so that each update waits for the one before; sixteen in turn, which lie apart; and sixteen of a set, which lie side by
/// side. Then those of others, and upgraded ones.
fn groups() -> [Group; 4] {
    let of_paths = ["owner", "remote", "upgraded"].map(|path| parameter("path", path));
    [
        Group {
            title: "c. One update by the owner",
            metric: nanoseconds("owner_add_ns", "update by the owner"),
            rows: vec![
                (parameter("counters", 1), "own one"),
                (parameter("counters", 16), "own apart"),
                (parameter("counters", 16).with("in", "a set"), "own in-set"),
            ],
            arms: forms([PLAIN, CHECKED, ATOMIC, PER_CPU, LAZY, TOLD]),
        },
        Group {
            title: "c. One update of a counter that another thread owns",
            metric: nanoseconds("remote_add_ns", "update of another's counter"),
            rows: vec![(Parameters::default(), "others")],
            arms: forms([ATOMIC, LAZY, TOLD]),
        },
        Group {
            title: "c. One update of an upgraded counter",
            metric: nanoseconds("upgraded_add_ns", "update of an upgraded counter"),
            rows: vec![(parameter("threads", 1), "upgraded 1"), (parameter("threads", 2), "upgraded 2")],
            arms: forms([ATOMIC, PER_CPU, LAZY, TOLD]),
        },
        Group {
            title: "c. One update, with the path found at run time, or told by the caller",
            metric: nanoseconds("auto_add_ns", "update, the path chosen or told"),
            rows: of_paths.into_iter().zip(["own apart", "others", "upgraded 1"]).collect(),
            arms: forms([TOLD, LAZY]),
        },
    ]
}

pub fn measure(setting: &Setting) -> Result<Measured> {
    of_parts(groups(), setting, |Group { title, metric, rows, arms }| {
        let rows = rows.into_iter().map(|(parameters, words)| (parameters, format!("counters {words}")));
        part(setting, title, rows, &[metric], &arms, BLOCKS, dots_of_first)
    })
}
