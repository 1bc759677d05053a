//! A miss: both slow paths begin here. One hook leads from here to upkeep, statistics and an operator's requests. Slow
//! paths that read the clock anyway compare two more words. One call hands work that is due to the modules above.

use super::hook::Watch;
use super::tier::{CpuCaches, of_slot};
use crate::central::{CacheRef, Path, coarse_time};
use crate::layout;
use crate::upcalls::{From, Rest, Visit};
use machine::slot;
use machine::sync::Ordering::Relaxed;

impl CpuCaches {
    /// A slot's upkeep times.
    #[inline]
    pub fn watch(&self, slot: u32) -> &Watch {
        // SAFETY: as `layout` says.
        unsafe { of_slot(slot, layout::WATCH) }
    }

    /// Counts a miss at the start of a slow path, resizes the cache's magazines, and checks for work that is due.
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

    /// The same for large blocks, which have neither slot nor time.
    #[inline]
    pub fn visit_own(&self, from: From) {
        if let Some(slot) = slot::current() {
            self.visit(slot, Some(coarse_time()), from);
        }
    }

    /// Makes each slow path poll for an operator's requests.
    pub fn begin_polling(&self) {
        self.hook.is_polled.store(true, Relaxed);
    }

    /// Whether slow paths poll.
    #[inline]
    pub(super) fn is_polled(&self) -> bool {
        self.hook.is_polled.load(Relaxed)
    }

    /// Writes the statistics page if due, for a thread that reaches no slow path; `rest` says if it is about to rest.
    pub fn visit_statistics(&self, rest: Rest) {
        let at = &self.hook.statistics_at;
        if at.is_asked_for() && (rest == Rest::Soon || at.is_due(coarse_time())) {
            (crate::UPCALLS.write_statistics)(rest);
        }
    }
}

/// Not inlined, because every slow path passes its call.
#[cold]
#[inline(never)]
fn maintain(visit: Visit) {
    (crate::UPCALLS.maintain)(visit);
}
