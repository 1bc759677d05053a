//! The state of the per-CPU caches, and the hook of slow paths.
//!
//! Both slow paths begin in `miss`. The hook asks: is upkeep due in the slot, is the statistics page due, may the
//! operator ask for something? As slow paths read the clock anyway, that costs two comparisons. One call hands work
//! that is due to the modules above.
//!
//! Runs at the same time: any thread. Relaxed throughout: words stand alone, and an early or late look does no harm.

use super::listener::{Listening, Server};
use crate::central::{CacheRef, FURTHEST, Path, coarse_time, units_since};
use crate::depot::Depot;
use crate::layout::{self, Region};
use crate::observe::Kicks;
use crate::upcalls::{From, Rest, Visit};
use machine::sync::{AtomicBool, AtomicU32, AtomicU64, Lock, Ordering::Relaxed};
use machine::{clock, slot};

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
    /// KiB that magazines may hold now beyond their shapes, in all slots; see `resize`.
    pub kib_granted: AtomicU32,
    /// The last flush that did not help an allocation.
    pub vain_flush: VainFlush,
    pub listening: Listening,
    kicks: Kicks,
}

impl CpuCaches {
    /// Kicks, by reason.
    pub fn kicks(&self) -> &Kicks {
        &self.cold.kicks
    }

    /// A slot's upkeep times.
    #[inline]
    pub fn watch(&self, slot: u32) -> &Watch {
        // SAFETY: as `layout` says.
        unsafe { of_slot(slot, layout::WATCH) }
    }

    /// Counts a miss at the start of a slow path, resizes the cache's magazines, and checks for work that is due.
    #[inline]
    pub(super) fn miss(&self, cache: CacheRef, slot: u32, path: Path) {
        let from = if path == Path::Refill { From::Allocation } else { From::Release };
        let visit = |time: Option<u32>| {
            if let Some(time) = time {
                self.calm_down(cache, slot, time);
            }
            self.visit(slot, time, from);
        };
        let rate = cache.load(slot).count_miss(path, visit);
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
            maintain(slot, time, from, upkeep_is_due);
        }
        if self.depot.central.page_heap.limits.is_due() {
            self.serve_limits(if from == From::Allocation { Server::Allocating } else { Server::Freeing });
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

    /// Polls for requests, and writes the statistics page if due, for a thread that reaches no slow path and holds no
    /// lock; `rest` says if it is about to rest.
    pub fn visit_observers(&self, rest: Rest) {
        if self.is_polled() {
            (crate::UPCALLS.poll)();
        }
        let at = &self.hook.statistics_at;
        if at.0.load(Relaxed) != 0 && (rest == Rest::Soon || at.is_due(coarse_time())) {
            (crate::UPCALLS.write_statistics)(rest);
        }
    }
}

/// Not inlined, because every slow path passes its call.
#[cold]
#[inline(never)]
fn maintain(slot: u32, time: Option<u32>, from: From, upkeep_is_due: bool) {
    (crate::UPCALLS.maintain)(Visit { slot, time, from, upkeep_is_due });
}

/// A field of the slot's own in its area.
///
/// # Safety
/// The field at the offset is a `T`, and all of `T` is atomic.
pub(super) unsafe fn of_slot<'a, T>(slot: u32, offset: usize) -> &'a T {
    debug_assert!([layout::WATCH, layout::BUDGET, layout::MIDDLE_BUDGET].contains(&offset));
    // SAFETY: passed on; areas are never unmapped, and zeroes are valid.
    unsafe { &*Region::of_process().in_area(slot, offset) }
}

/// The hook's words. All-zero memory: only upkeep is due.
#[derive(Debug)]
#[repr(C)]
pub struct Hook {
    /// When the statistics page is due.
    pub statistics_at: At,
    /// Whether slow paths poll for an operator's requests.
    is_polled: AtomicBool,
}

/// A due time in coarse time. Zero: never.
#[derive(Debug)]
#[repr(transparent)]
pub struct At(AtomicU32);

impl At {
    /// Due in so many units.
    pub fn in_units(&self, units: u32) {
        self.0.store(coarse_time().wrapping_add(units).max(1), Relaxed);
    }

