//! What upkeep does in a slot: empties what nobody uses there any more. When, `upkeep` says.
//!
//! ```text
//!   slot's area   words │ page list │ uncut │ watch: when to look again, when somebody came │ shards … │
//! ```
//!
//! Threads look whenever they come along a slow path that reads the clock anyway: one load more, and a comparison. What they find due they do for the slot that
//! they are in, a bounded part at a time, without a kick. For a slot where nobody comes along, whoever tends it takes its arrays away as everybody
//! does who takes arrays from others (`drain`): by the restart, after which no operation is in flight.
//!
//! Runs at the same time: any threads; of those who go over all caches, one, by the drain lock.

use super::drain::Which;
use super::lingering::NOBODY;
use super::panel::Handle;
use super::{General, shard};
use crate::observe::Why;
use crate::page::{PAGE, PageList, Span};
use machine::sync::{AtomicU32, Ordering};
use machine::{here, slot, vm};

pub use super::shard::{coarse_of, coarse_time};

/// Granules of the heap that are looked at in one go: 16 MiB.
const GRANULES_AT_ONCE: usize = 256;

/// The furthest ahead, in units of coarse time, that anybody says to look again: some minutes.
pub const FURTHEST: u32 = 1 << 30;

/// What the slab asks of higher parts.
#[derive(Debug)]
pub struct Services {
    /// Something may be due in a slot, where the calling thread is, or was; and whether it is in an allocation. No lock is held.
    pub tend: fn(slot: u32, allocates: bool),
    /// The statistics page may be due, or nobody will come along for a while. A lock may be held.
    pub survey: fn(before_rest: bool),
    /// The process is about to have a second thread.
    pub before_a_thread: fn(),
}

/// What a slot knows of its turns. All-zero memory: nobody looked yet.
#[derive(Debug)]
#[repr(C)]
pub struct Watch {
    /// The coarse time from which on somebody should look; 0: now.
    look_at: AtomicU32,
    /// The coarse time at which somebody came along a slow path there.
    visited: AtomicU32,
}

/// What was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// Arrays that were emptied.
    pub arrays: usize,
    /// Spans that went from the page list to the zone.
    pub spans: usize,
    /// Calls that gave pages of spans in use back to the kernel.
    pub calls: usize,
    /// Those pages.
    pub pages: usize,
    /// Whether there is more to do.
    pub is_more: bool,
}

impl Watch {
    /// Nobody has to look before a coarse time.
    pub fn look_at(&self, time: u32) {
        debug_assert!(time.wrapping_sub(coarse_time()) as i32 <= FURTHEST as i32, "nobody looks that far ahead");
        // Relaxed, as everywhere here: each is a number of its own, and whoever looks too early or too late does it again.
        self.look_at.store(time.max(1), Ordering::Relaxed);
    }

    /// Whoever comes along next looks.
    pub fn look_now(&self) {
        self.look_at.store(0, Ordering::Relaxed);
    }

    /// Whether nobody looked yet, or should at once.
    pub fn is_fresh(&self) -> bool {
        self.look_at.load(Ordering::Relaxed) == 0
    }

    /// How long ago somebody should have looked.
    pub fn lateness(&self, time: u32) -> u32 {
        match self.look_at.load(Ordering::Relaxed) {
            0 => 0,
            at if is_ahead(at, time) => 0,
            at => time.wrapping_sub(at),
        }
    }

    /// For how long nobody came along, at a coarse time.
    pub fn since_last_visit(&self, time: u32) -> u32 {
        shard::units_since(self.visited.load(Ordering::Relaxed), time)
    }

    #[inline]
    fn is_due(&self, time: u32) -> bool {
        let at = self.look_at.load(Ordering::Relaxed);
        at == 0 || !is_ahead(at, time)
    }
}

/// Whether a time to look at is still to come. None is set further ahead than this, so one that seems to be has passed: coarse time goes round.
pub(super) fn is_ahead(at: u32, time: u32) -> bool {
    (1..=FURTHEST).contains(&at.wrapping_sub(time))
}

