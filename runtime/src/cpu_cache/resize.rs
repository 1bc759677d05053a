//! Resizing: if a cache keeps missing at the highest rate, its magazines grow, within a byte budget for each slot.
//!
//! ```text
//!   a slot's word   granted: KiB beyond shapes   lent: KiB that others have of the budget   when it was last that busy
//! ```
//!
//! Each *level* doubles a magazine's capacity, up to the room for pointers. A cache grows by a level after some refills
//! in quick succession, if its slot's budget has room. When its miss rate falls, it shrinks to level 0 and frees that
//! budget. A slot without budget steals capacity from an idle slot, up to half of its budget. It takes unused budget
//! first. Otherwise it empties the idle slot's grown magazines, by a kick.
//!
//! Source: tcmalloc's per-CPU caches, which steal capacity from one another.
//!
//! Slow paths do all of this. Runs at the same time: any thread; a slot's word changes by compare-and-exchange, levels
//! under their shards' locks. If the thread vanishes in a fork, the child may lose a part of a budget.

use super::drain::Which;
use super::tier::{CpuCaches, of_slot};
use crate::central::{CacheRef, HIGHEST_RATE, Path, Shape};
use crate::depot::Held;
use crate::layout;
use crate::observe::Why;
use core::iter;
use machine::sync::{AtomicU64, Ordering};
use machine::{clock, here, slot};

/// KiB of objects that a slot's magazines may hold beyond the caches' shapes.
const BUDGET: i32 = 512;
/// KiB of its budget that a slot never lends.
const KEPT: i32 = BUDGET / 2;
/// Refills between two levels of a cache.
const PATIENCE: u32 = 16;
/// The same if it must steal, because the search takes time.
const MORE_PATIENCE: u32 = 64;
/// Nanoseconds of a unit of time.
const UNIT_NS: u64 = 1_600_000;
/// A slot is idle after so many units, some 50 ms, in which no cache grew and no grown cache had a refill counted.
const IDLE_AFTER: u32 = 32;

/// A slot's share of the budget. Zeroes: nothing is granted or lent, and the slot is idle.
#[derive(Debug)]
#[repr(transparent)]
struct Room(AtomicU64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shares {
    granted: u16,
    /// Negative: it has borrowed as much.
    lent: i16,
    last_busy: u32,
}

impl Shares {
    fn of(word: u64) -> Self {
        Shares { granted: word as u16, lent: (word >> 16) as i16, last_busy: (word >> 32) as u32 }
    }

    fn word(self) -> u64 {
        u64::from(self.granted) | u64::from(self.lent as u16) << 16 | u64::from(self.last_busy) << 32
    }

    /// Neither granted nor lent.
    fn free(self) -> i32 {
        BUDGET - i32::from(self.lent) - i32::from(self.granted)
    }

    /// With `kib` more granted, if there is room.
    fn granting(self, kib: u16, now: u32) -> Option<Self> {
        let granted = self.granted.checked_add(kib).filter(|_| self.free() >= i32::from(kib))?;
        Some(Shares { granted, last_busy: now, ..self })
    }

    fn taking_back(self, kib: u16) -> Self {
        Shares { granted: self.granted.saturating_sub(kib), ..self }
    }

    /// Whether it may lend `kib`, free or not.
    fn may_lend(self, kib: u16, now: u32) -> bool {
        let is_idle = now.wrapping_sub(self.last_busy) > IDLE_AFTER;
        is_idle && BUDGET - i32::from(self.lent) - i32::from(kib) >= KEPT
    }

    fn lending(self, kib: u16, now: u32) -> Option<Self> {
        let may = self.may_lend(kib, now) && self.free() >= i32::from(kib);
        may.then(|| Shares { lent: self.lent + kib as i16, ..self })
    }

    fn borrowing(self, kib: u16) -> Option<Self> {
        Some(Shares { lent: self.lent.checked_sub(kib as i16)?, ..self })
    }
}

impl Room {
    fn of<'a>(slot: u32) -> &'a Room {
        // SAFETY: as `layout` says.
        unsafe { of_slot(slot, layout::BUDGET) }
    }

    fn shares(&self) -> Shares {
        Shares::of(self.0.load(Ordering::Relaxed))
    }

    /// Changes the shares as one; false if `to` refuses. Relaxed: they order nothing.
    fn change(&self, to: impl Fn(Shares) -> Option<Shares>) -> bool {
        let change = |word| to(Shares::of(word)).map(Shares::word);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, change).is_ok()
    }

    fn give_back(&self, kib: u16) {
        self.change(|shares| Some(shares.taking_back(kib)));
    }
}

