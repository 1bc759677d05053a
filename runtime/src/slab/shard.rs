//! Shards of the depot: what a slot keeps of a class beyond its two arrays.
//!
//! ```text
//!   slot's words      take ─▶ array      give ─▶ array
//!                        ▲ full             │ full
//!   shard             full: array ─▶ array ◀┘      empty: array ─▶ array
//!                        ▲
//!                     spans: span ⇄ span     all that the slot owns, those with objects to give first
//! ```
//!
//! Sharding by slot keeps a producer's and a consumer's lines apart; full arrays wander between shards, and empty ones
//! wander back. All-zero memory is a shard that holds nothing.
//!
//! Runs at the same time: any thread, under the shard's lock.

use super::array::{Array, Stack};
use super::keep::Watch;
use super::panel::Handle;
use super::spans::Spans;
use super::uncut::Uncut;
use crate::page::PageList;
use crate::percpu::Region;
use core::ops::{Deref, DerefMut};
use machine::sync::{Acquired, Lock, Site};
use machine::{clock, slot};

/// Rank of a shard's lock.
pub const SHARD_RANK: u8 = 1;
/// Where the shards begin in a slot's area: behind the words of all caches.
const SHARDS: usize = super::class::CLASSES * 16;
/// And where they end.
pub(super) const END: usize = SHARDS + super::class::CLASSES * size_of::<Shard>();
const _: () = assert!(END <= slot::AREA);
const _: () = assert!(size_of::<PageList>() + size_of::<Uncut>() + size_of::<Watch>() <= size_of::<Shard>());

/// One slot's part of a cache.
#[derive(Debug)]
#[repr(C)]
pub struct Shard {
    lock: Lock<SHARD_RANK>,
    /// Arrays on `full`; read without the lock as a hint.
    pub full_count: u16,
    /// Arrays on `empty`, or 255 of them.
    empty_count: u8,
    /// How far its arrays are beyond what the cache's shape says; see `fit`. Read without the lock as a hint.
    pub level: u8,
    /// Arrays that hold objects.
    pub full: Stack,
    /// Arrays that hold none.
    empty: Stack,
    /// Spans that the slot owns.
    pub spans: Spans,
    /// Times that the slot's take array ran out, and did not just change places with the give array.
    pub refills: u32,
    /// When that was last, and how hot the cache is; see [`count_visit`].
    heat: u32,
}

/// Where a slot's shard of the cache at a place of a panel lies.
pub fn of(panel: Region, slot: u32, place: usize) -> *mut Shard {
    panel.in_area(slot, SHARDS + place * size_of::<Shard>())
}

/// The hottest that a cache gets.
pub const HOTTEST: u32 = 7;
/// Close visits that make a step of heat. One burst of a few blocks has fewer; a program at work has hundreds in a row.
const PARTS: u32 = 4;
/// The low bits of a visit's word: the heat, in parts of a step. Above them the time, in units of some 12 µs.
const HEAT_BITS: u32 = (HOTTEST + 1) * PARTS - 1;
const UNIT: u32 = HEAT_BITS + 1;
/// Ticks of the clock, as a power of two, that make the lowest of all bits.
const TICKS_SHIFT: u32 = 10;
/// A visit no later than this after the one before adds a part.
const CLOSE: u32 = UNIT;
/// One later than this takes a part away, as from bursts some 50 µs apart.
const APART: u32 = 4 * UNIT;
/// And one later than this, some 200 µs, a whole step.
const FAR: u32 = 16 * UNIT;

/// The hottest caches look at the clock at one in so many refills only: it costs as much as the rest of a visit. What they see then is the
/// time of so many visits. Where objects only come in, there are no refills to count: there it is one visit in [`PARTS`], counted in what parts
/// there are beyond the hottest.
const GLANCE_AT_CLOCK: u32 = 16;

/// The time, in units of some half of a microsecond; it goes round within half an hour.
#[inline]
pub fn coarse_time() -> u32 {
    coarse_of(clock::ticks()) as u32
}

