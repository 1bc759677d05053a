//! The quarantine of a hardened heap's large blocks: mappings that were freed, and that no code can access until they
//! are used again. A read or a write of one is a fault.
//!
//! Giving access back costs a system call, whereas a new mapping costs a fault for each page. A block may get a longer
//! mapping than it needs. The rest stays without access, and the block may grow into it.

use super::guarded::Mapping;
use core::ops::RangeInclusive;

/// Mappings that are kept.
const MOST: usize = 128;
/// Bytes that all of them have at most, and each of them.
const MOST_BYTES: usize = 16 << 20;
const MOST_BYTES_OF_ONE: usize = 2 << 20;

/// The mappings; those of no bytes are none.
pub type Table = [Mapping; MOST];

/// Mappings in a ring, the oldest at `next`. Under the page heap's lock. In a fork child, one that another thread was
/// moving may be lost.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Kept {
    /// None: nothing is kept.
    table: Option<&'static mut Table>,
    next: usize,
    bytes: usize,
}

impl Kept {
    /// Begins to keep mappings, in a table of zeroes.
    pub fn begin(&mut self, table: &'static mut Table) {
        self.table = Some(table);
    }

    pub fn keeps(&self, mapping: Mapping) -> bool {
        self.table.is_some() && mapping.bytes <= MOST_BYTES_OF_ONE
    }

    /// The smallest mapping of these lengths.
    pub fn take(&mut self, bytes: RangeInclusive<usize>) -> Option<Mapping> {
        let fitting = self.table.as_mut()?.iter_mut().filter(|mapping| bytes.contains(&mapping.bytes));
        let taken = core::mem::take(fitting.min_by_key(|mapping| mapping.bytes)?);
        self.bytes -= taken.bytes;
        Some(taken)
    }

    /// Keeps a mapping. Returns one that has to go: if there is no place, the oldest.
    pub fn put(&mut self, mapping: Mapping) -> Option<Mapping> {
        let mut places = (0..MOST).map(|distance| (self.next + distance) % MOST);
        let (table, next) = (self.table.as_mut()?, self.next);
        let place = places.find(|&place| table[place].bytes == 0);
        let oldest = if place.is_none() { self.take_oldest() } else { None };
        self.table.as_mut()?[place.unwrap_or(next)] = mapping;
        self.bytes += mapping.bytes;
        oldest.or_else(|| self.take_surplus())
    }

    /// The oldest, if there are too many bytes.
    pub fn take_surplus(&mut self) -> Option<Mapping> {
        if self.bytes > MOST_BYTES { self.take_any() } else { None }
    }

    /// The oldest.
    pub fn take_any(&mut self) -> Option<Mapping> {
        (0..MOST).find_map(|_| self.take_oldest())
    }

    fn take_oldest(&mut self) -> Option<Mapping> {
        let oldest = core::mem::take(&mut self.table.as_mut()?[self.next]);
        self.next = (self.next + 1) % MOST;
        self.bytes -= oldest.bytes;
        (oldest.bytes != 0).then_some(oldest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::ptr::without_provenance_mut;

    fn none_kept() -> Kept {
        let mut kept = Kept::default();
        kept.begin(std::boxed::Box::leak(std::boxed::Box::new([Mapping::default(); MOST])));
        kept
    }

    fn mapping(number: usize, bytes: usize) -> Mapping {
        Mapping { start: without_provenance_mut(number), bytes }
    }

    #[test]
    fn smallest_mapping_that_fits_is_taken_once() {
        let mut kept = none_kept();
        for (number, bytes) in [(1, 20), (2, 10), (4, 13), (3, 12), (5, 11)] {
            assert_eq!(kept.put(mapping(number, bytes)), None);
        }
        assert_eq!(kept.take(12..=15), Some(mapping(3, 12)));
        assert_eq!(kept.take(12..=15), Some(mapping(4, 13)));
        assert_eq!(kept.take(12..=15), None);
        assert_eq!(kept.bytes, 20 + 10 + 11);
    }

    #[test]
    fn oldest_mappings_go_if_there_are_too_many_or_too_large_ones() {
        let mut kept = none_kept();
        for number in 0..MOST {
            assert_eq!(kept.put(mapping(number, 1)), None);
        }
        assert_eq!(kept.put(mapping(MOST, 1)), Some(mapping(0, 1)));
        assert!(kept.take(1..=1).is_some() && kept.put(mapping(MOST, 1)).is_none(), "the oldest went for no need");
        let mut gone = 1;
        for number in 0..2 * MOST {
            assert!(kept.keeps(mapping(number, MOST_BYTES_OF_ONE)));
            let mut surplus = kept.put(mapping(number, MOST_BYTES_OF_ONE));
            while let Some(mapping) = surplus {
                gone += mapping.bytes;
                surplus = kept.take_surplus();
            }
            assert!(kept.bytes <= MOST_BYTES);
        }
        assert_eq!(gone + kept.bytes, MOST + 1 + 2 * MOST * MOST_BYTES_OF_ONE);
        assert!(!kept.keeps(mapping(1, MOST_BYTES_OF_ONE + 1)) && !Kept::default().keeps(mapping(1, 1)));
        while kept.take_any().is_some() {}
        assert_eq!(kept.bytes, 0);
    }
}
