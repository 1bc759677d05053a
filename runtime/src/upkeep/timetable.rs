//! The turns of slots, while slots come and go, the interval changes and the clock jumps.
//!
//! Time is counted in *rounds* of one interval. In each round a member has one window, by its rank among the members
//! ([`grid`]), in which it may run once. Slots come and go only between two rounds, so no window is shared
//! (docs/concepts/grid.md draws it).
//!
//! **Distance of runs.** Exactly one interval, while the members stay the same. At a boundary where they change, a
//! member that ran at part a of the old round is due at part b of the new one, (1 − a) + b intervals later: less than
//! two. If that is less than a half, it skips the new round, and is due after 1½ at most. For that the next round must
//! have the same members, so a round that a member skips admits no change for the next. So the distance is always
//! within [½, 2] of an interval. A new interval takes effect at once, and stretches the rest of the round: the number
//! of intervals to a turn stays, partly of old and partly of new ones.
//!
//! A missed turn is gone. A clock that jumps ahead skips turns; after a jump back, turns continue. Users need a lock.

use super::grid;
use crate::percpu::bits;
use machine::slot;

const WORDS: usize = slot::MAX / 64;
/// Phases: the round is above these bits, the passed part of it in them. Lasts for thousands of years.
const ROUND: u64 = 1 << 24;
/// The shortest interval: each slot's window then still has one nanosecond at least.
const SHORTEST_NS: u64 = 1_000_000;
/// The longest: a day.
const LONGEST_NS: u64 = 86_400_000_000_000;
/// A clock that is behind by less than this was read before another thread's later reading.
const LATE_NS: u64 = 1_000_000_000;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Set([u64; WORDS]);

impl Set {
    const EMPTY: Self = Set([0; WORDS]);

    fn has(&self, slot: u32) -> bool {
        self.0[slot as usize / 64] >> (slot % 64) & 1 == 1
    }

    fn insert(&mut self, slot: u32) {
        self.0[slot as usize / 64] |= 1 << (slot % 64);
    }

    fn remove(&mut self, slot: u32) {
        self.0[slot as usize / 64] &= !(1 << (slot % 64));
    }

    fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    fn rank(&self, slot: u32) -> u32 {
        let (word, bit) = (slot as usize / 64, slot % 64);
        let before: u32 = self.0[..word].iter().map(|word| word.count_ones()).sum();
        before + (self.0[word] & ((1 << bit) - 1)).count_ones()
    }

    fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        bits(self.0).map(|slot| slot as u32)
    }
}

/// The turn of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It has its turn until this time.
    UntilNs(u64),
    /// It has none before this time, when it should look again.
    NotBeforeNs(u64),
    /// It is no member, and has not joined.
    None,
}

/// The next task for slots that do not run by themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Errand {
    /// This slot has its turn, until this time; it missed the one before, or looks deserted.
    Serve(u32, u64),
    /// Nothing before this time.
    NotBeforeNs(u64),
    /// Nothing: there are no members.
    None,
}

/// The timetable. All-zero memory has no members and no interval: [`Self::advance`] begins it.
#[derive(Debug)]
#[repr(C)]
pub struct Timetable {
    interval_ns: u64,
    /// When the round began: may be before the clock's start, if the interval was stretched early.
    began_ns: i64,
    /// The time of the last call.
    seen_ns: u64,
    round: u64,
    /// Whether a member skips this round, or may: then the next one has the same members.
    is_settling: bool,
    members: Set,
    /// Members of the next round.
    wanted: Set,
    /// By slot: the phase at which it was due when it last ran; 0: it never did.
    last: [u64; slot::MAX],
}

impl Timetable {
    /// Without members.
    #[expect(clippy::new_without_default, reason = "all-zero memory is one")]
    pub const fn new() -> Self {
        let (members, wanted, last) = (Set::EMPTY, Set::EMPTY, [0; slot::MAX]);
        Timetable { interval_ns: 0, began_ns: 0, seen_ns: 0, round: 0, is_settling: false, members, wanted, last }
    }

    /// Follows the clock, and applies the wanted interval, from a millisecond to a day.
    pub fn advance(&mut self, now_ns: u64, interval_ns: u64) {
        let interval_ns = interval_ns.clamp(SHORTEST_NS, LONGEST_NS);
        // A thread that read the clock a moment ago is late; the clock has not jumped.
        let is_late = now_ns < self.seen_ns && self.seen_ns - now_ns < LATE_NS;
        let now_ns = if is_late { self.seen_ns } else { now_ns };
        let now = now_ns as i64;
        if self.interval_ns == 0 {
            // Slots that never ran have round 0, which is not the one before.
            (self.interval_ns, self.began_ns, self.round) = (interval_ns, now, 2);
        } else if now_ns < self.seen_ns {
            self.began_ns -= (self.seen_ns - now_ns) as i64;
        }
        self.seen_ns = now_ns;
        let rounds = (now - self.began_ns) as u64 / self.interval_ns;
        if rounds > 0 {
            self.round += rounds;
            self.began_ns += (rounds * self.interval_ns) as i64;
            self.turn_over(rounds);
        }
        if interval_ns != self.interval_ns {
            let passed = (now - self.began_ns) as u128 * u128::from(interval_ns) / u128::from(self.interval_ns);
            (self.began_ns, self.interval_ns) = (now - passed as i64, interval_ns);
        }
    }

