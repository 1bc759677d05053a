//! The lock report's rows, as text in the columns of `perf lock contention`, and as JSON by the names of their fields.
//!
//! A [`Table`] allocates nothing: it keeps the rows with most waiting, and counts the rest.

use super::Shown;
use super::figures::Unit;
use super::text::Text;
use core::fmt::{self, Write};
use machine::sync::{Contention, Site, Waited};

/// The waits of one call site for the locks of a class.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Acquisitions that did not succeed at once.
    pub contended: u64,
    /// Nanoseconds waited in total.
    pub total_wait_ns: u64,
    /// The longest wait in nanoseconds.
    pub max_wait_ns: u64,
    /// The average wait in nanoseconds, rounded down.
    pub avg_wait_ns: u64,
    /// The longest hold in nanoseconds of CPU time; 0 unless they are measured.
    pub max_hold_ns: u64,
    /// The class of the locks.
    pub class: &'static str,
    /// The function that waited.
    pub caller: Site,
}

impl Row {
    /// A row of waits.
    pub fn new(class: &'static str, caller: Site, waited: Waited) -> Self {
        let Waited { contended, total_wait_ns, max_wait_ns, max_hold_ns } = waited;
        Row { contended, total_wait_ns, max_wait_ns, avg_wait_ns: waited.avg_wait_ns(), max_hold_ns, class, caller }
    }

    /// As wide as in perf. Holds, which perf does not know, have a column only if they were measured.
    fn write_text(&self, out: &mut impl Write, has_holds: bool) -> fmt::Result {
        let times = [self.total_wait_ns, self.max_wait_ns, self.avg_wait_ns].map(time);
        let [total, max, avg] = times.each_ref().map(Text::as_str);
        let Row { contended, class, caller, .. } = self;
        write!(out, "{contended:>10} {total:>12} {max:>12} {avg:>12} ")?;
        if has_holds {
            write!(out, "{:>12} ", time(self.max_hold_ns).as_str())?;
        }
        writeln!(out, "  {class:>10}   {caller}")
    }

    /// Names of classes and functions need no escapes.
    fn write_json(&self, out: &mut impl Write) -> fmt::Result {
        let Row { contended, total_wait_ns, max_wait_ns, avg_wait_ns, max_hold_ns, class, caller } = self;
        write!(out, "  {{ \"contended\": {contended}, \"total_wait_ns\": {total_wait_ns}, ")?;
        write!(out, "\"max_wait_ns\": {max_wait_ns}, \"avg_wait_ns\": {avg_wait_ns}, ")?;
        write!(out, "\"max_hold_ns\": {max_hold_ns}, \"type\": \"{class}\", \"caller\": \"{caller}\" }}")
    }
}

fn time(ns: u64) -> Text<16> {
    Text::of(Shown { unit: Unit::Nanoseconds, value: ns, now_ns: 0 })
}

