//! A table that can be sorted by each column and filtered by a text: the same for processes, caches, slots, groups, locks
//! and figures.

use std::cmp::Ordering;
use std::collections::HashMap;

use commensal_runtime::observe::figures::{Figure, Kind, TABLES, Unit, unitless};
use commensal_runtime::observe::page::AnyRow;

use crate::process::{Process, now_ns};
use crate::units;

/// A cell: what is shown, and what it is sorted by.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    Word(String),
    Number(String, f64),
}

impl Cell {
    fn word(text: &str) -> Self {
        Cell::Word(units::word(text))
    }

    fn number(unit: Unit, value: u64, now_ns: u64) -> Self {
        Cell::Number(units::value(unit, value, now_ns), value as f64)
    }

    fn bytes(value: u64) -> Self {
        Cell::number(Unit::Bytes, value, 0)
    }

    fn count(value: u64) -> Self {
        Cell::number(Unit::Count, value, 0)
    }

    /// A number that is not known.
    fn unknown() -> Self {
        Cell::Number("-".to_owned(), 0.0)
    }

    pub fn text(&self) -> &str {
        match self {
            Cell::Word(text) | Cell::Number(text, _) => text,
        }
    }

    fn compare(&self, other: &Cell) -> Ordering {
        match (self, other) {
            (Cell::Number(_, one), Cell::Number(_, other)) => one.total_cmp(other),
            _ => self.text().cmp(other.text()),
        }
    }
}

/// A column of the list of all processes: its heading and its cells.
type Column = (&'static str, fn(&Process) -> Cell);

const COLUMNS: [Column; 11] = [
    ("pid", |process| Cell::Number(process.pid.to_string(), process.pid.into())),
    ("program", |process| Cell::word(&process.name())),
    ("state", |process| Cell::word(process.state.word())),
    ("as of", |process| Cell::number(Unit::Nanoseconds, process.age_ns(), 0)),
    ("in use", |process| Cell::bytes(process.figures().in_use_bytes)),
    ("peak", |process| Cell::bytes(process.figures().peak_bytes)),
    ("cached", |process| Cell::bytes(process.figures().cached_bytes)),
    ("resident", |process| {
        process.kernel.as_ref().map_or_else(Cell::unknown, |kernel| Cell::bytes(kernel.resident_bytes))
    }),
    ("threads", |process| process.kernel.as_ref().map_or_else(Cell::unknown, |kernel| Cell::count(kernel.threads))),
    ("kicks", |process| Cell::count(process.figures().kicks)),
    ("command", |process| Cell::word(process.kernel.as_ref().map_or("", |kernel| &kernel.command))),
];

/// Headings and rows, each of which can be told again by its key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Grid {
    pub headings: Vec<String>,
    pub rows: Vec<(String, Vec<Cell>)>,
}

/// By which column, and whether the smallest come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    pub column: usize,
    pub rises: bool,
}

/// What the column of a label or figure is called.
pub fn heading_of(name: &str) -> String {
    unitless(name).replace('_', " ")
}

impl Grid {
    /// All processes. The last column is as long as a command may be.
    pub fn list<'a>(processes: impl IntoIterator<Item = &'a Process>) -> Self {
        let cells = |process| COLUMNS.iter().map(|(_, show)| show(process)).collect();
        Grid {
            headings: COLUMNS.iter().map(|(heading, _)| (*heading).to_owned()).collect(),
            rows: processes.into_iter().map(|process| (process.pid.to_string(), cells(process))).collect(),
        }
    }

    /// The rows of a table of a process.
    pub fn of(process: &Process, number: usize) -> Self {
        let (table, now) = (&TABLES[number], now_ns());
        let numbered = Some(table.numbered).filter(|name| !name.is_empty());
        let labels = table.labels.iter().map(|label| label.name);
        let names = numbered.into_iter().chain(labels).chain(table.figures.iter().map(|figure| figure.name));
        let rows = keyed(process, number).enumerate().map(|(place, (key, row))| {
            let number = numbered.map(|_| Cell::Number(place.to_string(), place as f64));
            let values = table.figures.iter().zip(row.values());
            let values = values.map(|(figure, value)| Cell::number(figure.unit, value, now));
            (key, number.into_iter().chain(row.texts().map(Cell::word)).chain(values).collect())
        });
        Grid { headings: names.map(heading_of).collect(), rows: rows.collect() }
    }

    /// Adds to the rows of a table how fast its counters have risen since an earlier page of the process.
    pub fn add_rates(&mut self, process: &Process, number: usize, before: Option<&Process>) {
        let counters: Vec<(usize, &Figure)> =
            TABLES[number].figures.iter().enumerate().filter(|(_, figure)| figure.kind == Kind::Counter).collect();
        self.headings.extend(counters.iter().map(|(_, figure)| heading_of(figure.name) + "/s"));
        let ended_ns = |process: &Process| process.said.snapshot().ended_ns();
        let passed_s = before.map_or(0.0, |before| ended_ns(process).saturating_sub(ended_ns(before)) as f64 / 1e9);
        let values = |row: AnyRow<'_>| row.values().collect::<Vec<u64>>();
        let old = before.into_iter().flat_map(|before| keyed(before, number));
        let old: HashMap<String, Vec<u64>> = old.map(|(key, row)| (key, values(row))).collect();
        for ((key, cells), (_, row)) in self.rows.iter_mut().zip(keyed(process, number)) {
            let (new, old) = (values(row), old.get(key));
            cells.extend(counters.iter().map(|&(column, figure)| {
                let risen = old.and_then(|old| new[column].checked_sub(old[column])).filter(|_| passed_s > 0.0);
                risen.map_or_else(Cell::unknown, |risen| {
                    let rate = risen as f64 / passed_s;
                    Cell::Number(units::value(figure.unit, rate.round() as u64, 0), rate)
                })
            }));
        }
    }

    /// Only rows in which some cell has the text.
    pub fn filter(&mut self, text: &str) {
        let text = text.to_lowercase();
        self.rows.retain(|(_, cells)| cells.iter().any(|cell| cell.text().to_lowercase().contains(&text)));
    }

    /// In order; rows that are equal stay as they are.
    pub fn sort(&mut self, Order { column, rises }: Order) {
        let compare = |one: &[Cell], other: &[Cell]| match (one.get(column), other.get(column)) {
            (Some(one), Some(other)) => one.compare(other),
            _ => Ordering::Equal,
        };
        self.rows.sort_by(|(_, one), (_, other)| if rises { compare(one, other) } else { compare(other, one) });
    }

    /// How wide columns are, of those that fit into a width. Where it is narrow, words are cut, and columns at the end are
    /// left out.
    pub fn widths(&self, width: u16) -> Vec<u16> {
        const GAP: usize = 2;
        const SHORT: usize = 28;
        const SHORTEST: usize = 12;
        let longest = |column: usize| {
            let cells = self.rows.iter().filter_map(|(_, cells)| cells.get(column));
            let texts = cells.map(Cell::text).chain([self.headings[column].as_str()]);
            texts.map(|text| text.chars().count()).max().unwrap_or(0)
        };
        let columns = 0..self.headings.len();
        let mut left = usize::from(width) + GAP;
        let is_narrow = columns.clone().map(|column| longest(column) + GAP).sum::<usize>() > left;
        let mut widths = Vec::new();
        for column in columns.clone() {
            let room = left.saturating_sub(GAP);
            let is_cut = is_narrow && self.is_words(column);
            let most = if is_cut && column + 1 < columns.end { SHORT } else { usize::MAX };
            let least = if is_cut { SHORTEST } else { usize::MAX };
            let wanted = longest(column).min(most);
            if column > 0 && wanted.min(least) > room {
                break;
            }
            widths.push(wanted.min(room) as u16);
            left = room - wanted.min(room);
        }
        widths
    }

    pub fn is_words(&self, column: usize) -> bool {
        self.rows.iter().all(|(_, cells)| matches!(cells.get(column), Some(Cell::Word(_)) | None))
    }
}

