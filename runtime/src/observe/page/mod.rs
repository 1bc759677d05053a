//! The statistics page: a process's report about itself, in memory that others read while it runs and after a crash.
//!
//! ```text
//!   header     mark │ version │ current │ process │ bytes │ … │ where the tables lie in a copy
//!   copy 0     turn, times, number of rows │ process │ caches … │ slots … │ groups … │ locks …
//!   copy 1     the same
//! ```
//!
//! The process fills the copy that is not current, a part at a time, in memory of its own. Then it publishes the parts
//! that [`Writer`] names, in their order, so a crash in the middle leaves the previous copy. Readers copy the whole
//! page, without a lock or a mark, and check that the copy's turn is unchanged afterwards, and even. Numbers have 64
//! bits in the machine's byte order. `observe::figures` defines the tables. All versions begin alike, up to `version`.
//!
//! Runs at the same time: one writer; any readers, in other processes.

mod tables;

pub use super::text::Text;
pub use tables::{AnyRow, VERSION};

use super::figures::{Figures, Row, TABLES};
use core::mem::{offset_of, size_of};
use core::ops::Range;
use core::ptr::NonNull;
use machine::sync::{AtomicU32, AtomicU64, Ordering, order_writes};

/// The first bytes of a page.
pub const MARK: [u8; 8] = *b"cmstats\0";
/// Offset of the number that is 1 after an orderly end.
pub const ENDED_AT: usize = offset_of!(Header, ended);
/// No copy is current yet; otherwise `current` is the copy's number plus one.
const NONE: u32 = 0;

const ROW_BYTES: [usize; TABLES.len()] = {
    let mut bytes = [0; TABLES.len()];
    let mut number = 0;
    while number < TABLES.len() {
        bytes[number] = TABLES[number].row_bytes;
        number += 1;
    }
    bytes
};

/// Number of rows that have room: of caches, slots, groups and locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Rows of caches.
    pub caches: usize,
    /// Rows of slots.
    pub slots: usize,
    /// Rows of groups.
    pub groups: usize,
    /// Rows of locks.
    pub locks: usize,
}

#[repr(C)]
struct Header {
    mark: [u8; 8],
    version: u32,
    current: AtomicU32,
    process: u32,
    /// 1: the process ended in an orderly way, where it could not remove the page.
    ended: u32,
    /// Of the whole page.
    bytes: u64,
    made_at_ns: u64,
    program: Text<16>,
    library: Text<16>,
    copies: [u64; 2],
    tables: [Place; TABLES.len()],
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Place {
    offset: u32,
    row_bytes: u32,
    rows: u32,
    unused: u32,
}

#[repr(C)]
struct Copy {
    /// Odd during a write.
    turn: AtomicU64,
    began_ns: u64,
    ended_ns: u64,
    /// Time spent on writing: less than the whole time, because it is written in parts.
    cost_ns: u64,
    rows: [u32; TABLES.len()],
    /// Rows without room, by table.
    lost: [u32; TABLES.len()],
}

const ALIGNMENT: usize = 64;

impl Room {
    fn rows(self) -> [usize; TABLES.len()] {
        [1, self.caches, self.slots, self.groups, self.locks]
    }

    fn tables(self) -> ([Place; TABLES.len()], usize) {
        let mut end = size_of::<Copy>().next_multiple_of(ALIGNMENT);
        let mut tables = [Place { offset: 0, row_bytes: 0, rows: 0, unused: 0 }; TABLES.len()];
        for ((table, rows), row_bytes) in tables.iter_mut().zip(self.rows()).zip(ROW_BYTES) {
            *table = Place { offset: end as u32, row_bytes: row_bytes as u32, rows: rows as u32, unused: 0 };
            end += rows * row_bytes;
        }
        (tables, end.next_multiple_of(ALIGNMENT))
    }

    /// Bytes of a page with this much room.
    pub fn bytes(self) -> usize {
        size_of::<Header>().next_multiple_of(ALIGNMENT) + 2 * self.tables().1
    }
}

/// The writer of a process's page. All zeroes means no page.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Writer {
    header: Option<NonNull<Header>>,
    /// The copy that is being written, if any.
    copy: Option<NonNull<Copy>>,
}

