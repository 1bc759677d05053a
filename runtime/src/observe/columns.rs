//! The lock report's rows and columns, as text and as JSON.
//!
//! The columns are the fields of [`Row`], and both come from one list. JSON uses the field's name. The text uses the
//! name without its unit and with blanks, in the columns and units of `perf lock contention`. So no value can take
//! another's place. A [`Table`] allocates nothing: it keeps the rows with most waiting, and counts the rest.

use super::Word;
use core::fmt::{self, Write};
use machine::sync::{Contention, Site, Waited};

/// Declares the columns in their order: field, its name if that is no name in Rust, kind of cell, and type.
macro_rules! columns {
    ($(#[doc = $says:literal] $field:ident $(as $name:literal)?: $kind:ident($type:ty),)*) => {
        /// The waits of one call site for the locks of a class.
        #[derive(Clone, Copy, Debug)]
        pub struct Row {
            $(#[doc = $says] pub $field: $type,)*
        }

        const COLUMNS: &[Column] = &[
            $(Column { name: [$($name,)? stringify!($field)][0], cell: |row| Cell::$kind(row.$field) }),*
        ];

        /// Apart from the columns, so that the shared library has no texts that it does not print.
        const MEANINGS: &[&str] = &[$($says),*];
    };
}

columns! {
    /// Acquisitions that did not succeed at once.
    contended: Count(u64),
    /// Nanoseconds waited in total.
    total_wait_ns: Time(u64),
    /// The longest wait in nanoseconds.
    max_wait_ns: Time(u64),
    /// The average wait in nanoseconds, rounded down.
    avg_wait_ns: Time(u64),
    /// The class of the locks.
    class as "type": Word(&'static str),
    /// The function that waited.
    caller: Caller(Site),
}

#[derive(Clone, Copy)]
struct Column {
    name: &'static str,
    cell: fn(&Row) -> Cell,
}

#[derive(Clone, Copy)]
enum Cell {
    Count(u64),
    Time(u64),
    Word(&'static str),
    Caller(Site),
}

impl Row {
    /// A row of waits.
    pub fn new(class: &'static str, caller: Site, waited: Waited) -> Self {
        let Waited { contended, total_wait_ns, max_wait_ns } = waited;
        Row { contended, total_wait_ns, max_wait_ns, avg_wait_ns: waited.avg_wait_ns(), class, caller }
    }

    /// Whether class or caller contains the text.
    pub fn contains(&self, text: &str) -> bool {
        let mut caller = Name::new();
        let _ = write!(caller, "{}", self.caller);
        self.class.contains(text) || caller.as_str().contains(text)
    }
}

/// Names and meanings of the columns.
pub fn described() -> impl Iterator<Item = (&'static str, &'static str)> {
    COLUMNS.iter().zip(MEANINGS).map(|(column, says)| (column.name, *says))
}

/// Shows the rows of a class that have waits. Returns the waits that have no row.
pub fn rows_of(class: &'static str, contention: &Contention, show: impl FnMut(Row)) -> Waited {
    let rows = contention.sites().map(|(site, waited)| Row::new(class, site, waited));
    rows.filter(|row| row.contended > 0).for_each(show);
    contention.lost()
}

/// Puts a row among the first `len`, which are in falling order of `total`. Returns the row that has no room.
pub fn insert<R>(rows: &mut [R], len: &mut usize, row: R, total: impl Fn(&R) -> u64) -> Option<R> {
    let at = rows[..*len].partition_point(|other| total(other) >= total(&row));
    if at == rows.len() {
        return Some(row);
    }
    let is_full = *len == rows.len();
    *len += usize::from(!is_full);
    rows[at..*len].rotate_right(1);
    let last = core::mem::replace(&mut rows[at], row);
    is_full.then_some(last)
}

/// Rows of a table. It takes 6 kB of the stack of the thread that exits.
const MOST_ROWS: usize = 96;

/// The rows with the most waiting, and the waits of all others.
#[derive(Debug)]
pub struct Table {
    rows: [Option<Row>; MOST_ROWS],
    len: usize,
    lost: Waited,
}

impl Table {
    pub(crate) const fn new() -> Self {
        Table { rows: [None; MOST_ROWS], len: 0, lost: Waited { contended: 0, total_wait_ns: 0, max_wait_ns: 0 } }
    }

    /// Adds the rows of a class that contain a text.
    pub fn add(&mut self, class: &'static str, contention: &Contention, text: &str) {
        let lost = rows_of(class, contention, |row| {
            if row.contains(text) {
                self.insert(row);
            }
        });
        self.lost = self.lost.and(lost);
    }

    fn insert(&mut self, row: Row) {
        let total = |row: &Option<Row>| row.map_or(0, |row| row.total_wait_ns);
        let out = insert(&mut self.rows, &mut self.len, Some(row), total);
        if let Some(Row { contended, total_wait_ns, max_wait_ns, .. }) = out.flatten() {
            self.lost = self.lost.and(Waited { contended, total_wait_ns, max_wait_ns });
        }
    }

    /// The rows, in falling order of total wait.
    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.rows[..self.len].iter().flatten()
    }

    /// Whether it has no row.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Writes the table like `perf lock contention`, a line at a time.
    pub fn write_text(&self, out: &mut impl Write) -> fmt::Result {
        if !self.is_empty() {
            COLUMNS.iter().try_for_each(|column| column.write_head(out))?;
            write!(out, "\n\n")?;
        }
        for row in self.rows() {
            COLUMNS.iter().try_for_each(|column| (column.cell)(row).write_text(out))?;
            writeln!(out)?;
        }
        if self.lost.contended > 0 {
            let (contended, total) = (self.lost.contended, Cell::Time(self.lost.total_wait_ns));
            write!(out, "commensal: more than the table has rows for: contended {contended}, total wait ")?;
            total.write_trimmed(out)?;
            writeln!(out)?;
        }
        Ok(())
    }

    /// Writes the table as one JSON object, a line at a time.
    pub fn write_json(&self, out: &mut impl Write) -> fmt::Result {
        write!(out, "{{ \"locks\": [")?;
        for (number, row) in self.rows().enumerate() {
            out.write_str(if number == 0 { "\n" } else { ",\n" })?;
            out.write_str("  { ")?;
            for (number, column) in COLUMNS.iter().enumerate() {
                write!(out, "{}\"{}\": ", if number == 0 { "" } else { ", " }, column.name)?;
                (column.cell)(row).write_json(out)?;
            }
            out.write_str(" }")?;
        }
        let Waited { contended, total_wait_ns, .. } = self.lost;
        let lost = format_args!("\"lost\": {{ \"contended\": {contended}, \"total_wait_ns\": {total_wait_ns} }} }}");
        out.write_str(if self.is_empty() { " " } else { "\n" })?;
        writeln!(out, "], {lost}")
    }
}

impl Column {
    /// Writes the column's head: its name without the unit, over cells as wide as perf's.
    fn write_head(self, out: &mut impl Write) -> fmt::Result {
        let mut name = Name::new();
        let words = self.name.strip_suffix("_ns").unwrap_or(self.name).split('_');
        words
            .enumerate()
            .try_for_each(|(number, word)| write!(name, "{}{word}", if number == 0 { "" } else { " " }))?;
        (self.cell)(&Row::new("", machine::here!(), Waited::default())).write_padded(out, name.as_str())
    }
}

impl Cell {
    /// As wide as in perf: a blank follows numbers and precedes words.
    fn write_padded(self, out: &mut impl Write, text: &str) -> fmt::Result {
        match self {
            Cell::Count(_) => write!(out, "{text:>10} "),
            Cell::Time(_) => write!(out, "{text:>12} "),
            Cell::Word(_) => write!(out, "  {text:>10}"),
            Cell::Caller(_) => write!(out, "   {text}"),
        }
    }

    fn write_text(self, out: &mut impl Write) -> fmt::Result {
        let mut text = Name::new();
        self.write_trimmed(&mut text)?;
        self.write_padded(out, text.as_str())
    }

    fn write_trimmed(self, out: &mut impl Write) -> fmt::Result {
        match self {
            Cell::Count(count) => write!(out, "{count}"),
            Cell::Time(ns) => write_time(out, ns),
            Cell::Word(word) => out.write_str(word),
            Cell::Caller(site) => write!(out, "{site}"),
        }
    }

    /// Names of classes and functions need no escapes.
    fn write_json(self, out: &mut impl Write) -> fmt::Result {
        match self {
            Cell::Count(number) | Cell::Time(number) => write!(out, "{number}"),
            Cell::Word(word) => write!(out, "\"{word}\""),
            Cell::Caller(site) => write!(out, "\"{site}\""),
        }
    }
}

/// Writes a time in perf's units, in the largest of which it has one: two decimals, except for nanoseconds.
fn write_time(out: &mut impl Write, ns: u64) -> fmt::Result {
    static UNITS: [(u64, Word); 5] = [
        (3_600_000_000_000, Word::new("h ")),
        (60_000_000_000, Word::new("m ")),
        (1_000_000_000, Word::new("s ")),
        (1_000_000, Word::new("ms")),
        (1_000, Word::new("us")),
    ];
    match UNITS.iter().find(|&&(unit, _)| ns >= unit) {
        Some((unit, name)) => {
            let hundredths = ns / (unit / 100) + u64::from(ns % (unit / 100) >= unit / 200);
            write!(out, "{}.{:02} {}", hundredths / 100, hundredths % 100, name.as_str())
        }
        None => write!(out, "{ns} ns"),
    }
}

/// A short text without a heap; text that does not fit is cut off.
#[derive(Clone, Copy, Debug)]
pub struct Name {
    text: [u8; Name::MOST],
    len: usize,
}

impl Name {
    /// The longest, in bytes. Callers have some 50.
    pub const MOST: usize = 95;

    /// An empty text.
    pub const fn new() -> Self {
        Name { text: [0; Self::MOST], len: 0 }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(&self.text[..self.len]).unwrap_or("?")
    }
}

impl Default for Name {
    fn default() -> Self {
        Self::new()
    }
}

impl Write for Name {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = &mut self.text[self.len..];
        let most = room.len().min(text.len());
        let len = (0..=most).rev().find(|&len| text.is_char_boundary(len)).unwrap_or(0);
        room[..len].copy_from_slice(&text.as_bytes()[..len]);
        self.len += len;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::here;
    use machine::sync::PLACES;
    use std::string::{String, ToString};
    use std::vec::Vec;

    macro_rules! sites {
        ($($name:ident)*) => {
            [$({
                fn $name() -> Site {
                    here!()
                }
                $name()
            }),*]
        };
    }

    fn many_sites() -> [Site; 40] {
        sites! {
            a0 a1 a2 a3 a4 a5 a6 a7 a8 a9 b0 b1 b2 b3 b4 b5 b6 b7 b8 b9
            c0 c1 c2 c3 c4 c5 c6 c7 c8 c9 d0 d1 d2 d3 d4 d5 d6 d7 d8 d9
        }
    }

    fn record_at_random(contentions: &[Contention], sites: &[Site], records: usize, mut random: u64) -> Waited {
        let mut next = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 20) as usize
        };
        (0..records).fold(Waited::default(), |all, _| {
            let wait_ns = (next() as u64 & 0xffff_ffff) >> (next() % 32);
            contentions[next() % contentions.len()].record(sites[next() % sites.len()], wait_ns);
            all.and(Waited { contended: 1, total_wait_ns: wait_ns, max_wait_ns: wait_ns })
        })
    }

    fn table_of(contentions: &[Contention], text: &str) -> Table {
        let mut table = Table::new();
        contentions
            .iter()
            .zip(["page heap", "shard", "drain", "spare"])
            .for_each(|(contention, class)| table.add(class, contention, text));
        table
    }

    fn written(write: impl FnOnce(&mut String) -> fmt::Result) -> String {
        let mut text = String::new();
        write(&mut text).map(|()| text).expect("a string takes it")
    }

    fn text_of(table: &Table) -> String {
        written(|out| table.write_text(out))
    }

    fn json_of(table: &Table) -> String {
        written(|out| table.write_json(out))
    }

    fn rows_of_json(table: &Table) -> Vec<[u64; 4]> {
        let rows = json_of(table);
        let rows = rows.lines().filter(|line| line.starts_with("  { ")).map(|row| {
            ["contended", "total_wait_ns", "max_wait_ns", "avg_wait_ns"].map(|name| {
                let (_, behind) = row.split_once(&std::format!("\"{name}\": ")).expect("a column of the name");
                behind.split(',').next().and_then(|number| number.parse().ok()).expect("a number")
            })
        });
        rows.collect()
    }

    fn rows_of_text(table: &Table) -> Vec<[f64; 4]> {
        let text = text_of(table);
        let mut lines = text.lines();
        let head = lines.next().expect("a head");
        let rows = lines.skip(1).filter(|line| line.starts_with(' ')).map(|row| {
            ["contended", "total wait", "max wait", "avg wait"].map(|name| {
                let end = head.find(name).expect("a head of the name") + name.len();
                let cell: Vec<&str> = row[end.saturating_sub(12)..end].split_whitespace().collect();
                let unit = match cell.get(1) {
                    None | Some(&"ns") => 1.0,
                    Some(&"us") => 1e3,
                    Some(&"ms") => 1e6,
                    Some(&"s") => 1e9,
                    Some(&"m") => 60e9,
                    Some(&"h") => 3600e9,
                    Some(other) => panic!("{other} is no unit, in {row:?}"),
                };
                cell[0].parse::<f64>().expect("a number") * unit
            })
        });
        rows.collect()
    }

    #[test]
    fn text_is_in_the_columns_and_units_of_perf() {
        let contention = Contention::new();
        contention.record(many_sites()[1], 13_150);
        contention.record(here!(), 2_000_000_000);
        contention.record(many_sites()[0], 999);
        let expected = "\
\x20contended   total wait     max wait     avg wait         type   caller

         1      2.00 s       2.00 s       2.00 s     page heap   observe::columns::tests::\
text_is_in_the_columns_and_units_of_perf
         1     13.15 us     13.15 us     13.15 us    page heap   observe::columns::tests::many_sites::a1
         1       999 ns       999 ns       999 ns    page heap   observe::columns::tests::many_sites::a0
";
        assert_eq!(text_of(&table_of(&[contention], "")), expected);
    }

    #[test]
    fn times_have_the_largest_unit_that_they_have_one_of() {
        let text = |ns| written(|out| write_time(out, ns));
        let times = [0, 999, 1000, 1_234, 1_235, 999_994, 1_000_000, 59_999_000_000, 90_000_000_000, 5_400_000_000_000];
        let texts = "0 ns,999 ns,1.00 us,1.23 us,1.24 us,999.99 us,1.00 ms,60.00 s ,1.50 m ,1.50 h ";
        assert_eq!(times.map(text).join(","), texts);
        assert_eq!(text(u64::MAX), "5124095.58 h ");
    }

    #[test]
    fn json_has_the_fields_by_their_names() {
        let contention = Contention::new();
        let site = many_sites()[7];
        [10, 4, 5].into_iter().for_each(|wait_ns| contention.record(site, wait_ns));
        let expected = "{ \"locks\": [\n  { \"contended\": 3, \"total_wait_ns\": 19, \"max_wait_ns\": 10, \
             \"avg_wait_ns\": 6, \
             \"type\": \"page heap\", \"caller\": \"observe::columns::tests::many_sites::a7\" }\n\
             ], \"lost\": { \"contended\": 0, \"total_wait_ns\": 0 } }\n";
        assert_eq!(json_of(&table_of(&[contention], "")), expected);
        let nothing = "{ \"locks\": [ ], \"lost\": { \"contended\": 0, \"total_wait_ns\": 0 } }\n";
        assert_eq!(json_of(&table_of(&[Contention::new()], "")), nothing);
    }

    #[test]
    fn contention_rows_agree_on_count_total_longest_and_average() {
        for seed in 1..20 {
            let contentions = [const { Contention::new() }; 3];
            let recorded = record_at_random(&contentions, &many_sites()[..10], 200, seed);
            let table = table_of(&contentions, "");
            let (json, text) = (rows_of_json(&table), rows_of_text(&table));
            assert_eq!((json.len(), text.len()), (table.len, table.len));
            for (&[contended, total, max, avg], in_text) in json.iter().zip(&text) {
                assert!(max <= total && total <= contended * max, "{contended} {total} {max} {avg}");
                assert_eq!(avg, total / contended);
                let shown = [contended, total, max, avg].map(|number| number as f64);
                let is_near = |(shown, in_text): (f64, &f64)| (shown - in_text).abs() <= 0.006 * shown;
                assert!(shown.into_iter().zip(in_text).all(is_near), "{shown:?} is shown as {in_text:?}");
            }
            assert!(json.is_sorted_by_key(|row| core::cmp::Reverse(row[1])), "{json:?}");
            assert_eq!(json.iter().map(|row| row[0]).sum::<u64>(), recorded.contended);
            assert_eq!(json.iter().map(|row| row[1]).sum::<u64>(), recorded.total_wait_ns);
            assert_eq!(json.iter().map(|row| row[2]).max(), Some(recorded.max_wait_ns));
            assert_eq!(table.lost, Waited::default());
        }
    }

    #[test]
    fn contention_without_room_is_reported_as_lost() {
        // More sites than a class has places, and more rows than the table has.
        let contentions = [const { Contention::new() }; MOST_ROWS / PLACES + 1];
        let recorded = record_at_random(&contentions, &many_sites(), 4000, 1);
        assert!(contentions.iter().all(|contention| contention.sites().count() == PLACES));
        let table = table_of(&contentions, "");
        let rows = rows_of_json(&table);
        assert_eq!(rows.len(), MOST_ROWS);
        let lost = table.lost;
        assert!(lost.contended > 0);
        assert_eq!(rows.iter().map(|row| row[0]).sum::<u64>() + lost.contended, recorded.contended);
        assert_eq!(rows.iter().map(|row| row[1]).sum::<u64>() + lost.total_wait_ns, recorded.total_wait_ns);
        let told =
            std::format!("commensal: more than the table has rows for: contended {}, total wait ", lost.contended);
        assert!(text_of(&table).lines().last().is_some_and(|line| line.starts_with(&told)));
    }

    #[test]
    fn rows_beyond_the_table_are_those_with_the_least_waiting() {
        let mut rows = [0; 4];
        let mut len = 0;
        let out: Vec<u64> = [3, 1, 4, 1, 5, 9, 2, 6]
            .into_iter()
            .filter_map(|row| insert(&mut rows, &mut len, row, |&row| row))
            .collect();
        assert_eq!((rows, len), ([9, 6, 5, 4], 4));
        assert_eq!(out, [1, 1, 2, 3]);
        assert_eq!(insert(&mut [], &mut 0, 1, |&row| row), Some(1));
    }

    #[test]
    fn lock_filter_matches_type_and_caller() {
        let contentions = [const { Contention::new() }; 3];
        let sites = many_sites();
        contentions.iter().for_each(|contention| sites[..3].iter().for_each(|&site| contention.record(site, 5)));
        let counts =
            ["", "page heap", "sites::a1", "dr", "sites::a9"].map(|text| table_of(&contentions, text).rows().count());
        assert_eq!(counts, [9, 3, 3, 3, 0]);
    }

    #[test]
    fn names_are_cut_at_letters() {
        let mut name = Name::new();
        (0..50).for_each(|_| name.write_str("…").expect("it is cut"));
        assert_eq!(name.as_str().to_string(), "…".repeat(Name::MOST / 3));
    }
}
