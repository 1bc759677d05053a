//! Counters that are per-CPU from the beginning, in the forms that lazy counters are compared with.
//!
//! The cost of a form depends on its block's area ([`Preparation`]) and on how an object divides its counters:
//!
//! | form | blocks of an object | area |
//! |---|---|---|
//! | eager | one per counter | prepares for all CPUs |
//! | merged | one for all | prepares for all CPUs |
//! | cached | one for all | keeps ready blocks: wipes and sums only touched rows |
//! | lazy | none before the upgrade, then as merged | prepares for all CPUs |
//! | lazy and cached | none before the upgrade, then as cached | keeps ready blocks |

use super::{DEFAULT_RANGE, NoMemory, Reading, slots};
#[cfg(doc)]
use crate::percpu::Preparation;
use crate::percpu::{Area, CELL, OwnedBlock};

/// `N` counters with a line per CPU from the start, in one block. Panics if an index is not below `N`.
#[derive(Debug)]
pub struct PerCpuSet<const N: usize>(OwnedBlock);

// SAFETY: any thread may use a block: its operations are atomic or restartable.
unsafe impl<const N: usize> Send for PerCpuSet<N> {}
// SAFETY: as above.
unsafe impl<const N: usize> Sync for PerCpuSet<N> {}

impl<const N: usize> PerCpuSet<N> {
    /// All zero.
    ///
    /// # Errors
    /// There is no memory.
    pub fn new() -> Result<Self, NoMemory> {
        Self::new_in(Area::of_process().ok_or(NoMemory)?)
    }

    /// All zero, in a block of a given area.
    ///
    /// # Errors
    /// There is no memory.
    pub fn new_in(area: &'static Area) -> Result<Self, NoMemory> {
        const { assert!(N * CELL <= crate::percpu::LINES * 64, "more counters than a row has room for") };
        area.take(N * CELL, DEFAULT_RANGE).map(PerCpuSet).ok_or(NoMemory)
    }

    /// Adds to a counter.
    ///
    /// # Panics
    /// There is no counter of this index.
    #[inline(always)]
    pub fn add(&self, index: usize, amount: i64) {
        assert!(index < N, "no counter of this index");
        if !slots::draw(*self.0, index, amount) {
            slots::add_slow(*self.0, index, amount);
        }
    }

    /// As [`LazyCounter::read`](super::LazyCounter::read).
    ///
    /// # Panics
    /// There is no counter of this index.
    pub fn read(&self, index: usize) -> Reading {
        assert!(index < N, "no counter of this index");
        slots::read(*self.0, index, 0)
    }

    /// As [`LazyCounter::sum`](super::LazyCounter::sum). Sums all CPUs if the area prepares for all CPUs.
    ///
    /// # Panics
    /// There is no counter of this index.
    pub fn sum(&self, index: usize) -> i64 {
        assert!(index < N, "no counter of this index");
        slots::sum(*self.0, index)
    }
}