impl General<'_> {
    /// What a slot knows of its turns.
    pub fn watch(&self, slot: u32) -> &Watch {
        // SAFETY: the slot's place for it; areas are never unmapped.
        unsafe { &*shard::watch(self.region, slot) }
    }

    /// Looks whether something is due in a slot.
    #[inline]
    pub(super) fn look_after(self, slot: u32, time: u32, allocates: bool) {
        let watch = self.watch(slot);
        watch.visited.store(time, Ordering::Relaxed);
        if watch.is_due(time) {
            tend(slot, allocates);
        }
        if self.slab.survey_at.is_due(time) {
            survey(false);
        }
    }

    /// Sees to the statistics page: for a thread that comes along no slow path, and is about to rest for a while or not.
    pub fn look_after_page(self, before_rest: bool) {
        if self.slab.survey_at.is_asked_for() && (before_rest || self.slab.survey_at.is_due(coarse_time())) {
            survey(before_rest);
        }
    }

    /// The same for a path that has neither slot nor time.
    #[inline]
    pub fn look_after_own(self, allocates: bool) {
        if let Some(slot) = slot::current() {
            self.look_after(slot, coarse_time(), allocates);
        }
    }

    /// Empties arrays and depots of caches that nobody came along for, since so many units of coarse time, in a slot, where the calling thread is; and lets
    /// its page list decay. From the cache on at which it stopped the last time, `most` arrays or a few more. None: not now. Caches with destructors are left to
    /// whoever is in nobody's allocation.
    pub fn keep_own(self, slot: u32, from: u32, most: usize, unvisited: u32) -> Option<(Kept, u32)> {
        let now = coarse_time();
        self.try_as_only_drainer(|general| {
            let mut kept = Kept::default();
            if from == 0 {
                kept.spans = general.decay_page_list(slot, false);
            }
            let mut place = 0;
            for cache in general.caches() {
                place += 1;
                if place <= from || !cache.is_left_alone(slot, now, unvisited) {
                    continue;
                }
                kept.arrays += cache.empty_own(slot);
                if kept.arrays >= most {
                    kept.is_more = true;
                    break;
                }
            }
            (kept, place)
        })
    }

    /// Empties what a slot has of the caches that nobody came along for there, at a coarse time, since so many units, but that threads may be at work with on fast
    /// paths: arrays, depots, spans without objects in use; and the page list. There is more to do where somebody came along. None: not now.
    pub fn keep_deserted(self, slot: u32, now: u32, unvisited: u32) -> Option<Kept> {
        self.as_only_drainer(here!(), |general| {
            general.put_deferred_as_drainer();
            let which = Which::Unvisited(now, unvisited);
            let drained = match slot::mode() {
                slot::Mode::ConcurrencyId => general.drain_slot(which, slot, Why::Upkeep),
                slot::Mode::PerThread => general.drain_if_dead(which, slot),
            };
            let mut kept = Kept { arrays: drained.arrays, ..Kept::default() };
            for cache in general.caches().filter(|cache| cache.is_used_in(slot)) {
                if !cache.is_unvisited(slot, now, unvisited) {
                    kept.is_more = true;
                    continue;
                }
                cache.fall(slot);
                kept.arrays += cache.drain_shard(slot);
                cache.free_unused_spans(slot);
            }
            kept.spans = general.decay_page_list(slot, !kept.is_more);
            kept
        })
    }

    /// Gives whole pages of free objects back to the kernel, of spans where nobody came along for their cache, since so many units of coarse time, in the slot that owns
    /// them: of some, from a place in the heap on. Not of caches whose free objects are constructed, destroyed or looked at, nor where that would break huge pages up.
    /// Where to go on; none: the heap ends there. There is more to do if somebody came along for a cache of which it would be worth it.
    pub fn hollow_out(self, from: u64, unvisited: u32, kept: &mut Kept) -> Option<u64> {
        let now = coarse_time();
        let walk = |general: Self| {
            general.slab.zone.walk_spans(general.slab.locks(), from, GRANULES_AT_ONCE, |span| {
                general.hollow_span(span, now, unvisited, kept);
            })
        };
        // As the only drainer: so no cache ends meanwhile, and no segment is released.
        self.try_as_only_drainer(walk).unwrap_or(Some(from))
    }

    fn hollow_span(self, span: *mut Span, now: u32, unvisited: u32, kept: &mut Kept) {
        // SAFETY: descriptions are never freed. What is read without the lock is read again with it.
        let span = unsafe { &mut *span };
        let is_worth_it = |span: &Span| !span.is_hollow && span.available().saturating_mul(span.object_bytes()) >= PAGE;
        let (owner, number) = (span.owner(), span.cache);
        if number == 0 || owner == NOBODY || !is_worth_it(span) {
            return;
        }
        let cache = self.cache(number);
        let is_possible = cache.exists()
            && cache.object_cache().is_none_or(|cache| cache.is_indifferent_to_free_objects())
            && !self.slab.zone.may_be_huge(span.start());
        if !is_possible {
            return;
        }
        if !cache.is_unvisited(owner, now, unvisited) {
            kept.is_more = true;
            return;
        }
        let held = cache.lock(owner, here!());
        if held.slot == owner && span.owner() == owner && span.cache == number && is_worth_it(span) {
            // The lock is held meanwhile, as their objects must not be given away: for as long as the few calls take that a span is worth.
            span.for_each_free_row(|start, bytes| {
                if let Some(pages) = decommit_inside(start, bytes) {
                    (kept.calls, kept.pages) = (kept.calls + 1, kept.pages + pages);
                }
            });
            span.is_hollow = true;
        }
    }

    fn decay_page_list(self, slot: u32, is_deserted: bool) -> usize {
        let (zone, locks) = (&self.slab.zone, self.slab.locks());
        // SAFETY: the slot's page list.
        unsafe { PageList::decay(shard::page_list(self.region, slot), is_deserted, zone, locks) }
    }
}

