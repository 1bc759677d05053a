//! Tables for a terminal or a file.

use std::fmt::Write;

use comfy_table::{CellAlignment, LineStyle, Table, TableStyle};
use commensal_runtime::observe::figures::{Cache, TABLES};
use commensal_runtime::observe::slabs;

use crate::process::{Process, START};
use crate::units;
use crate::view::grid::{Cell, Grid};

/// Lines around the headings only.
const STYLE: TableStyle = TableStyle::new()
    .top_border(LineStyle::none().fill('─').junction('─'))
    .header_separator(LineStyle::none().fill('─').junction('─'));

/// All processes.
pub fn list(processes: &[Process]) -> String {
    if processes.is_empty() {
        return format!("no process has a statistics page: {START}\n");
    }
    let mut list = Grid::list(processes);
    // Commands are long.
    list.headings.pop();
    drawn(&list)
}

/// A page older than this was not written because no thread reached a slow path.
const OLD_NS: u64 = 2_000_000_000;

/// All that is known of a process.
pub fn of(process: &Process) -> String {
    let mut text = heading(process) + "\n";
    if let Some(resident) = process.resident() {
        let _ = writeln!(text, "{resident}");
        if process.age_ns() > OLD_NS {
            text += "The other figures are as of the last write of the page: an idle process with one thread writes \
                     none.\n";
        }
    }
    text += "\n";
    text += &figures(process);
    (1..TABLES.len()).for_each(|table| section(&mut text, process, table));
    text
}

/// The process, the age of its figures, and what the kernel counts now.
pub fn heading(process: &Process) -> String {
    let mut text = format!("{} ({}), {}", units::word(&process.name()), process.pid, process.state.word());
    let _ = write!(text, "; as of {} ago", units::duration(process.age_ns()));
    match &process.kernel {
        Some(kernel) => {
            let s = if kernel.threads == 1 { "" } else { "s" };
            let resident = units::bytes(kernel.resident_bytes);
            let _ = write!(text, "; now {resident} resident, {} thread{s}", kernel.threads);
        }
        None => text += ", the last write of its page",
    }
    text
}

/// The figures of the process, with what they mean.
fn figures(process: &Process) -> String {
    let cells = Grid::of(process, 0).rows.pop().unwrap_or_default().1;
    let rows = TABLES[0].figures.iter().zip(cells).map(|(figure, value)| {
        let words = [figure.name, figure.says].map(|text| Cell::Word(text.to_owned()));
        let [name, says] = words;
        (String::new(), vec![name, value, says])
    });
    drawn(&Grid { headings: ["figure", "value", "meaning"].map(str::to_owned).to_vec(), rows: rows.collect() })
}

/// A table with its name, if it has rows.
fn section(text: &mut String, process: &Process, number: usize) {
    let (grid, lost) = (Grid::of(process, number), process.said.snapshot().lost_in(number));
    if grid.rows.is_empty() && lost == 0 {
        return;
    }
    let _ = write!(text, "\n{}\n{}", TABLES[number].name, drawn(&grid));
    if lost > 0 {
        let _ = writeln!(text, "  and {lost} more, for which the page has no room");
    }
}

/// The slab table in the columns of the kernel's /proc/slabinfo.
pub fn slabinfo(process: &Process) -> String {
    let mut text = String::new();
    let _ = slabs::write_head(&mut text);
    for cache in process.said.snapshot().rows::<Cache>().filter(|cache| cache.spans > 0) {
        // Blanks are between columns.
        let name = units::word(cache.name.as_str()).replace(char::is_whitespace, "_");
        let _ = slabs::write_row(&mut text, &name, &cache);
    }
    text
}

