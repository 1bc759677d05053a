//! The state of the per-CPU caches.

use super::hook::Hook;
use super::vain_flush::VainFlush;
use crate::depot::Depot;
use crate::layout::{self, Region};
use crate::observe::Kicks;
use machine::sync::{AtomicU32, Lock};

/// First of all ranks, because drainers go on to lock shards.
const DRAIN_RANK: u8 = 0;

/// The tier. Zeroes are one that has not begun.
#[derive(Debug)]
#[repr(C)]
pub struct CpuCaches {
    pub(super) cold: Cold,
    /// Work that slow paths call.
    pub hook: Hook,
    /// The tier below.
    pub depot: Depot,
}

/// State off the fast path.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Cold {
    /// Held by drainers, and by threads that walk all caches.
    pub drain_lock: Lock<DRAIN_RANK>,
    /// When no slot had budget to lend; see `resize`.
    pub asked_in_vain: AtomicU32,
    /// The last flush that did not help an allocation.
    pub vain_flush: VainFlush,
    kicks: Kicks,
}

impl CpuCaches {
    /// Kicks, by reason.
    pub fn kicks(&self) -> &Kicks {
        &self.cold.kicks
    }
}

/// A field of the slot's own in its area.
///
/// # Safety
/// The field at the offset is a `T`, and all of `T` is atomic.
pub(super) unsafe fn of_slot<'a, T>(slot: u32, offset: usize) -> &'a T {
    debug_assert!(offset == layout::WATCH || offset == layout::BUDGET);
    // SAFETY: passed on; areas are never unmapped, and zeroes are valid.
    unsafe { &*Region::of_process().in_area(slot, offset) }
}