    /// Never due.
    pub fn never(&self) {
        self.0.store(0, Relaxed);
    }

    /// Whether it is due.
    #[inline]
    pub fn is_due(&self, time: u32) -> bool {
        match self.0.load(Relaxed) {
            0 => false,
            at => !is_ahead(at, time),
        }
    }
}

/// A slot's upkeep times. All-zero memory: no thread has looked yet.
#[derive(Debug)]
#[repr(C)]
pub struct Watch {
    /// The coarse time of the next look; 0: now.
    look_at: AtomicU32,
    /// The coarse time of the last slow path in the slot.
    visited: AtomicU32,
}

impl Watch {
    /// Schedules the next look at a coarse time.
    pub fn look_at(&self, time: u32) {
        debug_assert!(time.wrapping_sub(coarse_time()) as i32 <= FURTHEST as i32, "nobody looks that far ahead");
        self.look_at.store(time.max(1), Relaxed);
    }

    /// Makes the next slow path look.
    pub fn look_now(&self) {
        self.look_at.store(0, Relaxed);
    }

    /// Whether no thread has looked yet, or one should look at once.
    pub fn is_fresh(&self) -> bool {
        self.look_at.load(Relaxed) == 0
    }

    /// Units by which a look is late.
    pub fn lateness(&self, time: u32) -> u32 {
        match self.look_at.load(Relaxed) {
            0 => 0,
            at if is_ahead(at, time) => 0,
            at => time.wrapping_sub(at),
        }
    }

    /// Units since the last slow path in the slot.
    pub fn since_last_visit(&self, time: u32) -> u32 {
        units_since(self.visited.load(Relaxed), time)
    }

    #[inline]
    pub(super) fn is_due(&self, time: u32) -> bool {
        let at = self.look_at.load(Relaxed);
        at == 0 || !is_ahead(at, time)
    }
}

/// Whether a due time lies ahead. Beyond [`FURTHEST`] it has passed, as coarse time wraps.
fn is_ahead(at: u32, time: u32) -> bool {
    (1..=FURTHEST).contains(&at.wrapping_sub(time))
}

/// When a flush did not help, and the pages then in use. For some time another flush helps only if fewer are in use.
#[derive(Debug)]
pub(super) struct VainFlush {
    at_ns: AtomicU64,
    pages: AtomicU64,
}

impl VainFlush {
    const INTERVAL_NS: u64 = 10_000_000;

    // Relaxed: a hint. A thread that reads half of an update flushes once too often, or too seldom.
    pub fn tells_against_another(&self, pages: u64) -> bool {
        let at = self.at_ns.load(Relaxed);
        at != 0 && pages >= self.pages.load(Relaxed) && clock::now_ns() - at < Self::INTERVAL_NS
    }

    pub fn note(&self, pages: u64) {
        self.pages.store(pages, Relaxed);
        self.at_ns.store(clock::now_ns(), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn due_slot_stays_due_until_a_thread_has_looked() {
        const AT: u32 = u32::MAX - 1000;
        let watch = Watch { look_at: AtomicU32::new(AT), visited: AtomicU32::new(0) };
        let due = |after: u32| (watch.is_due(AT.wrapping_add(after)), watch.lateness(AT.wrapping_add(after)));
        assert_eq!([due(0), due(5000), due(1 << 31), due((3 << 30) - 1)].map(|(is_due, _)| is_due), [true; 4]);
        assert_eq!([due(0), due(5000)].map(|(_, late)| late), [0, 5000]);
        // Before it, even if just scheduled: not late.
        for before in [1, 5000, FURTHEST] {
            assert_eq!(due(before.wrapping_neg()), (false, 0), "{before} before");
        }
        watch.look_now();
        assert_eq!(due(7), (true, 0));
    }
}
