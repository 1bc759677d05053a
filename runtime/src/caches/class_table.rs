//! The class table: which cache serves an allocation of a size.
//!
//! The fast path looks a size up in the table's words, and takes an object of that size class. Where another kind of
//! cache serves a class, the class's words are zero, which names an empty magazine: so the allocation reaches the slow
//! path, which finds out here whose it is. Caches that nobody watches pay nothing for that.

use crate::central::CacheState;
use crate::central::size_class::{self, CLASSES, STEP, STEPS};
use machine::sync::{AtomicBool, AtomicPtr, Ordering};

/// An entry of the table. Core's atomic, not the machine's: no order hangs on it, and every allocation reads one.
type ClassWord = core::sync::atomic::AtomicU8;

/// Twice the class for each step of sizes; zero, which is no class, until the heap has begun, and where another kind of
/// cache serves the class.
#[derive(Debug)]
#[repr(transparent)]
pub(super) struct ClassTable([ClassWord; STEPS]);

/// The other kinds. Zeroes: there is none.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Kinds {
    /// Caches that watch, by class.
    pub watching: [AtomicPtr<CacheState>; CLASSES],
    /// Whether threads may be inside of groups, whose caches serve their allocations.
    pub has_groups: AtomicBool,
    /// Whether a large block of a group was ever made.
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
