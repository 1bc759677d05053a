//! A table that can be sorted by each column and filtered by a text: the same for processes, caches, slots, groups, locks and figures.

use std::cmp::{Ordering, Reverse};

use commensal::observe::figures::{Figure, Kind, Table};
use commensal::observe::page::AnyRow;

use crate::text::heading_of;
use crate::units;

/// A cell: what is shown, and what it is sorted by.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// A word.
    Word(String),
    /// A number, as it is shown.
    Number(String, f64),
}

impl Cell {
    /// What is shown.
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

/// Headings and rows, each of which can be told again by its key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Grid {
    /// What columns are called.
    pub headings: Vec<String>,
    /// Keys and cells.
    pub rows: Vec<(String, Vec<Cell>)>,
}

/// By which column, and whether the smallest come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// The column.
    pub column: usize,
    /// Whether it rises.
    pub rises: bool,
}

impl Grid {
    /// The rows of a table, with how fast counters rise, if it is known what they were `passed_s` before.
    pub fn of(
        table: &Table, rows: &[(String, AnyRow<'_>)], before: &[(String, AnyRow<'_>)], passed_s: f64, now_ns: u64,
    ) -> Self {
        let rates = || table.figures.iter().enumerate().filter(|(_, figure)| figure.kind == Kind::Counter);
        let names = table.labels.iter().map(|label| label.name).chain(table.figures.iter().map(|figure| figure.name));
        let rate_names = rates().map(|(_, figure)| format!("{}/s", heading_of(figure.name)));
        let cells = |key: &String, row: AnyRow<'_>| {
            let values: Vec<u64> = row.values().collect();
            let old = before.iter().find(|(other, _)| other == key).map(|(_, row)| row.values().collect::<Vec<u64>>());
            let texts = row.texts().map(|text| Cell::Word(text.to_owned()));
            let numbers = table.figures.iter().zip(&values).map(|(figure, &value)| number(figure, value, now_ns));
            let rates = rates()
                .map(|(column, figure)| rate(figure, values[column], old.as_ref().map(|old| old[column]), passed_s));
            texts.chain(numbers).chain(rates).collect()
        };
        Grid {
            headings: names.map(heading_of).chain(rate_names).collect(),
            rows: rows.iter().map(|(key, row)| (key.clone(), cells(key, *row))).collect(),
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

    /// How wide columns are, of those that fit into a width: what is too long in words is cut first, then columns at the end are left out, and then words are cut
    /// further.
    pub fn widths(&self, width: u16) -> Vec<u16> {
        const GAP: usize = 2;
        const SHORT: usize = 28;
        const SHORTEST: usize = 12;
        let longest = |column: usize| {
            let cells = self.rows.iter().filter_map(|(_, cells)| cells.get(column));
            let texts = cells.map(Cell::text).chain([self.headings[column].as_str()]);
            texts.map(|text| text.chars().count()).max().unwrap_or(0)
        };
        let mut widths: Vec<usize> = (0..self.headings.len()).map(longest).collect();
        let whole = |widths: &[usize]| widths.iter().map(|width| width + GAP).sum::<usize>();
        let too_much = |widths: &[usize]| whole(widths).saturating_sub(usize::from(width) + GAP);
        let cut = |widths: &mut [usize], shortest: usize| {
            let mut words: Vec<usize> = (0..widths.len()).filter(|&column| self.is_words(column)).collect();
            words.sort_by_key(|&column| Reverse(widths[column]));
            for column in words {
                widths[column] -= too_much(widths).min(widths[column].saturating_sub(shortest));
            }
        };
        cut(&mut widths, SHORT);
        while widths.len() > 1 && too_much(&widths) > 0 && !self.is_words(widths.len() - 1) {
            widths.pop();
        }
        cut(&mut widths, SHORTEST);
        while widths.len() > 1 && too_much(&widths) > 0 {
            widths.pop();
        }
        widths.into_iter().map(|width| width as u16).collect()
    }

    /// Whether a column has words.
    pub fn is_words(&self, column: usize) -> bool {
        self.rows.iter().all(|(_, cells)| matches!(cells.get(column), Some(Cell::Word(_)) | None))
    }
}

fn number(figure: &Figure, value: u64, now_ns: u64) -> Cell {
    Cell::Number(units::value(figure.unit, value, now_ns), value as f64)
}

fn rate(figure: &Figure, value: u64, before: Option<u64>, passed_s: f64) -> Cell {
    match before {
        Some(before) if passed_s > 0.0 && value >= before => {
            let rate = (value - before) as f64 / passed_s;
            Cell::Number(units::value(figure.unit, rate.round() as u64, 0), rate)
        }
        _ => Cell::Number("-".to_owned(), 0.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use commensal::observe::figures::{Lock, Row, TABLES};
    use commensal::observe::page::{Page, Text};

    /// The grid of locks that were waited for so often by callers, two seconds after what was before.
    fn grid(now: &[(&str, u64)], before: &[(&str, u64)]) -> Grid {
        let pages = [now, before].map(|locks| {
            let lock = |&(caller, contended): &(&str, u64)| Lock {
                class: Text::of("page heap"),
                caller: Text::of(caller),
                contended,
                ..Lock::NONE
            };
            sample::page_of("sample", 1000, locks.iter().map(lock))
        });
        let [now, before] = pages.each_ref().map(|page| {
            let rows = Page::of(page).and_then(Page::snapshot).unwrap().rows_in(Lock::NUMBER);
            rows.map(|row| (row.texts().last().unwrap().to_owned(), row)).collect::<Vec<_>>()
        });
        Grid::of(&TABLES[Lock::NUMBER], &now, &before, 2.0, 0)
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
        let whole = grid.widths(200);
        assert_eq!((whole.len(), usize::from(whole[1])), (grid.headings.len(), caller.len()));
        let cut = grid.widths(100);
        assert_eq!(cut.len(), grid.headings.len());
        assert_eq!(cut.iter().map(|width| width + 2).sum::<u16>(), 102);
        let fewer = grid.widths(70);
        assert!(
            fewer.len() < grid.headings.len()
                && fewer[1] >= 28
                && fewer.iter().map(|width| width + 2).sum::<u16>() <= 72,
            "{fewer:?}"
        );
        let few = grid.widths(40);
        assert!(few.len() < grid.headings.len() && few.iter().map(|width| width + 2).sum::<u16>() <= 42, "{few:?}");
        assert_eq!(grid.widths(1).len(), 1);
    }
}