impl Handle<'_> {
    /// Whether a slot has something of the cache, and nobody came along for it there.
    fn is_left_alone(self, slot: u32, now: u32, unvisited: u32) -> bool {
        let has_destructor = self.object_cache().is_some_and(|cache| cache.destructor().is_some());
        !has_destructor && self.is_used_in(slot) && self.is_unvisited(slot, now, unvisited)
    }

    /// Whether nobody came along for the cache in a slot, at a coarse time, since so many units.
    pub(super) fn is_unvisited(self, slot: u32, now: u32, units: u32) -> bool {
        shard::since_last_visit(self.shard(slot), now) > units
    }

    /// Empties what a slot has of the cache, where the calling thread is.
    fn empty_own(self, slot: u32) -> usize {
        let words = [true, false].into_iter().filter(|&takes| self.drain_own(slot, takes)).count();
        if shard::level(self.shard(slot)) > 0 {
            self.fall(slot);
        }
        let arrays = words + self.drain_shard(slot);
        self.free_unused_spans(slot);
        arrays
    }
}

/// Gives the whole pages in a range of free objects back, if there are any; returns how many. One is worth a call: where a peak has left holes, single pages are a
/// fiftieth of what stays.
fn decommit_inside(start: *mut u8, bytes: usize) -> Option<usize> {
    let first = (start as usize).next_multiple_of(PAGE);
    let pages = ((start as usize + bytes) / PAGE).saturating_sub(first / PAGE);
    // SAFETY: nobody owns the objects, and nobody needs what is in them.
    (pages > 0 && unsafe { vm::decommit(first as *mut u8, pages * PAGE) }).then_some(pages)
}

/// Not inlined: every slow path comes along its call.
#[cold]
#[inline(never)]
fn tend(slot: u32, allocates: bool) {
    (crate::SERVICES.tend)(slot, allocates);
}

/// As [`tend`].
#[cold]
#[inline(never)]
fn survey(before_rest: bool) {
    (crate::SERVICES.survey)(before_rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_is_due_is_so_until_somebody_has_looked() {
        const AT: u32 = u32::MAX - 1000;
        let watch = Watch { look_at: AtomicU32::new(AT), visited: AtomicU32::new(0) };
        let due = |after: u32| (watch.is_due(AT.wrapping_add(after)), watch.lateness(AT.wrapping_add(after)));
        assert_eq!([due(0), due(5000), due(1 << 31), due((3 << 30) - 1)].map(|(is_due, _)| is_due), [true; 4]);
        assert_eq!([due(0), due(5000)].map(|(_, late)| late), [0, 5000]);
        // Before it, also if somebody else has just said so: nobody is late.
        for before in [1, 5000, FURTHEST] {
            assert_eq!(due(before.wrapping_neg()), (false, 0), "{before} before");
        }
        watch.look_now();
        assert_eq!(due(7), (true, 0));
    }
}