impl Writer {
    /// Makes a page out of zeroes. Returns the parts to publish: the mark last, so that readers see whole pages only.
    ///
    /// # Safety
    /// The caller owns the memory for ever. It is page-aligned and large enough; only this writer writes there.
    pub unsafe fn begin(
        &mut self, memory: *mut u8, room: Room, process: u32, program: Text<16>, now_ns: u64,
    ) -> [Range<usize>; 2] {
        let (tables, copy_bytes) = room.tables();
        let first = size_of::<Header>().next_multiple_of(ALIGNMENT);
        let parts = [size_of_val(&MARK)..size_of::<Header>(), 0..size_of_val(&MARK)];
        let Some(header) = NonNull::new(memory.cast::<Header>()) else { return parts };
        let whole = Header {
            mark: MARK,
            version: VERSION,
            current: AtomicU32::new(NONE),
            process,
            ended: 0,
            bytes: room.bytes() as u64,
            made_at_ns: now_ns,
            program,
            library: Text::of(env!("CARGO_PKG_VERSION")),
            copies: [first as u64, (first + copy_bytes) as u64],
            tables,
        };
        // SAFETY: passed on.
        unsafe { header.write(whole) };
        *self = Writer { header: Some(header), copy: None };
        parts
    }

    /// Whether there is a page.
    pub fn has_begun(&self) -> bool {
        self.header.is_some()
    }

    fn header(&self) -> Option<&Header> {
        // SAFETY: the page lives as long as the process.
        self.header.map(|header| unsafe { header.as_ref() })
    }

    fn copy(&mut self) -> Option<&mut Copy> {
        // SAFETY: in the page, and only this writer writes there.
        self.copy.as_mut().map(|copy| unsafe { copy.as_mut() })
    }

    /// Begins to write the copy that is not current, with a row of figures only. Returns its odd turn to publish.
    pub fn start(&mut self, now_ns: u64) -> Range<usize> {
        let Some((place, header)) = self.header.zip(self.header()) else { return 0..0 };
        let other = header.copies[usize::from(header.current.load(Ordering::Relaxed) == 1)];
        // SAFETY: in the page.
        self.copy = Some(unsafe { place.cast::<u8>().add(other as usize) }.cast());
        let Some(copy) = self.copy() else { return 0..0 };
        copy.turn.store(copy.turn.load(Ordering::Relaxed) | 1, Ordering::Relaxed);
        // For readers of this very memory, as in tests.
        order_writes();
        (copy.began_ns, copy.cost_ns, copy.rows, copy.lost) = (now_ns, 0, [0; TABLES.len()], [0; TABLES.len()]);
        self.row::<Figures>(0);
        let at = other as usize;
        at..at + size_of::<AtomicU64>()
    }

    /// Whether a copy is being written.
    pub fn is_writing(&self) -> bool {
        self.copy.is_some()
    }

    /// Adds to the time spent on the copy that is being written.
    pub fn spend(&mut self, ns: u64) {
        if let Some(copy) = self.copy() {
            copy.cost_ns += ns;
        }
    }

    /// Makes the copy that was being written current. Returns the parts to publish, each by a call of its own. A reader
    /// that sees the turn sees everything published before it, and one that sees `current` sees the turn. A reader that
    /// read parts of two versions then finds the turn odd, or changed, because the turn was published first.
    pub fn finish(&mut self, now_ns: u64) -> [Range<usize>; 3] {
        let none = [0..0, 0..0, 0..0];
        let Some(copy) = self.copy() else { return none };
        copy.ended_ns = now_ns;
        copy.turn.store(copy.turn.load(Ordering::Relaxed) + 1, Ordering::Release);
        self.copy = None;
        let Some(header) = self.header() else { return none };
        let next = if header.current.load(Ordering::Relaxed) == 1 { 2 } else { 1 };
        header.current.store(next, Ordering::Release);
        let [first, second] = header.copies.map(|at| at as usize);
        let at = if next == 1 { first } else { second };
        let (turn, current) = (at + size_of::<AtomicU64>(), offset_of!(Header, current));
        [turn..at + (second - first), at..turn, current..current + size_of::<AtomicU32>()]
    }

    /// A row of the copy being written. Creates it, and all rows before it, as zeroes if needed. None: no room.
    pub fn row<R: Row>(&mut self, number: usize) -> Option<&mut R> {
        let place = self.header()?.tables[R::NUMBER];
        let first = self.copy?.cast::<u8>();
        let rows = &mut self.copy()?.rows[R::NUMBER];
        if number >= place.rows as usize {
            return None;
        }
        // SAFETY: within the table; any bytes are a row.
        unsafe {
            let first = first.add(place.offset as usize).cast::<R>();
            for fresh in *rows as usize..=number {
                first.add(fresh).as_ptr().write_bytes(0, 1);
            }
            *rows = (*rows).max(number as u32 + 1);
            Some(first.add(number).as_mut())
        }
    }

