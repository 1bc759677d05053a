//! The class table: the cache that serves a size.
//!
//! The fast path looks a size up here, and takes an object of that class. If another kind of cache serves the class,
//! its entries are zero, which names an empty magazine. So the allocation reaches the slow path, which finds the cache.
//! A class with its own cache pays nothing for that.

use crate::central::CacheState;
use crate::central::size_class::{self, CLASSES, STEP, STEPS};
use machine::sync::{AtomicBool, AtomicPtr, Ordering};

/// An entry. Core's atomic, not the machine's: it orders nothing, and each allocation reads one.
type ClassWord = core::sync::atomic::AtomicU8;

/// Twice the class for each step of sizes. Zero before the heap begins, and if another kind of cache serves the class.
#[derive(Debug)]
#[repr(transparent)]
pub(super) struct ClassTable([ClassWord; STEPS]);

/// The other kinds of caches. Zeroes: none.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Kinds {
    /// Debug caches, by class.
    pub watching: [AtomicPtr<CacheState>; CLASSES],
    /// Whether threads may be inside groups, whose caches serve their allocations.
    pub has_groups: AtomicBool,
    /// Whether a group ever had a large block.
    pub has_large_of_groups: AtomicBool,
}

impl ClassTable {
    pub(super) fn begin(&self) {
        for (step, word) in self.0.iter().enumerate() {
            word.store(size_class::class_for(step * STEP) as u8 * 2, Ordering::Relaxed);
        }
    }

    #[inline(always)]
    pub(super) fn index_for(&self, bytes: usize) -> usize {
        // SAFETY: the table has an entry for each step up to LARGEST.
        unsafe { self.0.get_unchecked(bytes.div_ceil(STEP)) }.load(Ordering::Relaxed).into()
    }

    pub(super) fn forget(&self, class: usize) {
        let steps = (0..STEPS).filter(|step| size_class::class_for(step * STEP) == class);
        steps.for_each(|step| self.0[step].store(0, Ordering::Relaxed));
    }
}