fn now() -> u32 {
    // Never 0, the time of a slot that was never busy, until long after that.
    (clock::coarse() * clock::COARSE_NS / UNIT_NS) as u32 | 1 << 31
}

/// KiB by which two magazines at a level exceed level 0. Depends on the size only, so tuning does not change it.
fn beyond(shape: Shape, level: u8) -> u16 {
    let usual = Shape::of(shape.object_bytes());
    let pointers = usual.at_level(level) - usual.most();
    (pointers * 2 * shape.object_bytes()).div_ceil(1 << 10).min(u16::MAX as usize) as u16
}

impl CpuCaches {
    /// Grows or shrinks a cache's magazines in a slot, after a miss.
    #[inline]
    pub(super) fn resize(&self, cache: CacheRef, slot: u32, rate: u32, path: Path) {
        let level = cache.level(slot).load(Ordering::Relaxed);
        if rate < HIGHEST_RATE {
            if level > 0 {
                self.shrink_magazines(cache, slot);
            }
        } else if path == Path::Refill && cache.load(slot).refills().is_multiple_of(PATIENCE) {
            self.grow(cache, slot, level);
        }
    }

    #[cold]
    fn grow(&self, cache: CacheRef, slot: u32, level: u8) {
        let (shape, room, now) = (cache.shape(), Room::of(slot), now());
        if level > 0 {
            room.change(|shares| Some(Shares { last_busy: now, ..shares }));
        }
        if slot::mode() != slot::Mode::ConcurrencyId || shape.at_level(level + 1) == shape.at_level(level) {
            return;
        }
        let kib = beyond(shape, level + 1) - beyond(shape, level);
        let grant = || room.change(|shares| shares.granting(kib, now));
        let asks = cache.load(slot).refills().is_multiple_of(MORE_PATIENCE);
        let is_granted = grant() || (asks && self.steal_capacity(slot, kib, now) && grant());
        if !is_granted {
            return;
        }
        let held = self.depot.lock(cache, slot, here!());
        let known = cache.level(slot);
        if held.0.slot == slot && known.load(Ordering::Relaxed) == level {
            known.store(level + 1, Ordering::Relaxed);
        } else {
            drop(held);
            room.give_back(kib);
        }
    }

    /// Shrinks a cache's magazines in a slot to level 0.
    #[cold]
    pub(super) fn shrink_magazines(&self, cache: CacheRef, slot: u32) {
        let held = self.depot.lock(cache, slot, here!());
        // A signal handler that must not wait may get another slot's lock.
        if held.0.slot == slot {
            self.shrink_held(&held);
        }
    }

    /// The same for a held shard.
    pub fn shrink_held(&self, held: &Held) {
        let (cache, slot) = (held.0.cache(), held.0.slot);
        let level = cache.level(slot).load(Ordering::Relaxed);
        if level > 0 {
            cache.level(slot).store(0, Ordering::Relaxed);
            Room::of(slot).give_back(beyond(cache.shape(), level));
        }
    }

    /// Most bytes of objects in a slot's magazines, two for each cache.
    pub fn most_in_magazines(&self) -> usize {
        let of = |cache: CacheRef| 2 * cache.shape().most() * cache.object_bytes();
        self.depot.central.caches().map(of).sum::<usize>() + ((BUDGET as usize) << 10)
    }

    /// For tests: grants match the caches' levels, lending balances, and each slot stays within its budget.
    pub fn check_shares(&self, slots: impl Iterator<Item = u32>) {
        let mut lent = 0;
        for slot in slots {
            let shares = Room::of(slot).shares();
            let grown = |cache: CacheRef| u32::from(beyond(cache.shape(), cache.level(slot).load(Ordering::Relaxed)));
            let granted: u32 = self.depot.central.caches().filter(|cache| cache.is_used_in(slot)).map(grown).sum();
            let said = u32::from(shares.granted);
            assert_eq!(granted, said, "KiB that caches grew by in slot {slot}, and KiB that were granted");
            assert!(shares.free() >= 0, "slot {slot} has more than its budget: {shares:?}");
            lent += i32::from(shares.lent);
        }
        assert_eq!(lent, 0, "KiB lent less KiB borrowed");
    }

