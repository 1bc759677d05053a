//! Arrays that fit the load: where a cache is as hot as can be and goes on missing, its arrays hold more than its shape says, within a budget of
//! bytes for each slot.
//!
//! ```text
//!   a slot's word      granted: KiB beyond shapes     lent: KiB that others have of the budget     when it was last that hot
//! ```
//!
//! Each *level* doubles what an array may hold, as far as there is room for pointers. A cache rises by a level after some refills in a row that
//! came as soon as can be, if its slot's budget has room for the objects; when it cools, it falls to level 0, and the budget is free again. A slot
//! whose budget is used up takes from one where nothing was that hot for a while, up to half of what that one has: what is free of it, or else
//! what its caches were granted, whose arrays are emptied for that, by a kick.
//!
//! All of this is on slow paths. Runs at the same time: any threads; a slot's word changes by compare-and-exchange, levels under their shards'
//! locks. Of grants whose holder vanished in a fork, the child keeps less of a budget.

use super::General;
use super::drain::Which;
use super::panel::Handle;
use super::shape::Shape;
use super::shard;
use crate::observe::Why;
use crate::percpu::Region;
use core::mem::take;
use machine::sync::{AtomicU64, Ordering};
use machine::{clock, here, slot};

/// KiB of objects that arrays of a slot may hold beyond what the caches' shapes say.
const BUDGET: i32 = 512;
/// KiB that a slot keeps of that, whoever asks.
const KEPT: i32 = BUDGET / 2;
/// Refills between two rises of a cache.
const PATIENCE: u32 = 16;
/// And between two that take from other slots, which are looked through for that.
const MORE_PATIENCE: u32 = 64;
/// Ticks of the clock, as a power of two, that make a unit of time: a millisecond or so.
const UNIT_SHIFT: u32 = 22;
/// After so many units without a rise or a look at a risen cache, a slot rests.
const RESTS_AFTER: u32 = 32;

/// What a slot has of the budget. Zeroes: nothing is granted, nothing lent, and it rests.
#[derive(Debug)]
#[repr(transparent)]
struct Room(AtomicU64);

/// Its word, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shares {
    granted: u16,
    /// Negative: it has as much of others.
    lent: i16,
    last_hot: u32,
}

impl Shares {
    fn of(word: u64) -> Self {
        Shares { granted: word as u16, lent: (word >> 16) as i16, last_hot: (word >> 32) as u32 }
    }

    fn word(self) -> u64 {
        u64::from(self.granted) | u64::from(self.lent as u16) << 16 | u64::from(self.last_hot) << 32
    }

    /// What is neither granted nor lent.
    fn free(self) -> i32 {
        BUDGET - i32::from(self.lent) - i32::from(self.granted)
    }

    /// The same with more granted, if there is room.
    fn granting(self, kib: u16, now: u32) -> Option<Self> {
        let granted = self.granted.checked_add(kib).filter(|_| self.free() >= i32::from(kib))?;
        Some(Shares { granted, last_hot: now, ..self })
    }

    fn taking_back(self, kib: u16) -> Self {
        Shares { granted: self.granted.saturating_sub(kib), ..self }
    }

    /// Whether it may lend as much, though not whether that is free.
    fn may_lend(self, kib: u16, now: u32) -> bool {
        let rests = now.wrapping_sub(self.last_hot) > RESTS_AFTER;
        rests && BUDGET - i32::from(self.lent) - i32::from(kib) >= KEPT
    }

    fn lending(self, kib: u16, now: u32) -> Option<Self> {
        let may = self.may_lend(kib, now) && self.free() >= i32::from(kib);
        may.then(|| Shares { lent: self.lent + kib as i16, ..self })
    }

    fn borrowing(self, kib: u16) -> Option<Self> {
        Some(Shares { lent: self.lent.checked_sub(kib as i16)?, ..self })
    }
}

impl General<'_> {
    /// Bytes of objects that the arrays of a slot hold at most, two for each cache.
    pub fn most_in_arrays(self) -> usize {
        let of = |cache: Handle<'_>| 2 * cache.shape().most() * cache.shape().object_bytes();
        self.caches().map(of).sum::<usize>() + ((BUDGET as usize) << 10)
    }
}

