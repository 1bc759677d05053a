//! Room within the limit: dirty pages go back to the kernel before an allocation is refused, and for relief.
//!
//! Runs at the same time: any number of threads that hold no lock.

use super::PAGE;
use super::runs::PageHeap;
use super::segment::Huge;
use machine::sync::{Ordering::Relaxed, wait};

/// Fewest pages that go back to the kernel for an allocation that lacks room: 256 KiB.
const WORTH_A_CALL: u64 = (256 << 10) / PAGE as u64;
/// Looks of an allocation at pages that other threads are returning, and the time between two. A fork child may have
/// inherited a return that never ends.
const LOOKS: u32 = 20;
const LOOK_NS: u64 = 50_000;

impl PageHeap {
    /// Holds more pages. False: the hard limit refuses.
    pub(super) fn hold(&self, more: u64) -> bool {
        self.limits.hold(more, self.counts.in_use.get())
    }

    /// Calls `attempt`, which needs so many pages. While the hard limit refuses, returns dirty pages and repeats it.
    /// For threads that hold no lock.
    pub(crate) fn within_limit<R>(&self, pages: usize, mut attempt: impl FnMut() -> Option<R>) -> Option<R> {
        let mut looks = LOOKS;
        loop {
            let got = attempt();
            if got.is_some() || !self.limits.is_hard() || !self.make_room(pages as u64, &mut looks) {
                return got;
            }
        }
    }

    /// Returns as many dirty pages as an allocation lacks, or waits for another thread that does. False: none can go.
    #[cold]
    fn make_room(&self, pages: u64, looks: &mut u32) -> bool {
        let lacking = self.limits.lacking(pages);
        if lacking > 0 && self.purge_some(lacking.max(WORTH_A_CALL), Huge::BreakUp) > 0 {
            return true;
        }
        let returning = self.limits.returning.load(Relaxed);
        if *looks == 0 || (lacking > 0 && returning == 0) {
            return false;
        }
        if lacking > 0 {
            wait(&self.limits.returning, returning, LOOK_NS);
            *looks -= 1;
        } else {
            // Room came meanwhile, or the attempt has failed for another reason.
            *looks = looks.saturating_sub(LOOKS / 2);
        }
        true
    }

    /// Returns dirty pages of free runs until at most so many pages are held, or no more can go.
    pub(crate) fn purge_to(&self, held: u64) {
        while let excess = self.limits.held().saturating_sub(held)
            && excess > 0
            && self.purge_some(excess, Huge::BreakUp) > 0
        {}
    }
}