    /// Takes a part of an idle slot's budget. False: no slot can lend, or a slow search just found so.
    fn steal_capacity(&self, slot: u32, kib: u16, now: u32) -> bool {
        let in_vain = &self.cold.asked_in_vain;
        if in_vain.load(Ordering::Relaxed) == now {
            return false;
        }
        let others = || (0..slot::in_use()).filter(move |&other| other != slot);
        let lend = |other: &u32| Room::of(*other).change(|shares| shares.lending(kib, now));
        let lender = others().find(lend).or_else(|| {
            let idle = others().find(|&other| Room::of(other).shares().may_lend(kib, now))?;
            self.try_as_only_drainer(|| self.empty_grown(idle))?.then_some(idle).filter(lend)
        });
        let Some(lender) = lender else {
            in_vain.store(now, Ordering::Relaxed);
            return false;
        };
        let takes = |slot| Room::of(slot).change(|shares| shares.borrowing(kib));
        takes(slot) || {
            // The field is full, so the lender gets it back.
            takes(lender);
            false
        }
    }

    /// Takes a slot's grants back and empties the magazines, under the drain lock. False: the machine refused.
    fn empty_grown(&self, slot: u32) -> bool {
        let drained = self.drain_slots(Which::Grown, iter::once(slot), Why::Idle);
        if !drained.refused {
            let caches = self.depot.central.caches().filter(|cache| cache.is_used_in(slot));
            caches.for_each(|cache| self.shrink_magazines(cache, slot));
        }
        !drained.refused
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Shares = Shares { granted: 0, lent: 0, last_busy: 0 };
    const NOW: u32 = 1 << 31 | 1000;

    #[test]
    fn shares_survive_their_word() {
        for shares in [
            NONE,
            Shares { granted: 500, lent: -200, last_busy: NOW },
            Shares { granted: u16::MAX, lent: 255, last_busy: u32::MAX },
        ] {
            assert_eq!(Shares::of(shares.word()), shares);
        }
    }

    #[test]
    fn full_budget_grants_nothing() {
        let full = NONE.granting(BUDGET as u16, NOW).unwrap();
        assert_eq!((full.free(), full.granting(1, NOW)), (0, None));
        assert_eq!(full.taking_back(BUDGET as u16).free(), BUDGET);
        let more = full.borrowing(100).unwrap();
        assert_eq!(more.free(), 100);
        assert!(more.granting(100, NOW).is_some() && more.granting(101, NOW).is_none());
    }

    #[test]
    fn idle_slot_lends_half_of_its_capacity() {
        let lent = NONE.lending(KEPT as u16, NOW).unwrap();
        assert_eq!((lent.free(), lent.lending(1, NOW)), (KEPT, None));
        let busy = NONE.granting(1, NOW).unwrap();
        assert_eq!(busy.lending(1, NOW + IDLE_AFTER), None);
        assert!(busy.lending(1, NOW + IDLE_AFTER + 1).is_some());
        let used_up = NONE.granting(BUDGET as u16, NOW).unwrap();
        let later = NOW + 2 * IDLE_AFTER;
        assert!(used_up.lending(1, later).is_none() && used_up.may_lend(1, later), "its magazines must be emptied");
    }

    #[test]
    fn levels_end_at_the_largest_capacity() {
        let shape = Shape::of(904);
        assert_eq!([0, 1, 2, 3, 4].map(|level| shape.at_level(level)), [18, 36, 72, 125, 125]);
        assert_eq!([0, 1, 3].map(|level| beyond(shape, level)), [0, 32, 189]);
        let tuned = shape.tuned(20, 10).unwrap();
        assert_eq!((tuned.at_level(3), beyond(tuned, 3)), (10, 189), "a tuned shape stays, and so does the account");
    }
}
