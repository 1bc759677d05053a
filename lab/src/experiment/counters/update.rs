//! Part c: one update, of a counter that the thread owns, of another's, and of an upgraded one; through a call of the library's C function;
//! and what finding out whose it is costs.

use std::fs;

use anyhow::{Context, Result};

use super::{ATOMIC, Blocks, CHECKED, LAZY, Measured, PER_CPU, PLAIN, TOLD, forms, library, nanoseconds, part};
use crate::arm::Arm;
use crate::experiment::Setting;
use crate::experiment::probing::{dots_of_first, of_parts};
use crate::metric::Metric;
use crate::parameters::Parameters;

const BLOCKS: Blocks = Blocks::of(8, 60).on_one_cpu();

/// Libraries whose counters are words, which are called as the real one's are.
const PLAIN_WORDS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libplain.so"));
const ATOMIC_WORDS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libatomic.so"));

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

/// What programs in C do; its arms are others than those of the same name in Rust. None without the library.
fn called_groups(setting: &Setting) -> Result<Option<[Group; 2]>> {
    let Some(library) = library(setting).filter(|_| !setting.machine.is_simulated()) else { return Ok(None) };
    let words = |name: &str, bytes| {
        let file = setting.scratch.path().join(format!("lib{name}.so"));
        fs::write(&file, bytes).with_context(|| format!("cannot write {}", file.display()))?;
        anyhow::Ok(Arm::preloading(name, file))
    };
    let (plain, atomic, lazy) =
        (words(PLAIN, PLAIN_WORDS)?, words(ATOMIC, ATOMIC_WORDS)?, Arm::preloading(LAZY, library));
    let in_c = || parameter("interface", "C");
    let owner = Group {
        title: "c. One update by the owner, through a call of a C function",
        metric: nanoseconds("called_owner_add_ns", "update by the owner, through a call"),
        rows: vec![(in_c(), "called own")],
        arms: vec![plain, atomic.clone(), lazy.clone()],
    };
    let upgraded = Group {
        title: "c. One update of an upgraded counter, through a call of a C function",
        metric: nanoseconds("called_upgraded_add_ns", "update of an upgraded counter, through a call"),
        rows: vec![(in_c().with("threads", 1), "called 1"), (in_c().with("threads", 2), "called 2")],
        arms: vec![atomic, lazy],
    };
    Ok(Some([owner, upgraded]))
}

pub fn measure(setting: &Setting) -> Result<Measured> {
    let groups = groups().into_iter().chain(called_groups(setting)?.into_iter().flatten());
    of_parts(groups, setting, |Group { title, metric, rows, arms }| {
        let rows = rows.into_iter().map(|(parameters, words)| (parameters, format!("counters {words}")));
        part(setting, title, rows, &[metric], &arms, BLOCKS, dots_of_first)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_and_atomic_words_differ() {
        assert_ne!(PLAIN_WORDS, ATOMIC_WORDS);
    }
}