    /// The next row.
    pub fn push<R: Row>(&mut self) -> Option<&mut R> {
        let rows = self.copy()?.rows[R::NUMBER];
        self.row(rows as usize)
    }

    /// Counts rows without room.
    pub fn lose<R: Row>(&mut self, many: u32) {
        if let Some(copy) = self.copy() {
            copy.lost[R::NUMBER] += many;
        }
    }
}

/// Why a page cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// It is not a page.
    Foreign,
    /// It has another version.
    Version(u32),
    /// It has fewer bytes than its header says.
    Truncated {
        /// Bytes found.
        bytes: usize,
        /// Bytes expected.
        expected: u64,
    },
    /// Its header contradicts itself.
    Damaged(&'static str),
    /// Nothing was written yet.
    Empty,
    /// It was written while it was copied: copy it again.
    Changing,
}

/// A copied page.
#[derive(Clone, Copy, Debug)]
pub struct Page<'a>(&'a [u8]);

/// The process's report at one time.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot<'a> {
    page: Page<'a>,
    at: usize,
}

impl<'a> Page<'a> {
    /// The page in these bytes.
    ///
    /// # Errors
    /// They are no page, a part of one, or one of another version.
    pub fn of(bytes: &'a [u8]) -> Result<Self, Unreadable> {
        if !bytes.starts_with(&MARK) {
            return Err(Unreadable::Foreign);
        }
        let (page, len) = (Page(bytes), bytes.len());
        let truncated = |expected| Err(Unreadable::Truncated { bytes: len, expected });
        if len < offset_of!(Header, current) {
            return truncated(size_of::<Header>() as u64);
        }
        match page.read(offset_of!(Header, version)) {
            VERSION if len < size_of::<Header>() => return truncated(size_of::<Header>() as u64),
            VERSION => {}
            other => return Err(Unreadable::Version(other)),
        }
        let expected: u64 = page.read(offset_of!(Header, bytes));
        let page = match bytes.get(..usize::try_from(expected).unwrap_or(usize::MAX)) {
            Some(bytes) if bytes.len() >= size_of::<Header>() => Page(bytes),
            Some(_) => return Err(Unreadable::Damaged("it is shorter than its header")),
            None => return truncated(expected),
        };
        let ends = (0..2).map(|copy| page.copy_at(copy).checked_add(size_of::<Copy>()));
        if ends.into_iter().any(|end| end.is_none_or(|end| end > page.length())) {
            return Err(Unreadable::Damaged("a copy lies outside of the page"));
        }
        Ok(page)
    }

    /// Its length in bytes, at most that of the bytes it was found in.
    pub fn length(self) -> usize {
        self.0.len()
    }

    /// The number of the process.
    pub fn process(self) -> u32 {
        self.read(offset_of!(Header, process))
    }

    /// Whether the process ended in an orderly way.
    pub fn has_ended(self) -> bool {
        self.read::<u32>(ENDED_AT) != 0
    }

    /// When it was made, on the machine's monotonic clock.
    pub fn made_at_ns(self) -> u64 {
        self.read(offset_of!(Header, made_at_ns))
    }

    /// The kernel's name of the program at that time.
    pub fn program(self) -> Text<16> {
        self.read(offset_of!(Header, program))
    }

    /// The version of the library.
    pub fn library(self) -> Text<16> {
        self.read(offset_of!(Header, library))
    }

    /// The latest report.
    ///
    /// # Errors
    /// There is no report yet, or it is damaged.
    pub fn snapshot(self) -> Result<Snapshot<'a>, Unreadable> {
        let copy = match self.read(offset_of!(Header, current)) {
            NONE => return Err(Unreadable::Empty),
            current @ 1..=2 => current as usize - 1,
            _ => return Err(Unreadable::Damaged("there is no such copy")),
        };
        let snapshot = Snapshot { page: self, at: self.copy_at(copy) };
        if !snapshot.turn().is_multiple_of(2) {
            return Err(Unreadable::Changing);
        }
        for (number, row_bytes) in ROW_BYTES.into_iter().enumerate() {
            let place = self.place(number);
            let rows = snapshot.rows_of(number);
            let end = snapshot.at as u64 + u64::from(place.offset) + u64::from(rows) * u64::from(place.row_bytes);
            if place.row_bytes as usize != row_bytes || rows > place.rows || end > self.0.len() as u64 {
                return Err(Unreadable::Damaged("a table lies outside of the page, or has other rows"));
            }
        }
        Ok(snapshot)
    }

    fn copy_at(self, copy: usize) -> usize {
        let at: u64 = self.read(offset_of!(Header, copies) + 8 * copy);
        usize::try_from(at).unwrap_or(usize::MAX)
    }

    fn place(self, table: usize) -> Place {
        self.read(offset_of!(Header, tables) + table * size_of::<Place>())
    }

    /// The value at a place within the page, of a type for which any bytes are valid.
    fn read<T: core::marker::Copy>(self, at: usize) -> T {
        let bytes = &self.0[at..at + size_of::<T>()];
        // SAFETY: that many bytes exist; the types read here are numbers, and arrays and structures of numbers.
        unsafe { bytes.as_ptr().cast::<T>().read_unaligned() }
    }
}