/// The rows of a table, by keys that tell them apart: there may be several groups and caches of one name.
fn keyed(process: &Process, table: usize) -> impl Iterator<Item = (String, AnyRow<'_>)> {
    let mut seen = HashMap::new();
    process.rows(table).map(move |row| {
        let name = row.texts().collect::<Vec<_>>().join("\n");
        let times: &mut u32 = seen.entry(name.clone()).or_default();
        *times += 1;
        (format!("{name}\n{times}"), row)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use commensal_runtime::observe::figures::{Lock, Row};
    use commensal_runtime::observe::page::Text;

    /// The grid of locks that were waited for so often by callers, two seconds after what was before.
    fn grid(now: &[(&str, u64)], before: &[(&str, u64)]) -> Grid {
        let [now, before] = [(3, now), (1, before)].map(|(at_s, locks)| {
            let lock = |&(caller, contended): &(&str, u64)| Lock {
                class: Text::of("page heap"),
                caller: Text::of(caller),
                contended,
                ..Lock::NONE
            };
            sample::process_of("sample", at_s * 1_000_000_000, locks.iter().map(lock))
        });
        let mut grid = Grid::of(&now, Lock::NUMBER);
        grid.add_rates(&now, Lock::NUMBER, Some(&before));
        grid
    }

    fn column(grid: &Grid, heading: &str) -> Vec<String> {
        let column = grid.headings.iter().position(|name| name == heading).unwrap();
        grid.rows.iter().map(|(_, cells)| cells[column].text().to_owned()).collect()
    }

    #[test]
    fn counters_have_a_rate_if_it_is_known_what_they_were() {
        let grid = grid(&[("a", 30), ("b", 20), ("new", 7)], &[("a", 10), ("b", 50)]);
        assert_eq!(column(&grid, "contended"), ["30", "20", "7"]);
        // One that fell is another process's, or begun anew.
        assert_eq!(column(&grid, "contended/s"), ["10", "-", "-"]);
        assert!(
            grid.headings.contains(&"total wait/s".to_owned()) && !grid.headings.contains(&"max wait/s".to_owned())
        );
    }

    #[test]
    fn rows_are_sorted_by_what_numbers_are_and_not_how_they_look() {
        let mut grid = grid(&[("b", 9), ("a", 100), ("c", 123_456)], &[]);
        grid.sort(Order { column: 2, rises: false });
        assert_eq!(column(&grid, "caller"), ["c", "a", "b"]);
        grid.sort(Order { column: 1, rises: true });
        assert_eq!(column(&grid, "caller"), ["a", "b", "c"]);
        grid.filter("B");
        assert_eq!(column(&grid, "caller"), ["b"]);
        grid.sort(Order { column: 99, rises: true });
    }

    #[test]
    fn words_are_cut_before_columns_are_left_out() {
        let caller = "slab::take::a_function_of_a_very_long_name_that_needs_much_room";
        let grid = grid(&[(caller, 5)], &[]);
        for (width, columns) in [(200, 8), (100, 7), (60, 3), (40, 2), (1, 1)] {
            let widths = grid.widths(width);
            assert_eq!(widths.len(), columns, "{width}: {widths:?}");
            assert!(widths.iter().map(|width| width + 2).sum::<u16>() <= width + 2, "{width}: {widths:?}");
        }
        assert_eq!(usize::from(grid.widths(200)[1]), caller.len());
        assert_eq!(grid.widths(60)[1], 28);
    }
}