/// Shows the rows of a class that have waits or holds. Returns the waits that have no row.
pub fn rows_of(class: &'static str, contention: &Contention, show: impl FnMut(Row)) -> Waited {
    let rows = contention.sites().map(|(site, waited)| Row::new(class, site, waited));
    rows.filter(|row| row.contended > 0 || row.max_hold_ns > 0).for_each(show);
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
    /// The rows of all these classes.
    pub fn of<'a>(classes: impl Iterator<Item = (&'static str, &'a Contention)>) -> Self {
        let mut table = Table { rows: [None; MOST_ROWS], len: 0, lost: Waited::default() };
        for (class, contention) in classes {
            let lost = rows_of(class, contention, |row| table.insert(row));
            table.lost = table.lost.and(lost);
        }
        table
    }

    fn insert(&mut self, row: Row) {
        let total = |row: &Option<Row>| row.map_or(0, |row| row.total_wait_ns.max(row.max_hold_ns));
        let out = insert(&mut self.rows, &mut self.len, Some(row), total);
        if let Some(Row { contended, total_wait_ns, max_wait_ns, max_hold_ns, .. }) = out.flatten() {
            self.lost = self.lost.and(Waited { contended, total_wait_ns, max_wait_ns, max_hold_ns });
        }
    }

    /// The rows, in falling order of the total wait or, if that is longer, the longest hold.
    fn rows(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().take(self.len).flatten()
    }

    /// Writes the table like `perf lock contention`, a line at a time.
    ///
    /// # Errors
    /// The errors of `out`.
    pub fn write_text(&self, out: &mut impl Write) -> fmt::Result {
        let has_holds = self.rows().any(|row| row.max_hold_ns > 0);
        match self.len {
            0 => out.write_str("commensal: no lock was contended\n")?,
            _ => {
                let hold = if has_holds { "     max hold" } else { "" };
                writeln!(out, " contended   total wait     max wait     avg wait{hold}         type   caller\n")?;
            }
        }
        self.rows().try_for_each(|row| row.write_text(out, has_holds))?;
        let Waited { contended, total_wait_ns, .. } = self.lost;
        if contended > 0 {
            let total = time(total_wait_ns);
            write!(out, "commensal: more than the table has rows for: ")?;
            writeln!(out, "contended {contended}, total wait {}", total.as_str())?;
        }
        Ok(())
    }

    /// Writes the table as one JSON object, a line at a time.
    ///
    /// # Errors
    /// The errors of `out`.
    pub fn write_json(&self, out: &mut impl Write) -> fmt::Result {
        write!(out, "{{ \"locks\": [")?;
        for (number, row) in self.rows().enumerate() {
            out.write_str(if number == 0 { "\n" } else { ",\n" })?;
            row.write_json(out)?;
        }
        let Waited { contended, total_wait_ns, .. } = self.lost;
        out.write_str(if self.len == 0 { " " } else { "\n" })?;
        writeln!(out, "], \"lost\": {{ \"contended\": {contended}, \"total_wait_ns\": {total_wait_ns} }} }}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::here;
    use machine::sync::PLACES;
    use std::string::String;
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
            all.and(Waited { contended: 1, total_wait_ns: wait_ns, max_wait_ns: wait_ns, max_hold_ns: 0 })
        })
    }

    fn table_of(contentions: &[Contention]) -> Table {
        Table::of(["page heap", "shard", "drain", "spare"].into_iter().zip(contentions))
    }

    fn written(write: impl FnOnce(&mut String) -> fmt::Result) -> String {
        let mut text = String::new();
        write(&mut text).map(|()| text).expect("a string takes it")
    }

    #[test]
    fn text_is_in_the_columns_and_units_of_perf() {
        let contention = Contention::new();
        contention.record(many_sites()[1], 13_150);
        contention.record(here!(), 2_000_000_000);
        contention.record(many_sites()[0], 999);
        let expected = "\
\x20contended   total wait     max wait     avg wait         type   caller

         1       2.00 s       2.00 s       2.00 s    page heap   observe::columns::tests::\
text_is_in_the_columns_and_units_of_perf
         1      13.2 us      13.2 us      13.2 us    page heap   observe::columns::tests::many_sites::a1
         1       999 ns       999 ns       999 ns    page heap   observe::columns::tests::many_sites::a0
";
        assert_eq!(written(|out| table_of(&[contention]).write_text(out)), expected);
    }

    #[test]
    fn json_has_the_fields_by_their_names() {
        let contention = Contention::new();
        let site = many_sites()[7];
        [10, 4, 5].into_iter().for_each(|wait_ns| contention.record(site, wait_ns));
        let expected = "{ \"locks\": [\n  { \"contended\": 3, \"total_wait_ns\": 19, \"max_wait_ns\": 10, \
             \"avg_wait_ns\": 6, \"max_hold_ns\": 0, \
             \"type\": \"page heap\", \"caller\": \"observe::columns::tests::many_sites::a7\" }\n\
             ], \"lost\": { \"contended\": 0, \"total_wait_ns\": 0 } }\n";
        assert_eq!(written(|out| table_of(&[contention]).write_json(out)), expected);
        let nothing = "{ \"locks\": [ ], \"lost\": { \"contended\": 0, \"total_wait_ns\": 0 } }\n";
        assert_eq!(written(|out| table_of(&[Contention::new()]).write_json(out)), nothing);
    }

    #[test]
    fn contention_without_room_is_reported_as_lost() {
        // More sites than a class has places, and more rows than the table has.
        let contentions = [const { Contention::new() }; MOST_ROWS / PLACES + 1];
        let recorded = record_at_random(&contentions, &many_sites(), 4000, 1);
        assert!(contentions.iter().all(|contention| contention.sites().count() == PLACES));
        let table = table_of(&contentions);
        let rows: Vec<&Row> = table.rows().collect();
        assert_eq!(rows.len(), MOST_ROWS);
        assert!(rows.is_sorted_by_key(|row| core::cmp::Reverse(row.total_wait_ns)), "{rows:?}");
        let lost = table.lost;
        assert!(lost.contended > 0);
        assert_eq!(rows.iter().map(|row| row.contended).sum::<u64>() + lost.contended, recorded.contended);
        assert_eq!(rows.iter().map(|row| row.total_wait_ns).sum::<u64>() + lost.total_wait_ns, recorded.total_wait_ns);
        let told =
            std::format!("commensal: more than the table has rows for: contended {}, total wait ", lost.contended);
        assert!(written(|out| table.write_text(out)).lines().last().is_some_and(|line| line.starts_with(&told)));
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
}