impl Room {
    /// That of a slot, behind all shards of the general caches.
    fn of<'a>(region: Region, slot: u32) -> &'a Room {
        const { assert!(shard::END + size_of::<Room>() <= slot::AREA) };
        // SAFETY: nobody uses these bytes for anything else; areas are never unmapped.
        unsafe { &*region.in_area::<Room>(slot, slot::AREA - size_of::<Room>()) }
    }

    fn shares(&self) -> Shares {
        Shares::of(self.0.load(Ordering::Relaxed))
    }

    /// Changes the shares as one; false if that is not possible. Relaxed: they order nothing.
    fn change(&self, to: impl Fn(Shares) -> Option<Shares>) -> bool {
        let change = |word| to(Shares::of(word)).map(Shares::word);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, change).is_ok()
    }

    fn give_back(&self, kib: u16) {
        self.change(|shares| Some(shares.taking_back(kib)));
    }
}

fn now() -> u32 {
    // Never 0, at which nobody was hot yet, for long after that has passed.
    (clock::ticks() >> UNIT_SHIFT) as u32 | 1 << 31
}

impl Shape {
    /// KiB that two arrays at a level may hold beyond level 0. Of the size alone: so it is the same when somebody has tuned the cache meanwhile.
    fn beyond(self, level: u8) -> u16 {
        let usual = Shape::of(self.object_bytes());
        let pointers = usual.at_level(level) - usual.most();
        (pointers * 2 * self.object_bytes()).div_ceil(1 << 10).min(u16::MAX as usize) as u16
    }
}

impl Handle<'_> {
    /// Pointers that an array of the slot has room for.
    #[inline]
    pub(super) fn capacity(self, slot: u32) -> usize {
        let (shape, heat) = (self.shape(), self.heat(slot));
        match shard::level(self.shard(slot)) {
            level if level > 0 && heat > 0 => shape.at_level(level),
            _ => shape.batch(heat),
        }
    }

    /// Counts a visit to a slow path, as [`shard::count_visit`] does, and rises or falls by what that says.
    #[inline]
    pub(super) fn count_visit(self, slot: u32, is_refill: bool) {
        let shard = self.shard(slot);
        let ((heat, time), level) = (shard::count_visit(shard, is_refill), shard::level(shard));
        if let Some(time) = time {
            self.general().look_after(slot, time, is_refill);
        }
        if heat < shard::HOTTEST {
            if level > 0 {
                self.fall(slot);
            }
        } else if is_refill && shard::refills(shard).is_multiple_of(PATIENCE) {
            self.rise(slot, level);
        }
    }

    #[cold]
    fn rise(self, slot: u32, level: u8) {
        let (shape, room, now) = (self.shape(), Room::of(self.slab().region(), slot), now());
        if level > 0 {
            room.change(|shares| Some(Shares { last_hot: now, ..shares }));
        }
        if slot::mode() != slot::Mode::ConcurrencyId || shape.at_level(level + 1) == shape.at_level(level) {
            return;
        }
        let kib = shape.beyond(level + 1) - shape.beyond(level);
        let grant = || room.change(|shares| shares.granting(kib, now));
        let asks = shard::refills(self.shard(slot)).is_multiple_of(MORE_PATIENCE);
        let is_granted = grant() || (asks && self.general().borrow(slot, kib, now) && grant());
        if !is_granted {
            return;
        }
        let mut held = self.lock(slot, here!());
        if held.slot == slot && held.level == level {
            held.level += 1;
        } else {
            drop(held);
            room.give_back(kib);
        }
    }

    /// To level 0, in a slot.
    #[cold]
    pub(super) fn fall(self, slot: u32) {
        let mut held = self.lock(slot, here!());
        // In a signal handler that must not wait it is another one's.
        if held.slot == slot {
            self.fall_held(&mut held);
        }
    }

    /// The same of a shard that is held.
    pub(super) fn fall_held(self, held: &mut shard::Held) {
        let level = take(&mut held.level);
        if level == 0 {
            return;
        }
        Room::of(self.slab().region(), held.slot).give_back(self.shape().beyond(level));
    }
}

