//! The object in its forms.
//!
//! The two members that are no counters are there because they have to be set up and torn down; no task uses them.
//! After a lazy object's upgrade they have their cells in the same block as the counters.

use commensal_runtime::counter::{CounterSet, DEFAULT_RANGE, PerCpuSet};
use commensal_runtime::percpu::{Area, CELL};
use core::cell::Cell;

pub(super) const COUNTERS: usize = 4;
const OTHERS: usize = 2;
/// What a row of a block is a multiple of.
const LINE: usize = 64;
/// Rows of a block that all CPUs share and that are made zero with it: what is in no slot, and what may be done with
/// each counter.
const COMMON_ROWS: usize = 2;

/// An object in some form, with blocks from an area that the caller chooses.
pub(super) trait Object: Sized + Sync {
    /// Cells of each of its blocks; a lazy object's once it is upgraded.
    const BLOCKS: &'static [usize];
    /// Whether it has its blocks from the beginning.
    const IS_EAGER: bool;

    /// All zero, and the calling thread's. None: no memory.
    fn new(area: &'static Area) -> Option<Self>;

    /// Announces a second thread, which is nothing to an eager object. None: no memory.
    #[inline(always)]
    fn share(&self, _area: &'static Area) -> Option<()> {
        Some(())
    }

    fn add(&self, index: usize, amount: i64);

    fn read(&self, index: usize) -> i64;

    fn sum(&self, index: usize) -> i64;

    /// Makes an upgraded object use so many slots; nothing if the form's sums do not depend on that.
    fn touch(&self, _slots: u32) {}
}

/// Bytes in different places that creating and destroying an object writes, when it is not shared:
///
/// size of the object + Σ over its blocks of (64 + width × (2 + rows)), width = 16 bytes a cell rounded up to 64.
///
/// A block has a head of one line, two rows that all CPUs share, and rows that are made zero: those of all CPUs in an
/// area that prepares for all, else that of the owner's slot. None: no memory.
pub(super) fn bytes_touched<O: Object>(area: &'static Area) -> Option<usize> {
    let block = area.take(CELL, DEFAULT_RANGE)?;
    block.touch(0);
    let rows = block.touched_slots().count();
    drop(block);
    let width = |cells: &usize| (cells * CELL).next_multiple_of(LINE);
    let of_block = |cells: &usize| LINE + width(cells) * (COMMON_ROWS + rows);
    let of_blocks = if O::IS_EAGER { O::BLOCKS.iter().map(of_block).sum() } else { 0 };
    Some(size_of::<O>() + of_blocks)
}

/// What is done with counters that are a member of the object.
macro_rules! counts_in {
    ($counters:ident) => {
        #[inline(always)]
        fn add(&self, index: usize, amount: i64) {
            self.$counters.add(index, amount);
        }

        #[inline(always)]
        fn read(&self, index: usize) -> i64 {
            self.$counters.read(index).value
        }

        #[inline(always)]
        fn sum(&self, index: usize) -> i64 {
            self.$counters.sum(index)
        }
    };
}

/// Each group of members in a block of its own.
pub(super) struct Separate {
    counters: PerCpuSet<COUNTERS>,
    _others: [PerCpuSet<1>; OTHERS],
}

impl Object for Separate {
    const BLOCKS: &'static [usize] = &[COUNTERS, 1, 1];
    const IS_EAGER: bool = true;

    #[inline(always)]
    fn new(area: &'static Area) -> Option<Self> {
        let counters = PerCpuSet::new_in(area).ok()?;
        Some(Separate { counters, _others: [PerCpuSet::new_in(area).ok()?, PerCpuSet::new_in(area).ok()?] })
    }

    counts_in!(counters);
}

/// All members in one block.
pub(super) struct Together {
    all: PerCpuSet<{ COUNTERS + OTHERS }>,
}

impl Object for Together {
    const BLOCKS: &'static [usize] = &[COUNTERS + OTHERS];
    const IS_EAGER: bool = true;

    #[inline(always)]
    fn new(area: &'static Area) -> Option<Self> {
        Some(Together { all: PerCpuSet::new_in(area).ok()? })
    }

    counts_in!(all);
}

/// Words for the owner, until somebody shares them.
pub(super) struct Waiting {
    counters: CounterSet<COUNTERS>,
    _others: [Cell<u64>; OTHERS],
}

// SAFETY: the cells are the owner's, and nobody reads them.
unsafe impl Sync for Waiting {}

impl Object for Waiting {
    const BLOCKS: &'static [usize] = &[COUNTERS + OTHERS];
    const IS_EAGER: bool = false;

    #[inline(always)]
    fn new(_: &'static Area) -> Option<Self> {
        Some(Waiting { counters: CounterSet::bound(), _others: [const { Cell::new(0) }; OTHERS] })
    }

    #[inline(always)]
    fn share(&self, area: &'static Area) -> Option<()> {
        self.counters.share_in(area, OTHERS).ok()
    }

    counts_in!(counters);

    fn touch(&self, slots: u32) {
        self.counters.touch_slots(slots);
    }
}