impl<'a> Snapshot<'a> {
    /// Changes when the copy is written again: a reader that copied the page meanwhile finds another value.
    pub fn turn(self) -> u64 {
        self.page.read(self.at + offset_of!(Copy, turn))
    }

    /// The turn's offset in the page.
    pub fn turn_at(self) -> usize {
        self.at + offset_of!(Copy, turn)
    }

    /// When the write began, on the machine's monotonic clock.
    pub fn began_ns(self) -> u64 {
        self.page.read(self.at + offset_of!(Copy, began_ns))
    }

    /// When it ended.
    pub fn ended_ns(self) -> u64 {
        self.page.read(self.at + offset_of!(Copy, ended_ns))
    }

    /// Time spent on writing.
    pub fn cost_ns(self) -> u64 {
        self.page.read(self.at + offset_of!(Copy, cost_ns))
    }

    /// The figures of the process.
    pub fn figures(self) -> Figures {
        self.rows().next().unwrap_or(Figures::NONE)
    }

    /// The rows of a table.
    pub fn rows<R: Row>(self) -> impl Iterator<Item = R> + use<'a, R> {
        let first = self.at + self.page.place(R::NUMBER).offset as usize;
        (0..self.rows_of(R::NUMBER) as usize).map(move |row| self.page.read(first + row * size_of::<R>()))
    }

    /// The rows of a table by its number.
    pub fn rows_in(self, number: usize) -> impl ExactSizeIterator<Item = AnyRow<'a>> {
        let bytes = ROW_BYTES[number];
        let first = self.at + self.page.place(number).offset as usize;
        let page = self.page.0;
        (0..self.rows_of(number) as usize)
            .map(move |row| AnyRow { table: &TABLES[number], bytes: &page[first + row * bytes..][..bytes] })
    }

    /// Rows of a table that had no room.
    pub fn lost_in(self, number: usize) -> u32 {
        self.page.read(self.at + offset_of!(Copy, lost) + 4 * number)
    }

    fn rows_of(self, table: usize) -> u32 {
        self.page.read(self.at + offset_of!(Copy, rows) + 4 * table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::figures::{Cache, Lock, Slot};
    use std::vec::Vec;

    const ROOM: Room = Room { caches: 3, slots: 2, groups: 1, locks: 1 };

    fn page() -> (Vec<u64>, Writer) {
        let mut memory = std::vec![0_u64; ROOM.bytes().div_ceil(8)];
        let mut writer = Writer::default();
        // SAFETY: it is long enough, and lives as long as the test.
        unsafe { writer.begin(memory.as_mut_ptr().cast(), ROOM, 7, Text::of("prog"), 1) };
        (memory, writer)
    }

    fn bytes(memory: &[u64]) -> &[u8] {
        // SAFETY: numbers are bytes.
        unsafe { core::slice::from_raw_parts(memory.as_ptr().cast(), memory.len() * 8) }
    }

    fn write(writer: &mut Writer, at: u64) {
        writer.start(at);
        writer.row::<Figures>(0).unwrap().runs = at;
        for number in [1, 0, 3] {
            match writer.row::<Cache>(number) {
                Some(cache) => (cache.name, cache.in_use) = (Text::of(number), at),
                None => writer.lose::<Cache>(1),
            }
        }
        writer.finish(at + 1);
    }

    #[test]
    fn page_after_each_write_reads_the_new_snapshot() {
        let (memory, mut writer) = page();
        let read = || Page::of(bytes(&memory)).unwrap();
        assert_eq!((read().process(), read().program().as_str(), read().made_at_ns()), (7, "prog", 1));
        assert_eq!(read().snapshot().err(), Some(Unreadable::Empty));
        for at in [10, 20, 30] {
            write(&mut writer, at);
            let snapshot = read().snapshot().unwrap();
            assert_eq!((snapshot.began_ns(), snapshot.ended_ns(), snapshot.figures().runs), (at, at + 1, at));
            let caches: Vec<_> = snapshot.rows::<Cache>().map(|cache| (cache.name, cache.in_use)).collect();
            assert_eq!(caches, [(Text::of(0), at), (Text::of(1), at)]);
            assert_eq!((snapshot.lost_in(Cache::NUMBER), snapshot.lost_in(Slot::NUMBER)), (1, 0));
            let any: Vec<_> = snapshot.rows_in(Cache::NUMBER).collect();
            let first = (any[1].texts().next(), any[1].get("in_use"), any[1].values().sum::<u64>());
            assert_eq!((any.len(), first), (2, (Some("1"), Some(at), at)));
            assert_eq!(any[1].get("none"), None);
        }
    }

    #[test]
    fn page_with_an_unfinished_write_keeps_the_copy_before() {
        let (memory, mut writer) = page();
        write(&mut writer, 10);
        for at in [20, 30] {
            let before = Page::of(bytes(&memory)).unwrap().snapshot().unwrap();
            let turn = before.turn();
            writer.start(at);
            writer.row::<Figures>(0).unwrap().runs = at;
            let now = Page::of(bytes(&memory)).unwrap().snapshot().unwrap();
            assert_eq!((now.figures().runs, now.turn()), (10, turn), "begun at {at} and not finished");
        }
        // A reader of the copy that is now written detects the change.
        writer.finish(31);
        let read = Page::of(bytes(&memory)).unwrap().snapshot().unwrap();
        writer.start(40);
        writer.finish(41);
        writer.start(50);
        assert_ne!(Page::of(bytes(&memory)).unwrap().read::<u64>(read.turn_at()) % 2, 0);
    }

    #[test]
    fn other_pages_are_told_apart() {
        let (memory, mut writer) = page();
        write(&mut writer, 10);
        let whole = bytes(&memory).to_vec();
        let refused = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = whole.clone();
            change(&mut bytes);
            Page::of(&bytes).and_then(|page| page.snapshot().map(|_| ())).unwrap_err()
        };
        let put =
            |at: usize, value: u32| move |bytes: &mut Vec<u8>| bytes[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        assert_eq!(refused(&|bytes| bytes[0] = 0), Unreadable::Foreign);
        assert_eq!(refused(&|bytes| bytes.clear()), Unreadable::Foreign);
        assert_eq!(refused(&put(offset_of!(Header, version), VERSION + 1)), Unreadable::Version(VERSION + 1));
        let expected = whole.len() as u64;
        for bytes in [whole.len() - 1, size_of::<Header>()] {
            assert_eq!(
                refused(&|page| page.truncate(bytes)),
                Unreadable::Truncated { bytes, expected: ROOM.bytes() as u64 }
            );
        }
        assert!(expected >= ROOM.bytes() as u64);
        for bytes in [8, 13, size_of::<Header>() - 1] {
            assert!(matches!(refused(&|page| page.truncate(bytes)), Unreadable::Truncated { .. }), "{bytes} bytes");
        }
        let copies = offset_of!(Header, copies);
        let rows_of_caches = offset_of!(Header, tables) + size_of::<Place>() + offset_of!(Place, rows);
        let row_bytes_of_caches = offset_of!(Header, tables) + size_of::<Place>() + offset_of!(Place, row_bytes);
        for (at, value) in [
            (copies + 4, 1),
            (copies, u32::MAX),
            (offset_of!(Header, current), 3),
            (rows_of_caches, 1),
            (row_bytes_of_caches, 8),
        ] {
            assert!(matches!(refused(&put(at, value)), Unreadable::Damaged(_)), "{value} at {at}");
        }
    }

    #[test]
    fn page_with_any_byte_changed_is_read_or_refused() {
        let (memory, mut writer) = page();
        write(&mut writer, 10);
        let whole = bytes(&memory).to_vec();
        for at in (0..size_of::<Header>() + size_of::<Copy>()).chain([whole.len() - 1]) {
            for value in [0, 1, 0x7f, 0xff] {
                let mut bytes = whole.clone();
                bytes[at] = value;
                if let Ok(snapshot) = Page::of(&bytes).and_then(Page::snapshot) {
                    let _ = snapshot.figures();
                    let _ = (
                        snapshot.rows::<Cache>().count(),
                        snapshot.rows::<Lock>().count(),
                        snapshot.rows::<Slot>().count(),
                    );
                }
            }
        }
    }
}