    fn turn_over(&mut self, rounds: u64) {
        // A member that skipped a past round was due in the last of them.
        let is_free = !self.is_settling || rounds > 1;
        self.is_settling = false;
        if is_free && self.wanted != self.members {
            self.members = self.wanted.clone();
            self.is_settling = self.members.iter().any(|slot| self.skips(slot));
        }
    }

    /// Gives a slot turns, from the next round on; at once, if no other slot has any.
    pub fn join(&mut self, slot: u32) {
        if self.wanted.has(slot) {
            return;
        }
        self.wanted.insert(slot);
        let is_first = self.members.count() == 0 && !self.is_settling;
        if !self.members.has(slot) {
            // It missed nothing yet.
            let before = self.round - u64::from(is_first);
            self.last[slot as usize] = self.last[slot as usize].max(before * ROUND);
        }
        if is_first {
            self.members = self.wanted.clone();
            self.is_settling = self.skips(slot);
        }
    }

    /// Ends a slot's turns with this round.
    pub fn leave(&mut self, slot: u32) {
        self.wanted.remove(slot);
    }

    /// Whether no slot is a member, or will be one.
    pub fn is_empty(&self) -> bool {
        self.members.count() + self.wanted.count() == 0
    }

    /// The slot's turn now.
    pub fn turn(&self, slot: u32) -> Turn {
        let boundary = self.boundary();
        if !self.members.has(slot) {
            return if self.wanted.has(slot) { Turn::NotBeforeNs(boundary) } else { Turn::None };
        }
        let (due, end) = self.window(slot);
        let is_over = self.seen_ns >= end || self.has_run(slot) || self.skips(slot);
        match is_over {
            // In the next round it may have another rank.
            true if self.wanted != self.members => Turn::NotBeforeNs(boundary),
            true => Turn::NotBeforeNs(due + self.interval_ns),
            false if self.seen_ns < due => Turn::NotBeforeNs(due),
            false => Turn::UntilNs(end),
        }
    }

    /// Runs a slot that has its turn, and returns when it was due.
    pub fn run(&mut self, slot: u32) -> u64 {
        debug_assert!(matches!(self.turn(slot), Turn::UntilNs(_)), "slot {slot} runs out of turn");
        self.last[slot as usize] = self.due_phase(slot);
        self.window(slot).0
    }

    /// A slot that has its turn leaves it to the task that serves missed turns.
    pub fn hand_over(&mut self, slot: u32) {
        let long_ago = (self.round - 2) * ROUND;
        self.last[slot as usize] = self.last[slot as usize].min(long_ago);
    }

    /// The next task for slots that missed their turn in the last round, or look deserted. Other slots may look
    /// deserted later, so it asks for a look in each quarter of a round that still has turns.
    pub fn errand(&self, looks_deserted: impl Fn(u32) -> bool) -> Errand {
        if self.is_empty() {
            return Errand::None;
        }
        let boundary = self.boundary();
        let passed = (self.seen_ns as i64 - self.began_ns) as u64;
        let quarter = (1..4).map(|quarter| self.interval_ns / 4 * quarter).find(|&quarter| quarter > passed);
        let quarter = quarter.map_or(boundary, |quarter| self.at(quarter));
        let mut next = boundary;
        for slot in self.members.iter() {
            let (turn, is_served) = (self.turn(slot), self.has_missed(slot) || looks_deserted(slot));
            match turn {
                Turn::UntilNs(end) if is_served => return Errand::Serve(slot, end),
                Turn::NotBeforeNs(due) if is_served => next = next.min(due),
                Turn::NotBeforeNs(due) if due >= boundary => {}
                Turn::UntilNs(_) | Turn::NotBeforeNs(_) => next = next.min(quarter),
                Turn::None => {}
            }
        }
        Errand::NotBeforeNs(next)
    }

    /// The number of the round.
    pub fn round(&self) -> u64 {
        self.round
    }

    fn boundary(&self) -> u64 {
        self.at(self.interval_ns)
    }

