//! Examined frees: as long as a slot frees few objects of a cache, it looks at each of them at once.
//!
//! The fast path of free pushes any pointer without a look. So a slot has no free magazine of a cache at first, and
//! each free falls through to the slow path. There it is examined: an object of the cache begins at the address, and it
//! is free neither in its span nor in the magazine that it could be in. Then it goes to the allocation magazine, or to
//! its span.
//!
//! ```text
//!             FEW frees in less than HURRY: the slot gets a free magazine
//!            ┌────────────────────────────────────────────────────────────▶┐
//!        examined                                                        hurried
//!            └◀────────────────────────────────────────────────────────────┘
//!             a miss later than HURRY after the last one: the free magazine goes, after a look at each object
//! ```
//!
//! An examined free takes some 30 ns more than the fast path. So no cache spends more than about a quarter of a per
//! cent of the time in it.
//!
//! Runs at the same time: threads that follow each other in a slot. They may lose counts of each other, which does no
//! harm.

use super::Which;
use super::slot_word::{Side, SlotWord};
use super::tier::CpuCaches;
use crate::central::{CacheRef, Path, coarse_of, coarse_time};
use crate::depot::Magazine;
use crate::layout;
use crate::observe::Why;
use core::sync::atomic::{AtomicU8, AtomicU16};
use machine::sync::Ordering::Relaxed;
use machine::{here, slot};

/// Frees in a row that are examined at least.
const FEW: u8 = 128;
/// Units of [`since`] that [`FEW`] frees take at least if all are examined.
const HURRY: u16 = 4;

/// The time in units of 0.8 ms. It wraps after 52 s; a cache that pauses for exactly so long may miss a turn.
fn since(time: u32) -> u16 {
    const UNIT: u32 = coarse_of(1 << 20).next_power_of_two();
    (time / UNIT) as u16
}

/// The state of a cache in a slot. All-zero memory: all frees are examined.
#[derive(Clone, Copy)]
struct Examined {
    /// Frees that were examined in this turn; [`FEW`]: the slot is hurried.
    frees: &'static AtomicU8,
    /// When the turn began, or the last miss was seen.
    since: &'static AtomicU16,
}

impl Examined {
    fn of(cache: CacheRef, slot: u32) -> Self {
        // SAFETY: as `layout` says.
        unsafe {
            Examined {
                frees: cache.in_shard(slot, layout::EXAMINED),
                since: cache.in_shard(slot, layout::EXAMINED_SINCE),
            }
        }
    }

    fn is_hurried(self) -> bool {
        self.frees.load(Relaxed) >= FEW
    }

    /// Counts a free. True: a turn is over.
    fn count(self, time: impl Fn() -> u32) -> bool {
        let frees = self.frees.load(Relaxed) + 1;
        if frees == 1 {
            self.since.store(since(time()), Relaxed);
        }
        let is_over = frees == FEW;
        let is_calm = is_over && self.is_calm(time());
        self.frees.store(if is_calm { 0 } else { frees }, Relaxed);
        is_over
    }

    fn is_calm(self, time: u32) -> bool {
        since(time).wrapping_sub(self.since.load(Relaxed)) >= HURRY
    }

    /// Ends the hurry if this miss comes long after the last one.
    fn calm_down(self, time: u32) {
        if self.is_calm(time) {
            self.frees.store(0, Relaxed);
        }
        self.since.store(since(time), Relaxed);
    }
}

impl CpuCaches {
    /// Whether the slot examines all frees of the cache, and so has no free magazine.
    #[inline]
    pub(super) fn examines(&self, cache: CacheRef, slot: u32) -> bool {
        !Examined::of(cache, slot).is_hurried()
    }

    /// Ends the hurry if this miss, at a coarse time, comes long after the last one.
    #[inline]
    pub(super) fn calm_down(&self, cache: CacheRef, slot: u32, time: u32) {
        let examined = Examined::of(cache, slot);
        if examined.is_hurried() {
            examined.calm_down(time);
        }
    }

