//! A thread's own turn: maintenance of a slot by a thread on a slow path there.

use super::state::{OwnTurn, STATE, State, UPKEEP, interval_ns};
use super::step::{Left, give_idle_pages_back};
use super::timetable::Turn;
use crate::caches::{heap, known_at, made_at};
use crate::central::{coarse_of, coarse_time};
use crate::page_heap::PAGE;
use crate::percpu;
use crate::upcalls::From;
use machine::sync::{Ordering, fence};
use machine::{clock, thread};

/// From the first visit in a slot to the first look: 50 ms. This and the following are in coarse time.
const FIRST_LOOK: u32 = coarse_of(50_000_000);
/// To the next part of a turn, and to the next attempt: 100 µs.
const SOON: u32 = coarse_of(100_000);
/// To the next attempt to find a thread that can create a shepherd: 1.5 ms.
const NEXT_MAKER: u32 = coarse_of(1_500_000);
/// To a look that is not needed: three minutes.
const FAR: u32 = coarse_of(180_000_000_000);
/// Most magazines and calls in one part, roughly: for a thread that visits often, and for one that visits seldom.
const LEAST_AT_ONCE: usize = 8;
const MOST_AT_ONCE: usize = 128;
/// A thread that is this many times [`SOON`] late, and finds more to do, leaves the turn to the shepherd.
const SELDOM: u32 = 16;
/// Pages that go back to the kernel in one part without a shepherd: 256 KiB.
const PAGES_AT_ONCE: u64 = (256 << 10) / PAGE as u64;

/// Does what is due in a slot where the calling thread runs, or ran.
pub(crate) fn maintain(slot: u32, from: From) {
    let now = coarse_time();
    let watch = heap().cpu.watch(slot);
    match known_at(&STATE) {
        None if watch.is_fresh() || made_at(&STATE).is_none() => watch.look_at(now.wrapping_add(FIRST_LOOK)),
        None => watch.look_now(),
        // The thread holds a lock, and the work takes others.
        Some(_) if thread::holds_locks() => watch.look_at(now.wrapping_add(SOON)),
        Some(_) if !UPKEEP.is_on() => {
            watch.look_at(now.wrapping_add(FAR));
            // Pairs with the fence in `look_again`: its `look_now` follows our `look_at`, or we see that it is on.
            fence(Ordering::SeqCst);
            if UPKEEP.is_on() {
                watch.look_now();
            }
        }
        Some(state) => {
            percpu::enter();
            let late = watch.lateness(now) / SOON;
            let units = state.take_turn(slot, late);
            // Hot caches begin most turns in a release, where no thread can be created.
            let is_waited_for = !state.try_to_have_shepherd(clock::now_ns(), from);
            let units = if is_waited_for { units.min(NEXT_MAKER) } else { units };
            watch.look_at(coarse_time().wrapping_add(units));
        }
    }
}

impl State {
    /// Does a part of the slot's turn, if it has one. Returns the units of coarse time until the next look.
    fn take_turn(&self, slot: u32, late: u32) -> u32 {
        let now_ns = clock::now_ns();
        let OwnTurn { until_ns: until, place } = &self.turns[slot as usize];
        if until.load(Ordering::Relaxed) <= now_ns {
            let turn = self.with(now_ns, |inside| {
                inside.table.join(slot);
                inside.table.turn(slot)
            });
            match turn {
                // Another thread has the lock, or the slot has just joined.
                None | Some(Turn::None) => return SOON,
                Some(Turn::NotBeforeNs(at)) => {
                    self.shepherd.rouse();
                    return coarse_of(at.saturating_sub(now_ns));
                }
                Some(Turn::UntilNs(end)) => {
                    place.store(0, Ordering::Relaxed);
                    until.store(end, Ordering::Relaxed);
                    self.shepherd.rouse();
                }
            }
        }
        let most = (LEAST_AT_ONCE * (1 + late as usize)).min(MOST_AT_ONCE);
        if self.reclaim_own(slot, most) {
            if late >= SELDOM && self.shepherd.is_there() {
                self.with(now_ns, |inside| inside.table.hand_over(slot));
                self.shepherd.ring();
            }
            return SOON;
        }
        until.store(0, Ordering::Relaxed);
        self.counts.own.count();
        if self.subreleased.load(Ordering::Relaxed) > 0 {
            self.shepherd.ring();
        }
        let next = self.with(clock::now_ns(), |inside| {
            if matches!(inside.table.turn(slot), Turn::UntilNs(_)) {
                inside.table.run(slot);
            }
            inside.table.turn(slot)
        });
        match next {
            Some(Turn::NotBeforeNs(at)) => coarse_of(at.saturating_sub(now_ns)),
            _ => SOON,
        }
    }

    /// Does the next part. Returns whether there is more.
    fn reclaim_own(&self, slot: u32, most: usize) -> bool {
        let began = clock::now_ns();
        let idle = coarse_of(interval_ns() / 2);
        let place_of_turn = &self.turns[slot as usize].place;
        let from = place_of_turn.load(Ordering::Relaxed);
        let done = self.freeing_idle_pages(|| heap().cpu.reclaim_own(slot, from, most, idle));
        let Some((done, place)) = done else { return true };
        place_of_turn.store(place, Ordering::Relaxed);
        self.count_reclaimed(done);
        let does_more =
            || self.subrelease().is_some() || give_idle_pages_back(self, began, PAGES_AT_ONCE) == Left::Some;
        let is_more = done.is_more || (!self.shepherd.is_there() && does_more());
        self.counts.longest_ns.raise(clock::now_ns() - began);
        is_more
    }
}