    fn at(&self, ns: u64) -> u64 {
        (self.began_ns + ns as i64).max(0) as u64
    }

    fn window(&self, slot: u32) -> (u64, u64) {
        let (rank, members) = (self.members.rank(slot), self.members.count());
        let begins = |rank| self.at(grid::slot_time(self.interval_ns, rank, members));
        (begins(rank), begins(rank + 1))
    }

    /// When a member is due in this round, as a phase.
    fn due_phase(&self, slot: u32) -> u64 {
        let (rank, members) = (self.members.rank(slot), self.members.count());
        self.round * ROUND + u64::from(rank) * ROUND / u64::from(members)
    }

    fn has_run(&self, slot: u32) -> bool {
        self.last[slot as usize] / ROUND == self.round
    }

    fn has_missed(&self, slot: u32) -> bool {
        self.last[slot as usize] / ROUND + 1 < self.round
    }

    /// Whether a member ran so late in the last round that it is not due in this one.
    fn skips(&self, slot: u32) -> bool {
        let last = self.last[slot as usize];
        !self.has_run(slot) && self.due_phase(slot).saturating_sub(last) < ROUND / 2
    }

    /// Checks the timetable's invariants.
    #[doc(hidden)]
    pub fn check_valid(&self) {
        let round = self.began_ns..self.began_ns + self.interval_ns as i64;
        assert!(self.interval_ns == 0 || round.contains(&(self.seen_ns as i64)));
        let late = self.members.iter().filter(|&slot| self.last[slot as usize] / ROUND > self.round);
        assert_eq!(late.count(), 0, "members that ran in rounds to come");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn with(slots: impl Iterator<Item = u32>) -> Timetable {
        let mut table = Timetable::new();
        table.advance(5 * SECOND, SECOND);
        slots.for_each(|slot| table.join(slot));
        table
    }

    #[test]
    fn deserted_slot_is_served_in_its_turn_and_others_later() {
        let mut table = with([3, 70, 1000].into_iter());
        table.run(3);
        let third = |third: u64| 6 * SECOND + third * SECOND / 3;
        let quarter = |quarter: u64| Errand::NotBeforeNs(6 * SECOND + quarter * SECOND / 4);
        for (now, deserted, errand) in [
            (third(0), u32::MAX, quarter(1)),
            (third(0), 70, quarter(1)),
            (third(0), 3, Errand::Serve(3, third(1))),
            (6 * SECOND + SECOND / 4, 1000, quarter(2)),
            (6 * SECOND + SECOND / 2, 1000, Errand::NotBeforeNs(third(2))),
            (third(2), 1000, Errand::Serve(1000, third(3))),
            (third(2) + 1, 70, Errand::NotBeforeNs(7 * SECOND)),
        ] {
            table.advance(now, SECOND);
            assert_eq!(table.errand(|slot| slot == deserted), errand, "{deserted} at {now}");
            if let Errand::Serve(slot, _) = errand {
                table.run(slot);
            }
        }
    }

    #[test]
    fn handed_over_turn_is_served_at_once() {
        let mut table = with(0..2);
        table.run(0);
        table.advance(6 * SECOND, SECOND);
        let later = Errand::NotBeforeNs(6 * SECOND + SECOND / 4);
        assert_eq!(table.errand(|_| false), later);
        table.hand_over(0);
        assert_eq!(table.errand(|_| false), Errand::Serve(0, 6 * SECOND + SECOND / 2));
        table.run(0);
        assert_eq!(table.errand(|_| false), later, "once");
    }

    #[test]
    fn timetable_after_a_clock_jump_follows_the_new_time() {
        let mut table = with(0..2);
        table.advance(6 * SECOND, SECOND);
        table.run(0);
        table.advance(6 * SECOND + SECOND / 4, SECOND);
        table.advance(SECOND, SECOND);
        assert_eq!(table.turn(1), Turn::NotBeforeNs(SECOND + SECOND / 4), "back");
        table.advance(3600 * SECOND + SECOND / 4, SECOND);
        assert_eq!(table.turn(1), Turn::UntilNs(3600 * SECOND + 3 * SECOND / 4), "ahead, by all but an hour");
    }

    #[test]
    fn interval_change_stretches_the_rest_of_the_round() {
        let mut table = with(0..2);
        table.advance(6 * SECOND + SECOND / 4, SECOND);
        table.advance(6 * SECOND + SECOND / 4, 60 * SECOND);
        assert_eq!(table.turn(1), Turn::NotBeforeNs(6 * SECOND + SECOND / 4 + 15 * SECOND));
        table.advance(6 * SECOND + SECOND / 4, SECOND);
        assert_eq!(table.turn(1), Turn::NotBeforeNs(6 * SECOND + SECOND / 2));
    }
}
