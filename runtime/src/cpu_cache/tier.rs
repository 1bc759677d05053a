//! What the per-CPU caches have for themselves.

use super::hook::Hook;
use super::vain_flush::VainFlush;
use crate::depot::Depot;
use crate::layout::{self, Region};
use crate::observe::Kicks;
use machine::sync::{AtomicU32, Lock};

/// Rank of the lock of threads that take magazines away from other CPUs: they go on to lock shards.
const DRAIN_RANK: u8 = 0;

/// The tier. Zeroes are one that has not begun.
#[derive(Debug)]
#[repr(C)]
pub struct CpuCaches {
    pub(super) cold: Cold,
    /// What hangs on the slow paths.
    pub hook: Hook,
    /// The tier below.
    pub depot: Depot,
}

/// What is used seldom.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Cold {
    /// Held by whoever takes magazines away from other CPUs, or goes over all caches.
    pub drain_lock: Lock<DRAIN_RANK>,
    /// When no slot had a part of its budget to lend; see `resize`.
    pub asked_in_vain: AtomicU32,
    /// A flush for an allocation that failed again after it.
    pub vain_flush: VainFlush,
    kicks: Kicks,
}

impl CpuCaches {
    /// Kicks, by reason.
    pub fn kicks(&self) -> &Kicks {
        &self.cold.kicks
    }
}

/// A word of the slot's own in its area.
///
/// # Safety
/// The part of an area at the offset is a `T`, all of which is atomic.
pub(super) unsafe fn of_slot<'a, T>(slot: u32, offset: usize) -> &'a T {
    debug_assert!(offset == layout::WATCH || offset == layout::BUDGET);
    // SAFETY: passed on; areas are never unmapped, and zeroes are valid.
    unsafe { &*Region::of_process().in_area(slot, offset) }
}