/// Units from a time until another one, `now`; none, if whoever looked at the clock for that did so a moment before the first was noted: some 30 ms.
pub fn units_since(time: u32, now: u32) -> u32 {
    const MOMENT: u32 = 1 << 16;
    let units = now.wrapping_sub(time);
    if units > u32::MAX - MOMENT { 0 } else { units }
}

/// So many ticks in those units.
#[inline]
pub fn coarse_of(ticks: u64) -> u64 {
    ticks >> TICKS_SHIFT
}

/// Counts a visit to a slow path, a refill of the slot's take array or not; returns the heat of the cache there, up to
/// [`HOTTEST`]: the logarithm of how much more than a few objects it should have at hand, so that visits are some 12 µs or more apart. And the
/// [`coarse_time`], if it was looked at.
///
/// Without the lock: of two threads that come at once, one may not count.
pub fn count_visit(shard: *mut Shard, is_refill: bool) -> (u32, Option<u32>) {
    // SAFETY: a shard of the region; the two words are used by volatile accesses only.
    unsafe {
        let refills = (&raw const (*shard).refills).read_volatile().wrapping_add(is_refill as u32);
        (&raw mut (*shard).refills).write_volatile(refills);
        let word = (&raw const (*shard).heat).read_volatile();
        let (last, parts) = (word & !HEAT_BITS, word & HEAT_BITS);
        if parts / PARTS == HOTTEST {
            if is_refill && !refills.is_multiple_of(GLANCE_AT_CLOCK) {
                return (HOTTEST, None);
            }
            if !is_refill && parts < HEAT_BITS {
                (&raw mut (*shard).heat).write_volatile(last | (parts + 1));
                return (HOTTEST, None);
            }
        }
        let time = coarse_time();
        let now = time & !HEAT_BITS;
        let parts = heated(parts.min(HOTTEST * PARTS), now.wrapping_sub(last));
        (&raw mut (*shard).heat).write_volatile(now | parts);
        (parts / PARTS, Some(time))
    }
}

/// The heat, in parts of a step, after a visit that came so long after the one before. Of a cache that was as hot as can be, many
/// visits were not looked at since.
fn heated(parts: u32, interval: u32) -> u32 {
    match interval {
        0..=CLOSE => (parts + 1).min(HOTTEST * PARTS),
        interval if interval > FAR => parts.saturating_sub(PARTS),
        interval if interval > APART && parts / PARTS < HOTTEST => parts.saturating_sub(1),
        _ => parts,
    }
}

/// How hot a cache is in a slot.
pub fn heat(shard: *const Shard) -> u32 {
    // SAFETY: as above.
    unsafe { ((&raw const (*shard).heat).read_volatile() & HEAT_BITS) / PARTS }
}

/// How long it is since a visit at which the clock was looked at, in the units of [`coarse_time`]: a cache that is used without visits looks like one that
/// nobody uses.
pub fn since_last_visit(shard: *const Shard, now: u32) -> u32 {
    // SAFETY: as above.
    units_since(unsafe { (&raw const (*shard).heat).read_volatile() } & !HEAT_BITS, now)
}

/// The level of its arrays, without the lock: a hint.
#[inline]
pub fn level(shard: *const Shard) -> u8 {
    // SAFETY: as above.
    unsafe { (&raw const (*shard).level).read_volatile() }
}

/// Times that the slot's take array ran out.
#[inline]
pub fn refills(shard: *const Shard) -> u32 {
    // SAFETY: as above.
    unsafe { (&raw const (*shard).refills).read_volatile() }
}

/// How many arrays with objects there are, without the lock: a hint.
pub fn full_count(shard: *const Shard) -> u16 {
    // SAFETY: as above.
    unsafe { (&raw const (*shard).full_count).read_volatile() }
}

/// The topmost of the arrays with objects, without the lock: a hint, as it may be somebody else's by now.
pub fn topmost_full(shard: *const Shard) -> Option<Array> {
    // SAFETY: as above; a stack is one word.
    Array::from_take_word(unsafe { (&raw const (*shard).full).cast::<usize>().read_volatile() })
}