/// As many columns as there are headings.
fn drawn(grid: &Grid) -> String {
    let cell = |(column, text): (usize, &String)| {
        let side = if grid.is_words(column) { CellAlignment::Left } else { CellAlignment::Right };
        comfy_table::Cell::new(text).set_alignment(side)
    };
    let mut table = Table::new();
    table.load_style(STYLE).set_header(grid.headings.iter().enumerate().map(cell));
    for (_, cells) in &grid.rows {
        let texts: Vec<String> = cells.iter().map(|cell| cell.text().to_owned()).collect();
        table.add_row(texts.iter().take(grid.headings.len()).enumerate().map(cell));
    }
    // The style pads the last column, too.
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::{State, now_ns};
    use crate::sample;
    use crate::view::grid::heading_of;
    use commensal_runtime::observe::page::Text;

    /// Texts as a file has them, with what the time says left out.
    fn timeless(text: &str) -> String {
        text.replace("60.0 min", "AGE").replace("1.00 h", "AGE")
    }

    fn gone() -> Process {
        Process { state: State::Gone, kernel: None, ..sample::process(8, 0) }
    }

    #[test]
    fn list_of_processes_matches_the_snapshot() {
        insta::assert_snapshot!(timeless(&list(&[sample::process(101, 0), gone()])));
        assert!(list(&[]).contains("start one by `commensal run -- CMD`"));
    }

    /// The words of the rows between a heading that begins so and a blank line.
    fn words_below<'a>(text: &'a str, heading: &str) -> Vec<Vec<&'a str>> {
        let split = |line: &'a str| line.split("  ").map(str::trim).filter(|word| !word.is_empty()).collect::<Vec<_>>();
        let lines = text.lines().skip_while(|line| !line.starts_with(heading)).take_while(|line| !line.is_empty());
        lines.filter(|line| !line.starts_with('─')).map(split).collect()
    }

    #[test]
    fn process_has_each_figure_once_with_its_value_and_meaning() {
        let text = timeless(&of(&sample::process(101, 1)));
        assert!(text.starts_with("sample (101), running; as of AGE ago; now 76.3 MiB resident, 3 threads\n"), "{text}");
        assert!(text.contains("\nresident 76.3 MiB = in use 19.1 MiB + "), "{text}");
        assert!(text.contains("\nThe other figures are as of the last write of the page: "), "{text}");
        let rows = words_below(&text, " figure ");
        assert_eq!(rows.len() - 1, TABLES[0].figures.len(), "{text}");
        for (row, figure) in rows[1..].iter().zip(TABLES[0].figures) {
            assert_eq!((row.len(), row[0], row[2]), (3, figure.name, figure.says));
        }
        assert_eq!((rows[1][1], rows[3][1]), ("19.1 MiB", "57.2 MiB"));
        for table in &TABLES[1..] {
            let names =
                table.labels.iter().map(|label| label.name).chain(table.figures.iter().map(|figure| figure.name));
            let number = Some(table.numbered.to_owned()).filter(|name| !name.is_empty());
            let headings: Vec<String> = number.into_iter().chain(names.map(heading_of)).collect();
            let rows = words_below(&text, table.name);
            assert_eq!((rows[0].as_slice(), rows[1].join("|")), ([table.name].as_slice(), headings.join("|")));
            assert!(rows.len() > 2, "{text}");
        }
        assert!(text.contains("  and 3 more, for which the page has no room"), "{text}");
        let gone = timeless(&of(&gone()));
        assert!(gone.starts_with("sample (8), gone; as of AGE ago, the last write of its page\n\n"), "{gone}");
    }

    #[test]
    fn slab_table_shows_caches_that_have_spans() {
        let text = slabinfo(&sample::process(101, 0));
        let rows: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(rows.len(), 2, "{text}");
        let words: Vec<&str> = rows[0].split_whitespace().collect();
        assert_eq!(words[..6], ["malloc-64", "300", "900", "64", "300", "16"], "{text}");
    }

    #[test]
    fn names_do_nothing_to_a_terminal_and_have_no_columns() {
        let cache = Cache { name: Text::of("a cache\n"), spans: 1, ..Cache::NONE };
        let process = sample::process_of("\u{1b}[2J", now_ns(), [cache].into_iter());
        for text in [list(std::slice::from_ref(&process)), of(&process), slabinfo(&process)] {
            assert!(!text.replace('\n', "").contains(char::is_control), "{text:?}");
        }
        let text = slabinfo(&process);
        let row = text.lines().last().unwrap();
        assert_eq!((row.split_whitespace().next(), row.split_whitespace().count() > 10), (Some("a_cache?"), true));
    }
}