impl General<'_> {
    /// For tests: what slots were granted is what their caches have, nothing that is lent is lost, and nobody has more than there is.
    pub(super) fn check_shares(self, slots: impl Iterator<Item = u32>) {
        let mut lent = 0;
        for slot in slots {
            let shares = Room::of(self.region, slot).shares();
            let risen = |cache: Handle<'_>| u32::from(cache.shape().beyond(shard::level(cache.shard(slot))));
            let granted: u32 = self.caches().filter(|cache| cache.is_used_in(slot)).map(risen).sum();
            assert_eq!(
                granted,
                u32::from(shares.granted),
                "KiB that caches rose by in slot {slot}, and KiB that were granted"
            );
            assert!(shares.free() >= 0, "slot {slot} has more than its budget: {shares:?}");
            lent += i32::from(shares.lent);
        }
        assert_eq!(lent, 0, "KiB lent less KiB borrowed");
    }

    /// Takes a part of the budget from a slot that rests. False: none has as much, or somebody found that a moment ago, as looking takes time
    /// where there are many slots.
    fn borrow(self, slot: u32, kib: u16, now: u32) -> bool {
        let in_vain = &self.slab.registry().rare.0.asked_in_vain;
        if in_vain.load(Ordering::Relaxed) == now {
            return false;
        }
        let others = || (0..slot::in_use()).filter(move |&other| other != slot);
        let room = |slot| Room::of(self.region, slot);
        let lend = |other: &u32| room(*other).change(|shares| shares.lending(kib, now));
        let lender = others().find(lend).or_else(|| {
            let rests = others().find(|&other| room(other).shares().may_lend(kib, now))?;
            self.try_as_only_drainer(|general| general.empty_risen(rests))?.then_some(rests).filter(lend)
        });
        let Some(lender) = lender else {
            in_vain.store(now, Ordering::Relaxed);
            return false;
        };
        let takes = |slot| room(slot).change(|shares| shares.borrowing(kib));
        takes(slot) || {
            // It has as much as can be written down: the lender has it back.
            takes(lender);
            false
        }
    }
}

impl General<'_> {
    /// Takes from a slot what its caches rose by, and the objects in their arrays. Under the drain lock. False: the machine refused to restart it.
    fn empty_risen(self, slot: u32) -> bool {
        let drained = self.drain_slot(Which::Risen, slot, Why::Idle);
        if !drained.refused {
            self.caches().filter(|cache| cache.is_used_in(slot)).for_each(|cache| cache.fall(slot));
        }
        !drained.refused
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Shares = Shares { granted: 0, lent: 0, last_hot: 0 };
    const NOW: u32 = 1 << 31 | 1000;

    #[test]
    fn words_keep_their_parts() {
        for shares in [
            NONE,
            Shares { granted: 500, lent: -200, last_hot: NOW },
            Shares { granted: u16::MAX, lent: 255, last_hot: u32::MAX },
        ] {
            assert_eq!(Shares::of(shares.word()), shares);
        }
    }

    #[test]
    fn nothing_is_granted_beyond_the_budget() {
        let full = NONE.granting(BUDGET as u16, NOW).unwrap();
        assert_eq!((full.free(), full.granting(1, NOW)), (0, None));
        assert_eq!(full.taking_back(BUDGET as u16).free(), BUDGET);
        let more = full.borrowing(100).unwrap();
        assert_eq!(more.free(), 100);
        assert!(more.granting(100, NOW).is_some() && more.granting(101, NOW).is_none());
    }

    #[test]
    fn who_rests_lends_half_and_who_does_not_lends_nothing() {
        let lent = NONE.lending(KEPT as u16, NOW).unwrap();
        assert_eq!((lent.free(), lent.lending(1, NOW)), (KEPT, None));
        let hot = NONE.granting(1, NOW).unwrap();
        assert_eq!(hot.lending(1, NOW + RESTS_AFTER), None);
        assert!(hot.lending(1, NOW + RESTS_AFTER + 1).is_some());
        let used_up = NONE.granting(BUDGET as u16, NOW).unwrap();
        let later = NOW + 2 * RESTS_AFTER;
        assert!(
            used_up.lending(1, later).is_none() && used_up.may_lend(1, later),
            "its arrays have to be emptied first"
        );
    }

    #[test]
    fn levels_end_where_arrays_do() {
        let shape = Shape::of(904);
        assert_eq!([0, 1, 2, 3, 4].map(|level| shape.at_level(level)), [18, 36, 72, 125, 125]);
        assert_eq!([0, 1, 3].map(|level| shape.beyond(level)), [0, 32, 189]);
        let tuned = shape.tuned(20, 10).unwrap();
        assert_eq!(
            (tuned.at_level(3), tuned.beyond(3)),
            (10, 189),
            "what somebody chose stays, and so does the account"
        );
    }
}