/// Whether there seem to be arrays with objects, without the lock. By the word that makes an array part of the stack: the count may be behind.
pub fn seems_to_hold(shard: *const Shard) -> bool {
    // SAFETY: as above; a stack is one word.
    unsafe { (&raw const (*shard).full).cast::<usize>().read_volatile() != 0 }
}

/// The same of arrays without objects.
pub fn seems_to_keep(shard: *const Shard) -> bool {
    // SAFETY: as above.
    unsafe { (&raw const (*shard).empty).cast::<usize>().read_volatile() != 0 }
}

/// Where a slot's page list lies: in the runtime's region, in the place of the shard of class 0, which is no class.
pub fn page_list(region: Region, slot: u32) -> *mut PageList {
    of(region, slot, 0).cast()
}

/// Where a slot's memory for new arrays is noted: behind its page list.
pub fn uncut(region: Region, slot: u32) -> *mut Uncut {
    // SAFETY: one place of the slot's area has room for it, too.
    unsafe { page_list(region, slot).add(1).cast() }
}

/// What a slot knows of its turns of upkeep: behind that.
pub fn watch(region: Region, slot: u32) -> *mut Watch {
    // SAFETY: as above, for all three.
    unsafe { uncut(region, slot).add(1).cast() }
}

impl Shard {
    /// Arrays that hold no object.
    pub fn empties(&self, region: Region) -> impl Iterator<Item = Array> {
        self.empty.iter(region)
    }

    /// Whether so many of them are kept, or more.
    pub fn keeps_empty(&self, many: usize) -> bool {
        usize::from(self.empty_count) >= many
    }

    /// Whether somebody holds the lock, at some moment.
    pub fn is_held(&self) -> bool {
        self.lock.is_held()
    }
}

/// A shard whose lock is held.
pub struct Held {
    shard: *mut Shard,
    /// The slot that it belongs to.
    pub slot: u32,
}

impl Held {
    /// Locks a slot's shard; a signal handler that must not wait gets the nearest neighbour's that is free.
    pub fn lock(cache: Handle<'_>, slot: u32, site: Site) -> Held {
        let mut other = 0;
        loop {
            let slot = slot ^ other;
            cache.mark_used_in(slot);
            let shard = cache.shard(slot);
            // SAFETY: a shard of the panel.
            match unsafe { (*shard).lock.acquire(&cache.slab().locks().shards, site) } {
                Acquired::WouldDeadlock => other = (other + 1) % slot::MAX as u32,
                acquired => {
                    if other != 0 {
                        slot::count_as_used(slot);
                    }
                    let mut held = Held { shard, slot };
                    if acquired == Acquired::Abandoned {
                        held.repair(cache);
                    }
                    return held;
                }
            }
        }
    }

    /// Locks a slot's shard if nobody holds it.
    pub fn try_lock(cache: Handle<'_>, slot: u32) -> Option<Held> {
        let shard = cache.shard(slot);
        // SAFETY: a shard of the panel. (Made only when the lock is ours: dropping it releases the lock.)
        unsafe { (*shard).lock.try_acquire() }.then(|| Held { shard, slot })
    }

    /// Puts the shard in order after its holder vanished in a fork: its stacks change by single stores, but the count of one, the
    /// ring of spans and the spans themselves may be half-changed.
    #[cold]
    fn repair(&mut self, cache: Handle<'_>) {
        self.full_count = self.full.iter(cache.panel).count() as u16;
        self.empty_count = self.empty.iter(cache.panel).count().min(u8::MAX as usize) as u8;
        self.spans = Spans::new();
        let zone = &cache.slab().zone;
        zone.for_each_span(|span| {
            // SAFETY: spans of this cache that this slot owns are guarded by the lock that we hold.
            unsafe {
                if (*span).cache == cache.number() && (*span).owner() == self.slot {
                    (*span).recount();
                    zone.enter_class(span, cache.class_word());
                    self.spans.insert(span);
                }
            }
        });
    }

    /// As if the slot had never used the cache, which is at its end: its arrays and spans are gone.
    pub fn forget(&mut self) {
        (self.full_count, self.refills, self.heat) = (0, 0, 0);
    }

