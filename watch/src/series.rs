//! Figures of one process as lines, one for each interval, as of vmstat.
//!
//! A gauge is what it is now. A counter is what has been added since the line before; in the first line, since the process
//! started. So the counters of all lines add up to those of the last page.

use commensal_runtime::observe::figures::{Figure, Kind, TABLES};
use serde_json::{Map, Value};

use crate::openmetrics::{OF_KERNEL, of_kernel};
use crate::process::{Process, now_ns};
use crate::units;
use crate::view::grid::heading_of;

/// The columns of the text, by the names of the table of figures; JSON has all figures.
const COLUMNS: [&str; 12] = [
    "resident_bytes", "in_use_bytes", "cached_bytes", "free_bytes", "dirty_bytes", "released_bytes", "runs", "kicks",
    "upkeep_own_turns", "upkeep_calls", "rcu_grace_periods", "rcu_deferred",
];
/// "1023 KiB" and a blank.
const WIDTH: usize = 9;

/// The lines so far.
#[derive(Default)]
pub struct Series {
    /// The counters of the last line.
    before: Vec<u64>,
}

impl Series {
    /// The names of the columns, on a line.
    pub fn header() -> String {
        line(COLUMNS.map(|name| (name, heading_of(name))))
    }

    /// The next line.
    pub fn text(&mut self, process: &Process) -> String {
        let (figures, now) = (self.next(process), now_ns());
        line(COLUMNS.map(|name| {
            let found = figures.iter().find(|(figure, _)| figure.name == name);
            (name, found.map_or_else(|| "-".to_owned(), |(figure, value)| units::value(figure.unit, *value, now)))
        }))
    }

    /// The next line, as JSON with all figures of the process.
    pub fn json(&mut self, process: &Process) -> String {
        let figures = self.next(process);
        let figures = figures.into_iter().map(|(figure, value)| (figure.name.to_owned(), value.into()));
        format!("{}\n", Value::Object(figures.collect::<Map<_, _>>()))
    }

    /// All figures, the counters as what was added. What the kernel says of a process that has ended is not known.
    fn next(&mut self, process: &Process) -> Vec<(&'static Figure, u64)> {
        let kernel = process.kernel.is_some().then(|| OF_KERNEL.figures.iter().zip(of_kernel(process)));
        let row = process.rows(0).next();
        let own = row.iter().flat_map(|row| TABLES[0].figures.iter().zip(row.values()));
        let now: Vec<(&Figure, u64)> = kernel.into_iter().flatten().chain(own).collect();
        let counters: Vec<u64> = now.iter().filter(|(figure, _)| is_counter(figure)).map(|(_, value)| *value).collect();
        let mut before = std::mem::replace(&mut self.before, counters).into_iter();
        let added = |(figure, value): (&'static Figure, u64)| match is_counter(figure) {
            true => (figure, value.saturating_sub(before.next().unwrap_or(0))),
            false => (figure, value),
        };
        now.into_iter().map(added).collect()
    }
}

fn is_counter(figure: &Figure) -> bool {
    figure.kind == Kind::Counter
}

/// Cells under each other: as wide as a value, or the name.
fn line(cells: [(&str, String); COLUMNS.len()]) -> String {
    let cells = cells.map(|(name, text)| format!("{text:>width$}", width = heading_of(name).len().max(WIDTH)));
    format!("{}\n", cells.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn columns_are_figures_of_the_table() {
        for name in COLUMNS {
            let all = || OF_KERNEL.figures.iter().chain(TABLES[0].figures);
            assert!(all().any(|figure| figure.name == name), "{name}");
        }
    }

    #[test]
    fn counters_are_told_by_what_was_added_and_gauges_as_they_are() {
        let mut series = Series::default();
        let process = sample::process(101, 0);
        let json = |series: &mut Series| serde_json::from_str::<Value>(&series.json(&process)).unwrap();
        let (first, second) = (json(&mut series), json(&mut series));
        assert_eq!(first.as_object().unwrap().len(), TABLES[0].figures.len() + OF_KERNEL.figures.len());
        for figure in TABLES[0].figures {
            let known = process.rows(0).next().unwrap().get(figure.name).unwrap();
            assert_eq!(first[figure.name], known, "{}", figure.name);
            let expected = if is_counter(figure) { 0 } else { known };
            assert_eq!(second[figure.name], expected, "{}", figure.name);
        }
    }

    #[test]
    fn cells_stand_below_their_headings() {
        let header = Series::header();
        let text = Series::default().text(&sample::process(101, 0));
        assert_eq!(header.len(), text.len(), "{header}{text}");
        assert!(header.trim_start().starts_with("resident ") && text.trim_start().starts_with("76.3 MiB"), "{text}");
        let gone = Process { kernel: None, ..sample::process(8, 0) };
        assert!(Series::default().text(&gone).trim_start().starts_with("- "), "unknown, not 0");
    }
}