    /// Frees an object after a look at it, in a slot that examines frees.
    pub(super) fn put_examined(&self, cache: CacheRef, slot: u32, object: *mut u8) {
        if Examined::of(cache, slot).count(coarse_time) {
            self.miss(cache, slot, Path::Overflow);
            self.shrink();
        }
        let Some(owner) = self.depot.central.examine(cache, object) else { return };
        let word = SlotWord::new(cache, slot, Side::Allocation);
        if owner != slot {
            self.doubt(SlotWord { slot: owner, ..word }, object);
            return self.depot.put_one(cache, object);
        }
        let Some(mut magazine) = word.take(word.look()) else { return self.depot.put_one(cache, object) };
        let is_free = magazine.view().objects().any(|free| free == object);
        let goes_in = !is_free && !magazine.is_full();
        if goes_in {
            magazine.push(object);
        }
        if let Err(magazine) = word.put(magazine) {
            self.depot.push(cache, slot, magazine);
        }
        if is_free {
            self.depot.central.report_double_free(object);
        } else if !goes_in {
            self.depot.put_one(cache, object);
        }
    }

    /// Drains another slot's allocation magazine if it seems to hold the object. The look may be stale, and read cells
    /// that lie below the bottom by now. After the drain, the object's bit in its span says what is true.
    fn doubt(&self, word: SlotWord, object: *mut u8) {
        if word.view().is_some_and(|view| view.objects().any(|free| free == object)) {
            let drain = || self.drain_slots(Which::One(word.cache), core::iter::once(word.slot), Why::Misuse);
            self.as_only_drainer(here!(), drain);
        }
    }

    /// Looks at the magazines of the calling thread's slot, in size classes. Its free magazines go back to their spans,
    /// which finds pointers that are there twice, and then nothing in its allocation magazines is free.
    pub fn examine_own(&self) {
        let Some(slot) = slot::current() else { return };
        let examine = || {
            let classes = self.depot.central.caches().take_while(|cache| cache.state().is_none());
            for cache in classes.filter(|cache| cache.is_used_in(slot)) {
                self.drain_own_word(SlotWord::new(cache, slot, Side::Free));
                let word = SlotWord::new(cache, slot, Side::Allocation);
                if let Some(magazine) = word.take(word.look()) {
                    let magazine = magazine.retain(|object, _| self.depot.central.examine(cache, object).is_some());
                    if let Err(magazine) = word.put(magazine) {
                        self.depot.push(cache, slot, magazine);
                    }
                }
            }
        };
        self.try_as_only_drainer(examine);
    }

    /// Looks at all objects of a magazine that threads filled without a look, and leaves out wrong ones.
    pub(super) fn examine_all(&self, cache: CacheRef, magazine: Magazine) -> Magazine {
        let central = &self.depot.central;
        magazine.retain(|object, kept| {
            let is_there = kept.objects().any(|other| other == object);
            if is_there {
                central.report_double_free(object);
            }
            !is_there && central.examine(cache, object).is_some()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIT: u32 = coarse_of(1 << 20).next_power_of_two();

    fn none_yet() -> Examined {
        let (frees, since) = std::boxed::Box::leak(std::boxed::Box::default());
        Examined { frees, since }
    }

    /// Frees in a turn, the last of them `units` after the first. Returns how many turns ended.
    fn turn(examined: Examined, units: u32) -> usize {
        let start = 7 * UNIT;
        (1..=FEW).filter(|&free| examined.count(|| start + if free == FEW { units * UNIT } else { 0 })).count()
    }

    #[test]
    fn frees_are_examined_until_they_are_hurried() {
        for units in 0..2 * u32::from(HURRY) {
            let examined = none_yet();
            assert_eq!(turn(examined, units), 1, "turns");
            assert_eq!(examined.is_hurried(), units < HURRY.into(), "after {units} units");
        }
    }

    #[test]
    fn hurry_ends_with_a_late_miss() {
        let examined = none_yet();
        // The time wraps on the way.
        let mut time = u32::MAX - 2 * UNIT;
        examined.calm_down(time);
        for (later, is_hurried) in [(0, true), (1, true), (1, true), (u32::from(HURRY), false)] {
            examined.frees.store(FEW, Relaxed);
            time = time.wrapping_add(later * UNIT);
            examined.calm_down(time);
            assert_eq!(examined.is_hurried(), is_hurried, "{later} units later");
        }
    }
}