    /// Keeps an array that holds no object.
    pub fn push_empty(&mut self, region: Region, array: Array) {
        self.empty.push(region, array);
        self.empty_count = self.empty_count.saturating_add(1);
    }

    /// An array that holds no object, if one is kept.
    pub fn pop_empty(&mut self, region: Region) -> Option<Array> {
        let array = self.empty.pop(region)?;
        self.empty_count = self.empty_count.saturating_sub(1);
        Some(array)
    }

    /// All of them.
    pub fn take_empty(&mut self) -> Stack {
        self.empty_count = 0;
        core::mem::replace(&mut self.empty, Stack::new())
    }

    /// Puts an array that holds objects on top.
    pub fn push_full(&mut self, region: Region, array: Array) {
        self.full.push(region, array);
        self.full_count += 1;
    }

    /// Takes an array that holds objects.
    pub fn pop_full(&mut self, region: Region) -> Option<Array> {
        let array = self.full.pop(region)?;
        self.full_count -= 1;
        Some(array)
    }
}

impl Deref for Held {
    type Target = Shard;

    fn deref(&self) -> &Shard {
        // SAFETY: we hold the lock.
        unsafe { &*self.shard }
    }
}

impl DerefMut for Held {
    fn deref_mut(&mut self) -> &mut Shard {
        // SAFETY: we hold the lock.
        unsafe { &mut *self.shard }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: we hold the lock.
        unsafe { (*self.shard).lock.release() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The heat after many rounds of so many visits in quick succession, with pauses of so many units between the rounds.
    fn after_bursts(visits: u32, pause: u32) -> u32 {
        let burst = |parts, _| (1..visits).fold(heated(parts, pause * UNIT), |parts, _| heated(parts, 0));
        (0..1000).fold(0, burst) / PARTS
    }

    #[test]
    fn work_without_pauses_heats_up() {
        assert_eq!(after_bursts(2, 1), HOTTEST);
        assert_eq!(after_bursts(100, 20), HOTTEST);
    }

    #[test]
    fn small_bursts_stay_cold() {
        assert_eq!(after_bursts(2, 5), 0);
        assert_eq!(after_bursts(3, 20), 0);
    }

    #[test]
    fn what_was_hot_cools_down() {
        let after_pauses = |pauses| (0..pauses).fold(HOTTEST * PARTS, |parts, _| heated(parts, FAR + UNIT));
        assert_eq!((after_pauses(1) / PARTS, after_pauses(HOTTEST)), (HOTTEST - 1, 0));
    }

    #[test]
    fn a_hot_cache_that_only_takes_back_is_not_taken_for_deserted() {
        // SAFETY: all-zero memory is a shard.
        let mut shard: Shard = unsafe { core::mem::zeroed() };
        let long_ago = coarse_time().wrapping_sub(1 << 20) & !HEAT_BITS;
        // One refill: not one at which the clock is looked at.
        (shard.heat, shard.refills) = (long_ago | (HOTTEST * PARTS), 1);
        for visit in 1..=PARTS {
            assert!(since_last_visit(&shard, coarse_time()) >= 1 << 20, "before visit {visit}");
            count_visit(&mut shard, false);
        }
        assert!(since_last_visit(&shard, coarse_time()) < 1 << 20);
    }

    #[test]
    fn a_visit_after_the_look_at_the_clock_is_no_old_one() {
        // SAFETY: all-zero memory is a shard.
        let mut shard: Shard = unsafe { core::mem::zeroed() };
        for now in [0, UNIT, 1 << 20, u32::MAX - 1] {
            for (later, since) in [(UNIT, 0), (20 * UNIT, 0), (0_u32.wrapping_sub(1 << 20), 1 << 20)] {
                shard.heat = (now.wrapping_add(later) & !HEAT_BITS) | (HOTTEST * PARTS);
                let found = since_last_visit(&shard, now);
                assert!((since..=since + UNIT).contains(&found), "{found} at {now}, visited {later} later");
            }
        }
    }

    #[test]
    fn heat_and_time_share_a_word() {
        assert_eq!(UNIT.next_power_of_two(), UNIT);
        assert_eq!((HOTTEST * PARTS) & !HEAT_BITS, 0);
    }
}
