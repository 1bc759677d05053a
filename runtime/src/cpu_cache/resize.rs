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
//! Middle classes have a budget of their own. Their magazines hold nothing at level 0, one object at level 1, and twice
//! as many at each further one. All slots together grant no more than a share of the machine's memory.
//!
//! Source: tcmalloc's per-CPU caches, which steal capacity from one another.
//!
//! Slow paths do all of this. Runs at the same time: any thread; a slot's word changes by compare-and-exchange, levels
//! under their shards' locks. If the thread vanishes in a fork, the child may lose a part of a budget.

use super::drain::Which;
use super::tier::{CpuCaches, of_slot};
use crate::central::size_class::{CLASSES, SMALL};
use crate::central::{CacheRef, HIGHEST_RATE, Part, Path, Shape, coarse_of, coarse_time};
use crate::depot::Held;
use crate::layout::{self, Region};
use crate::observe::Why;
use core::iter;
use machine::sync::{AtomicU64, Ordering};
use machine::{clock, here, process, slot};

/// A bound on the objects in a slot's magazines beyond the caches' shapes.
#[derive(Clone, Copy, Debug)]
struct Budget {
    kib: i32,
    /// The offset of a slot's word in its area.
    at: usize,
}

const USUAL: Budget = Budget { kib: 4 << 10, at: layout::BUDGET };
const MIDDLE: Budget = Budget { kib: 4 << 10, at: layout::MIDDLE_BUDGET };
/// All slots together grant at most the machine's memory over this.
const SHARE_OF_MEMORY: u64 = 64;

impl Budget {
    fn of(shape: Shape) -> Self {
        if shape.most() == 0 { MIDDLE } else { USUAL }
    }

    /// KiB that a slot never lends.
    fn kept(self) -> i32 {
        self.kib / 2
    }
}

/// A middle class without a miss for so long may lose its magazines to another one.
const LONG_NS: u64 = 10_000_000;
/// Misses on one path between two levels of a cache.
const PATIENCE: u32 = 16;
/// The same if it must steal, because the search takes time.
const MORE_PATIENCE: u32 = 64;
/// Frees alone may grow magazines up to one part in this many of a budget.
const OVERFLOW_PART: i32 = 8;
/// Nanoseconds of a unit of time.
const UNIT_NS: u64 = 1_600_000;
/// A slot is idle after so many units, some 50 ms, in which no cache grew and no grown cache had a refill counted.
const IDLE_AFTER: u32 = 32;

/// A slot's share of a budget. Zeroes: nothing is granted or lent, and the slot is idle.
#[derive(Clone, Copy, Debug)]
struct Room<'a> {
    shares: &'a AtomicU64,
    budget: Budget,
}

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
    fn free(self, budget: Budget) -> i32 {
        budget.kib - i32::from(self.lent) - i32::from(self.granted)
    }

    /// With `kib` more granted, if there is room.
    fn granting(self, kib: u16, now: u32, budget: Budget) -> Option<Self> {
        let granted = self.granted.checked_add(kib).filter(|_| self.free(budget) >= i32::from(kib))?;
        Some(Shares { granted, last_busy: now, ..self })
    }

    fn taking_back(self, kib: u16) -> Self {
        Shares { granted: self.granted.saturating_sub(kib), ..self }
    }

    /// Whether it may lend `kib`, free or not.
    fn may_lend(self, kib: u16, now: u32, budget: Budget) -> bool {
        let is_idle = now.wrapping_sub(self.last_busy) > IDLE_AFTER;
        is_idle && budget.kib - i32::from(self.lent) - i32::from(kib) >= budget.kept()
    }

    fn lending(self, kib: u16, now: u32, budget: Budget) -> Option<Self> {
        let may = self.may_lend(kib, now, budget) && self.free(budget) >= i32::from(kib);
        may.then(|| Shares { lent: self.lent + kib as i16, ..self })
    }

    fn borrowing(self, kib: u16) -> Option<Self> {
        Some(Shares { lent: self.lent.checked_sub(kib as i16)?, ..self })
    }
}

impl<'a> Room<'a> {
    fn of(slot: u32, budget: Budget) -> Self {
        // SAFETY: as `layout` says.
        Room { shares: unsafe { of_slot(slot, budget.at) }, budget }
    }

    fn shares(self) -> Shares {
        Shares::of(self.shares.load(Ordering::Relaxed))
    }

    /// Changes the shares as one; false if `to` refuses. Relaxed: they order nothing.
    fn change(self, to: impl Fn(Shares) -> Option<Shares>) -> bool {
        let change = |word| to(Shares::of(word)).map(Shares::word);
        self.shares.fetch_update(Ordering::Relaxed, Ordering::Relaxed, change).is_ok()
    }
}

