//! Tables for a terminal or a file: what there is, as text that can be read, kept and compared.

use std::fmt::Write;

use commensal_lab::sheet::{Sheet, Side};
use runtime::observe::page::{Cache, Figures, Group, Lock, Row, Slot, Snapshot};

use crate::process::{Process, State, now_ns};
use crate::units;

/// A column of the list of all processes: its heading, and what is there.
type Column = (&'static str, fn(&Process) -> String);

const COLUMNS: [Column; 9] = [
    ("PID", |process| process.pid.to_string()),
    ("PROGRAM", |process| units::word(&process.name())),
    ("STATE", |process| process.state.word().to_owned()),
    ("IN USE", |process| units::bytes(process.figures().in_use_bytes)),
    ("PEAK", |process| units::bytes(process.figures().peak_bytes)),
    ("CACHED", |process| units::bytes(process.figures().cached_bytes)),
    ("RSS", |process| process.kernel.as_ref().map_or("-".to_owned(), |kernel| units::bytes(kernel.resident_bytes))),
    ("KICKS", |process| units::count(process.figures().kicks)),
    ("AS OF", |process| format!("{} ago", units::duration(process.age_ns()))),
];

/// Columns from this one on are numbers.
const FIRST_NUMBER: usize = 3;

/// All processes.
pub fn list(processes: &[Process]) -> String {
    if processes.is_empty() {
        return "no process under Commensal has a statistics page; start one by `commensal run -- PROGRAM`, or with COMMENSAL_CONF=observe:on\n".to_owned();
    }
    let mut sheet = sheet(COLUMNS.iter().map(|(heading, _)| (*heading).to_owned()), FIRST_NUMBER);
    for process in processes {
        sheet.add(COLUMNS.iter().map(|(_, show)| show(process)));
    }
    sheet.to_string()
}

/// A process, whole.
pub fn of(process: &Process) -> String {
    let snapshot = process.said.snapshot();
    let mut text = heading(process);
    text += "\n";
    text += &figures(snapshot);
    let caches = snapshot.rows::<Cache>().filter(|cache| cache.spans > 0 || cache.peak > 0);
    section(&mut text, caches, snapshot.lost::<Cache>());
    section(&mut text, snapshot.rows::<Slot>(), snapshot.lost::<Slot>());
    section(&mut text, snapshot.rows::<Group>(), snapshot.lost::<Group>());
    section(&mut text, snapshot.rows::<Lock>(), snapshot.lost::<Lock>());
    text
}

/// Who it is, and as of when.
pub fn heading(process: &Process) -> String {
    let mut text = format!("{} ({}), {}", units::word(&process.name()), process.pid, process.state.word());
    if let Some(kernel) = &process.kernel {
        let _ = write!(text, ", {} threads, {} resident", kernel.threads, units::bytes(kernel.resident_bytes));
    }
    let _ = write!(text, "; as of {} ago", units::duration(process.age_ns()));
    if process.state != State::Running {
        text += ", when it wrote this last";
    }
    text + "\n"
}

/// The figures of the process, with what they mean.
fn figures(snapshot: Snapshot<'_>) -> String {
    let (figures, now) = (snapshot.figures(), now_ns());
    let mut sheet = Sheet::new([("figure", Side::Left), ("value", Side::Right), ("meaning", Side::Left)]);
    for (field, value) in Figures::FIELDS.iter().zip(figures.values()) {
        sheet.add([field.name.to_owned(), units::value(field, value, now), field.says.trim().to_owned()]);
    }
    sheet.to_string()
}

/// A table with its name, if it has rows.
fn section<R: Row>(text: &mut String, rows: impl Iterator<Item = R>, lost: u32) {
    let now = now_ns();
    let mut sheet = sheet(std::iter::once("#".to_owned()).chain(headings::<R>()), 1 + R::TEXTS.len());
    for (number, row) in rows.enumerate() {
        let values = R::FIELDS.iter().zip(row.values()).map(|(field, value)| units::value(field, value, now));
        sheet.add(std::iter::once(number.to_string()).chain(row.texts().map(units::word)).chain(values));
    }
    if sheet.rows.is_empty() && lost == 0 {
        return;
    }
    let _ = write!(text, "\n{}\n{sheet}", R::TABLE);
    if lost > 0 {
        let _ = writeln!(text, "  and {lost} more, for which there was no room");
    }
}

/// What columns of a table are called.
pub fn headings<R: Row>() -> impl Iterator<Item = String> {
    let values = R::FIELDS.iter().map(|field| field.name.trim_end_matches("_bytes").trim_end_matches("_ns"));
    R::TEXTS.iter().copied().chain(values).map(|name| name.replace('_', " "))
}

/// The slab table in the columns of the kernel's /proc/slabinfo.
pub fn slabinfo(process: &Process) -> String {
    const PAGE: u64 = 4096;
    let mut text = "slabinfo - version: 2.1\n# name            <active_objs> <num_objs> <objsize> <objperslab> <pagesperslab> : tunables <limit> \
                    <batchcount> <sharedfactor> : slabdata <active_slabs> <num_slabs> <sharedavail>\n"
        .to_owned();
    for cache in process.said.snapshot().rows::<Cache>().filter(|cache| cache.spans > 0) {
        let Cache { name, object_bytes, in_use, objects, spans, span_bytes, limit, batch, .. } = cache;
        let (per_span, pages) = (objects / spans, span_bytes / spans / PAGE);
        // Nothing is shared by slots beyond the depot, nor kept for others: zeroes.
        let _ = writeln!(
            text,
            "{:<17} {in_use:>6} {objects:>6} {object_bytes:>6} {per_span:>4} {pages:>4} : tunables {limit:>4} {batch:>4} {:>4} : slabdata {spans:>6} {spans:>6} {:>6}",
            // Blanks are between columns.
            units::word(name.as_str()).replace(char::is_whitespace, "_"),
            0,
            0
        );
    }
    text
}

/// A table without rows; columns from one on have numbers.
fn sheet(headings: impl Iterator<Item = String>, first_number: usize) -> Sheet {
    let side = |column| if column < first_number { Side::Left } else { Side::Right };
    Sheet::new(headings.enumerate().map(|(column, heading)| (heading, side(column))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    /// Texts as a file has them, with what the time says left out.
    fn timeless(text: &str) -> String {
        text.replace("60.0 min ago", "AGE").replace("1.00 h ago", "AGE")
    }

    fn gone() -> Process {
        Process { state: State::Gone, kernel: None, ..sample::process(8, 0) }
    }

    #[test]
    fn all_processes_in_a_list() {
        insta::assert_snapshot!(timeless(&list(&[sample::process(101, 0), gone()])));
        assert!(list(&[]).contains("start one by `commensal run -- PROGRAM`"));
    }

    #[test]
    fn a_process_whole() {
        insta::assert_snapshot!(timeless(&of(&sample::process(101, 1))));
        let gone = timeless(&of(&gone()));
        assert!(gone.starts_with("sample (8), gone; as of AGE, when it wrote this last\n"), "{gone}");
    }

    /// In the kernel's table a row has sixteen words, whatever caches are called.
    #[test]
    fn the_slab_table_has_the_kernels_columns() {
        let text = slabinfo(&sample::process(101, 0));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "slabinfo - version: 2.1");
        assert!(lines[1].starts_with(
            "# name            <active_objs> <num_objs> <objsize> <objperslab> <pagesperslab> : tunables"
        ));
        assert_eq!(lines.len(), 4, "one that has no spans is not there: {text}");
        let words: Vec<&str> = lines[2].split_whitespace().collect();
        assert_eq!(
            words,
            "malloc-64 300 900 64 300 16 : tunables 120 60 0 : slabdata 3 3 0".split(' ').collect::<Vec<_>>()
        );
    }

    #[test]
    fn names_do_nothing_to_a_terminal_and_have_no_columns() {
        let mut process = sample::process(7, 0);
        process.said = crate::page::Copied::from_bytes(sample::page_of_caches("\u{1b}[2J", &["a cache\n"]));
        for text in [list(std::slice::from_ref(&process)), of(&process), slabinfo(&process)] {
            assert!(!text.replace('\n', "").contains(char::is_control), "{text:?}");
        }
        let text = slabinfo(&process);
        let row = text.lines().last().unwrap();
        assert_eq!((row.split_whitespace().next(), row.split_whitespace().count()), (Some("a_cache?"), 16));
    }
}
