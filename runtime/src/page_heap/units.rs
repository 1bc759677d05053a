//! The segment of an address: an open-addressed hash table of the 4-MiB units that segments consist of.
//!
//! Readers take no lock: an entry is written once, and a table that is too full is replaced by a larger one, while the
//! old one stays readable for ever. A lookup, on slow paths only, takes one or two probes, for any size of heap.
//!
//! Runs at the same time: lookups anywhere; one writer, which holds the page heap's lock.

use super::UNIT_SHIFT;
use super::metadata::Metadata;
use super::segment::Segment;
use machine::sync::{AtomicPtr, AtomicU64, Ordering};

const INLINE: usize = 16;

/// One entry: the unit's number, counted from 1, or 0 if it was never used. A null segment: the unit has none any more.
#[derive(Debug)]
#[repr(C)]
struct Entry {
    unit: AtomicU64,
    segment: AtomicPtr<Segment>,
}

/// The head of a table; its entries follow in memory.
#[derive(Debug)]
#[repr(C, align(16))]
struct Table {
    mask: usize,
    used: usize,
}

#[derive(Debug)]
#[repr(C)]
pub struct Units {
    table: AtomicPtr<Table>,
    first: (Table, [Entry; INLINE]),
}

impl Units {
    /// Begins with the table inside, before any other thread runs.
    pub fn begin(&mut self) {
        self.first.0.mask = INLINE - 1;
        self.table.store((&raw mut self.first).cast(), Ordering::Release);
    }

    /// The segment of the unit that holds an address.
    pub fn find(&self, address: *mut u8) -> Option<&'static Segment> {
        let unit = number(address);
        // Acquire pairs with the release in `grow`: the new table's entries were written before.
        let table = self.table.load(Ordering::Acquire);
        // Acquire pairs with the release in `insert`: the unit was written after its segment.
        // SAFETY: tables are never freed, nor are segments' descriptions.
        unsafe { probe(table, unit) }
            .filter(|entry| entry.unit.load(Ordering::Acquire) == unit)
            .and_then(|entry| unsafe { entry.segment.load(Ordering::Acquire).as_ref() })
    }

    /// Enters a segment for the unit of an address, under the page heap's lock. False: no memory for a larger table.
    pub fn insert(&self, address: *mut u8, segment: *const Segment, metadata: &Metadata) -> bool {
        let table = self.table.load(Ordering::Relaxed);
        // SAFETY: the table exists; only the lock's holder writes its head.
        let crowded = unsafe { ((*table).used + 1) * 2 > (*table).mask };
        if crowded && !self.grow(metadata) {
            return false;
        }
        // SAFETY: the table has free entries.
        unsafe { enter(self.table.load(Ordering::Relaxed), number(address), segment.cast_mut()) };
        true
    }

    /// Removes the unit that holds an address. Under the page heap's lock.
    pub fn remove(&self, address: *mut u8) {
        // SAFETY: as in `find`.
        if let Some(entry) = unsafe { probe(self.table.load(Ordering::Relaxed), number(address)) } {
            entry.segment.store(core::ptr::null_mut(), Ordering::Release);
        }
    }

    /// Shows the segment of each unit. Under the page heap's lock, or in tests without other threads in the heap.
    pub fn for_each(&self, mut show: impl FnMut(&Segment)) {
        let table = self.table.load(Ordering::Relaxed);
        // SAFETY: as in `find`.
        let entry = |at| unsafe { (*entries(table).add(at)).segment.load(Ordering::Relaxed).as_ref() };
        // SAFETY: the table exists.
        (0..=unsafe { (*table).mask }).filter_map(entry).for_each(&mut show);
    }

    fn grow(&self, metadata: &Metadata) -> bool {
        let old = self.table.load(Ordering::Relaxed);
        // SAFETY: the tables exist, and the new one is zeroed memory of the right size.
        unsafe {
            let size = ((*old).mask + 1) * 4;
            let Some(memory) = metadata.cut(size_of::<Table>() + size * size_of::<Entry>(), 64) else {
                return false;
            };
            let new = memory.cast::<Table>();
            (*new).mask = size - 1;
            for at in 0..=(*old).mask {
                let entry = &*entries(old).add(at);
                let segment = entry.segment.load(Ordering::Relaxed);
                if !segment.is_null() {
                    enter(new, entry.unit.load(Ordering::Relaxed), segment);
                }
            }
            self.table.store(new, Ordering::Release);
        }
        true
    }
}

/// `table` must have a free entry, and the caller must be its only writer.
unsafe fn enter(table: *mut Table, unit: u64, segment: *mut Segment) {
    // SAFETY: passed on.
    let Some(entry) = (unsafe { probe(table, unit) }) else {
        return;
    };
    entry.segment.store(segment, Ordering::Release);
    if entry.unit.load(Ordering::Relaxed) == 0 {
        // SAFETY: passed on.
        unsafe { (*table).used += 1 };
        // Release pairs with `find`: a thread that sees the unit sees its segment.
        entry.unit.store(unit, Ordering::Release);
    }
}

/// The entry of a unit, or the free one for it. `table` must be a table.
unsafe fn probe<'a>(table: *mut Table, unit: u64) -> Option<&'a Entry> {
    // SAFETY: `mask + 1` entries follow the head.
    unsafe {
        let mask = (*table).mask;
        let entry = |step: usize| &*entries(table).add((hash(unit) + step) & mask);
        (0..=mask).map(entry).find(|entry| {
            let seen = entry.unit.load(Ordering::Relaxed);
            seen == unit || seen == 0
        })
    }
}

fn entries(table: *mut Table) -> *mut Entry {
    table.wrapping_add(1).cast()
}

fn number(address: *mut u8) -> u64 {
    (address as u64 >> UNIT_SHIFT) + 1
}

/// Neighbouring units have neighbouring entries, so the lookups of a growing heap stay in few lines.
fn hash(unit: u64) -> usize {
    (unit ^ (unit >> 12)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page_heap::UNIT;
    use std::boxed::Box;
    use std::vec;
    use std::vec::Vec;

    #[test]
    fn unit_table_finds_exactly_what_was_inserted() {
        machine::test_support::play(1, || {
            let memory = vec![0u64; 1 << 16].leak();
            // SAFETY: both are valid when all zero.
            let (metadata, mut units): (Metadata, Box<Units>) =
                unsafe { (core::mem::zeroed(), Box::new(core::mem::zeroed())) };
            metadata.begin(memory.as_mut_ptr().cast(), memory.as_mut_ptr_range().end.cast());
            units.begin();
            let address = |unit: usize| (unit * UNIT + 123) as *mut u8;
            let segment = |unit: usize| (unit * 64 + 64) as *const Segment;
            let inserted: Vec<usize> = (0..1000).map(|n| n * n + 7).collect();
            for &unit in &inserted {
                assert!(units.insert(address(unit), segment(unit), &metadata));
            }
            for unit in 0..2000 {
                let found = units.find(address(unit)).map(|found| found as *const Segment);
                assert_eq!(found, inserted.contains(&unit).then(|| segment(unit)), "unit {unit}");
            }
            units.remove(address(7));
            assert!(units.find(address(7)).is_none() && units.find(address(8)).is_some());
        });
    }
}