fn now() -> u32 {
    // Never 0, the time of a slot that was never busy, until long after that.
    (clock::coarse() * clock::COARSE_NS / UNIT_NS) as u32 | 1 << 31
}

/// KiB by which two magazines at a level exceed level 0. Depends on the size only, so tuning does not change it.
fn beyond(shape: Shape, level: u8) -> u16 {
    let usual = if shape.most() == 0 { shape } else { Shape::of(shape.object_bytes()) };
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
        } else if cache.load(slot).is_one_in(PATIENCE, path) {
            self.grow(cache, slot, level, path);
        }
    }

    /// For tests: grows a cache's magazines in the thread's slot, as after many refills.
    pub fn grow_now(&self, cache: CacheRef) {
        if let Some(slot) = slot::current() {
            cache.load(slot).raise();
            self.grow(cache, slot, cache.level(slot).load(Ordering::Relaxed), Path::Refill);
        }
    }

    #[cold]
    fn grow(&self, cache: CacheRef, slot: u32, level: u8, path: Path) {
        let (shape, now) = (cache.shape(), now());
        let room = Room::of(slot, Budget::of(shape));
        if level > 0 {
            room.change(|shares| Some(Shares { last_busy: now, ..shares }));
        }
        if slot::mode() != slot::Mode::ConcurrencyId || shape.at_level(level + 1) == shape.at_level(level) {
            return;
        }
        let kib = beyond(shape, level + 1) - beyond(shape, level);
        if path == Path::Overflow && i32::from(room.shares().granted) + i32::from(kib) > room.budget.kib / OVERFLOW_PART
        {
            return;
        }
        let grant = || self.grant(room, kib, now);
        let asks = cache.load(slot).is_one_in(MORE_PATIENCE, path);
        let is_granted = grant()
            || asks
                && (self.take_from_another(cache, slot, grant)
                    || self.steal_capacity(slot, kib, now, room.budget) && grant());
        if !is_granted {
            return;
        }
        let held = self.depot.lock(cache, slot, here!());
        let known = cache.level(slot);
        if held.0.slot == slot && known.load(Ordering::Relaxed) == level {
            known.store(level + 1, Ordering::Relaxed);
        } else {
            drop(held);
            self.give_back(room, kib);
        }
    }

    /// Empties middle classes that have not missed for long, the longest first, until `grant` succeeds. A class that is
    /// in use without misses grows again. Only in the thread's slot.
    fn take_from_another(&self, cache: CacheRef, slot: u32, grant: impl Fn() -> bool) -> bool {
        if cache.shape().most() > 0 {
            return false;
        }
        let (time, long) = (coarse_time(), coarse_of(LONG_NS));
        let middle = || (SMALL..CLASSES).map(|class| CacheRef::new(cache.chunk(), class));
        let idle = |other: &CacheRef| {
            *other != cache && other.level(slot).load(Ordering::Relaxed) > 0 && other.load(slot).is_idle(time, long)
        };
        let empty = || {
            // In a signal handler, a class may keep its level.
            (SMALL..CLASSES).any(|_| {
                let longest = middle().filter(idle).max_by_key(|other| other.load(slot).since_last_miss(time));
                longest.map(|other| self.empty_own(other, slot)).is_some() && grant()
            })
        };
        self.try_as_only_drainer(empty).unwrap_or(false)
    }

    /// Grants a cache more of its slot's budget. False: there is no room, there or in what all slots may grant.
    fn grant(&self, room: Room<'_>, kib: u16, now: u32) -> bool {
        let all = &self.cold.kib_granted;
        let most = (process::memory() / SHARE_OF_MEMORY) >> 10;
        // Relaxed: a number on its own. Counted before it is granted, so that a thread that vanishes in a fork leaves
        // it too high, and never below zero.
        let is_within = u64::from(all.fetch_add(kib.into(), Ordering::Relaxed)) + u64::from(kib) <= most;
        let is_granted = is_within && room.change(|shares| shares.granting(kib, now, room.budget));
        if !is_granted {
            all.fetch_sub(kib.into(), Ordering::Relaxed);
        }
        is_granted
    }

    fn give_back(&self, room: Room<'_>, kib: u16) {
        room.change(|shares| Some(shares.taking_back(kib)));
        self.cold.kib_granted.fetch_sub(kib.into(), Ordering::Relaxed);
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
            let shape = cache.shape();
            self.give_back(Room::of(slot, Budget::of(shape)), beyond(shape, level));
        }
    }

    /// Most bytes of objects in a slot's magazines, two for each cache.
    pub fn most_in_magazines(&self) -> usize {
        let of = |cache: CacheRef| 2 * cache.shape().most() * cache.object_bytes();
        let has_middle = CacheRef::new(Region::of_process(), SMALL).exists();
        let budget = USUAL.kib + if has_middle { MIDDLE.kib } else { 0 };
        self.depot.central.caches().map(of).sum::<usize>() + ((budget as usize) << 10)
    }

    /// For tests: grants match the caches' levels, lending balances, and each slot stays within its budget.
    #[doc(hidden)]
    pub fn check_shares<S: Iterator<Item = u32>>(&self, slots: impl Fn() -> S) {
        let mut all = 0;
        for budget in [USUAL, MIDDLE] {
            let mut lent = 0;
            for slot in slots() {
                let shares = Room::of(slot, budget).shares();
                let grown =
                    |cache: CacheRef| u32::from(beyond(cache.shape(), cache.level(slot).load(Ordering::Relaxed)));
                let caches = self.depot.central.caches().filter(|cache| cache.is_used_in(slot));
                let granted: u32 = caches.filter(|cache| Budget::of(cache.shape()).at == budget.at).map(grown).sum();
                let said = u32::from(shares.granted);
                assert_eq!(granted, said, "KiB that caches grew by in slot {slot}, and KiB that were granted");
                assert!(shares.free(budget) >= 0, "slot {slot} has more than its budget: {shares:?}");
                lent += i32::from(shares.lent);
                all += said;
            }
            assert_eq!(lent, 0, "KiB lent less KiB borrowed");
        }
        let counted = self.cold.kib_granted.load(Ordering::Relaxed);
        assert_eq!(all, counted, "KiB that were granted to all slots, and KiB that are counted");
    }

    /// Takes a part of an idle slot's budget. False: no slot can lend, or a slow search just found so.
    fn steal_capacity(&self, slot: u32, kib: u16, now: u32, budget: Budget) -> bool {
        let in_vain = &self.cold.asked_in_vain;
        if in_vain.load(Ordering::Relaxed) == now {
            return false;
        }
        let others = || (0..slot::in_use()).filter(move |&other| other != slot);
        let room = |slot: u32| Room::of(slot, budget);
        let lend = |other: &u32| room(*other).change(|shares| shares.lending(kib, now, budget));
        let lender = others().find(lend).or_else(|| {
            let idle = others().find(|&other| room(other).shares().may_lend(kib, now, budget))?;
            let mut parts = self.depot.central.parts();
            parts.find(|&part| self.try_as_only_drainer(|| self.empty_grown(part, idle)).is_some() && lend(&idle))?;
            Some(idle)
        });
        let Some(lender) = lender else {
            in_vain.store(now, Ordering::Relaxed);
            return false;
        };
        let takes = |slot| room(slot).change(|shares| shares.borrowing(kib));
        takes(slot) || {
            // The field is full, so the lender gets it back.
            takes(lender);
            false
        }
    }

    /// Takes a slot's grants for a part of all caches back and empties their magazines, under the drain lock. Does
    /// nothing if the machine refuses a kick.
    fn empty_grown(&self, part: Part, slot: u32) {
        if !self.drain_slots(Which::Grown(part), iter::once(slot), Why::Idle).refused {
            let caches = self.depot.central.caches_of(part).filter(|cache| cache.is_used_in(slot));
            caches.for_each(|cache| self.shrink_magazines(cache, slot));
        }
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
        let full = NONE.granting(USUAL.kib as u16, NOW, USUAL).unwrap();
        assert_eq!((full.free(USUAL), full.granting(1, NOW, USUAL)), (0, None));
        assert_eq!(full.taking_back(USUAL.kib as u16).free(USUAL), USUAL.kib);
        let more = full.borrowing(100).unwrap();
        assert_eq!(more.free(USUAL), 100);
        assert!(more.granting(100, NOW, USUAL).is_some() && more.granting(101, NOW, USUAL).is_none());
    }

    #[test]
    fn idle_slot_lends_half_of_its_capacity() {
        let lent = NONE.lending(USUAL.kept() as u16, NOW, USUAL).unwrap();
        assert_eq!((lent.free(USUAL), lent.lending(1, NOW, USUAL)), (USUAL.kept(), None));
        let busy = NONE.granting(1, NOW, USUAL).unwrap();
        assert_eq!(busy.lending(1, NOW + IDLE_AFTER, USUAL), None);
        assert!(busy.lending(1, NOW + IDLE_AFTER + 1, USUAL).is_some());
        let used_up = NONE.granting(USUAL.kib as u16, NOW, USUAL).unwrap();
        let later = NOW + 2 * IDLE_AFTER;
        assert!(
            used_up.lending(1, later, USUAL).is_none() && used_up.may_lend(1, later, USUAL),
            "its magazines must be emptied"
        );
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
