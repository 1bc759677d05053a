//! A miss: both slow paths begin here, and the one hook hangs here. Upkeep, statistics and an operator's requests are
//! reached from it, and from nowhere else below them.
//!
//! Slow paths that read the clock anyway look at two words more, and compare. What is due they hand to the modules
//! above, by one call.

use super::hook::Watch;
use super::tier::{CpuCaches, of_slot};
use crate::central::{CacheRef, Path, coarse_time};
use crate::layout;
use crate::upcalls::{From, Rest, Visit};
use machine::slot;
use machine::sync::Ordering::Relaxed;

impl CpuCaches {
    /// What a slot knows of its turns.
    #[inline]
    pub fn watch(&self, slot: u32) -> &Watch {
        // SAFETY: as `layout` says.
        unsafe { of_slot(slot, layout::WATCH) }
    }

    /// Counts a miss, with which a slow path begins. Resizes the cache's magazines by what that says, and looks whether
    /// anything is due.
    #[inline]
    pub(super) fn miss(&self, cache: CacheRef, slot: u32, path: Path) {
        let (rate, time) = cache.load(slot).count_miss(path);
        let from = if path == Path::Refill { From::Allocation } else { From::Release };
        self.visit(slot, time, from);
        self.resize(cache, slot, rate, path);
    }

    /// The hook.
    #[inline]
    fn visit(&self, slot: u32, time: Option<u32>, from: From) {
        let (mut is_due, mut upkeep_is_due) = (self.is_polled(), false);
        if let Some(time) = time {
            let watch = self.watch(slot);
            watch.visited.store(time, Relaxed);
            upkeep_is_due = watch.is_due(time);
            is_due |= upkeep_is_due | self.hook.statistics_at.is_due(time);
        }
        if is_due {
            maintain(Visit { slot, time, from, upkeep_is_due });
        }
    }

    /// The same for a path of large blocks, which has neither slot nor time.
    #[inline]
    pub fn visit_own(&self, from: From) {
        if let Some(slot) = slot::current() {
            self.visit(slot, Some(coarse_time()), from);
        }
    }

    /// From now on every slow path looks whether the operator asks for something.
    pub fn begin_polling(&self) {
        self.hook.is_polled.store(true, Relaxed);
    }

    /// Whether every slow path does.
    #[inline]
    pub(super) fn is_polled(&self) -> bool {
        self.hook.is_polled.load(Relaxed)
    }

    /// Sees to the statistics page: for a thread that comes along no slow path, and is about to rest for a while or
    /// not.
    pub fn visit_statistics(&self, rest: Rest) {
        let at = &self.hook.statistics_at;
        if at.is_asked_for() && (rest == Rest::Soon || at.is_due(coarse_time())) {
            (crate::UPCALLS.write_statistics)(rest);
        }
    }
}

/// Not inlined: every slow path comes along its call.
#[cold]
#[inline(never)]
fn maintain(visit: Visit) {
    (crate::UPCALLS.maintain)(visit);
}
