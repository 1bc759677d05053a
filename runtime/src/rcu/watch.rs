//! Watching slots: how a grace period does without a kick if threads read in all of them.
//!
//! ```text
//!   updater   unlink ─▶ turn: publish the new row's address ─▶ see begun + 1 in the new row ─▶ is the old row quiet?
//!   slot         … old row: begin, end, begin ─▶ load the new row's address ─▶ begun + 1 ─▶ read
//! ```
//!
//! A slot *shows itself* when a thread counts a begin in the row whose address the last turn published. That thread has
//! loaded the address after the turn. So its reads find nothing that was unlinked before, and neither do the reads of
//! all later sections in the slot. If we see this begin, we also see the slot's earlier begins and ends in the old row,
//! and no begin is added there any more. So the old row can be judged without a fence.
//!
//! **No false shows.** A thread may load an address and count there two turns later, which looks like a show. So a slot
//! is watched only if it has *followed* the turn before: a thread has shown itself there since, or a kick has aborted
//! each begin in flight. From then until the next turn, no begin is added to the row of the unused period. Its begins
//! are noted. After the next turn, any other number is a show. A grace period begins with a kick unless all slots have
//! shown themselves since the last turn.
//!
//! **Order.** This needs loads and stores that keep their order ([`KEEPS_ORDER`]): the begin comes after those in the
//! old row, and the reads come after the load of the address. Elsewhere readers would have to load the address by
//! acquire and count by release. The kernel orders a slot's threads, and aborts a begin when it switches threads.
//!
//! **Threads that count beside** may load the address long before they count. But their addition is locked, and so a
//! full fence. If it comes after our look at the word, the section finds nothing old. Else we see it: in the old row it
//! is waited for. In the new row, a number other than the noted one keeps the slot from being judged by its show.

use super::sections::{Place, Sections};
use crate::settings::Key;
use machine::slot;
use machine::sync::{KEEPS_ORDER, Ordering, order_reads};

const WATCH_SLOTS: Key = Key::of("rcu.watch_slots");

/// For each slot. A kick takes a microsecond for each CPU, and as long from the thread that runs there.
const PATIENCE_NS: u64 = 2000;

impl Sections {
    pub(super) fn are_watchable(&self) -> bool {
        KEEPS_ORDER && u64::from(self.slots()) >= WATCH_SLOTS.get()
    }

    pub(super) fn patience_ns(&self) -> u64 {
        u64::from(self.slots()) * PATIENCE_NS
    }

    /// Whether all slots have shown themselves since the last turn, so that they may be watched from the next one on.
    /// Begins with the slot where the last answer was no: often no thread reads there.
    pub(super) fn have_all_shown(&self) -> bool {
        let (slots, last) = (self.slots(), &self.turns.unshown);
        let first = last.load(Ordering::Relaxed);
        let unshown = (first..slots).chain(0..first).find(|&slot| !self.has_shown(slot));
        last.store(unshown.unwrap_or(0), Ordering::Relaxed);
        unshown.is_none()
    }

    /// Whether a slot has shown itself since the last turn, and its sections in the old row are over. Once that is so,
    /// it stays so until the next turn.
    pub(super) fn has_shown(&self, slot: u32) -> bool {
        let (turn, period) = (self.turns(), self.period());
        let [seen_turn, seen_begun, seen_beside] = self.seen_of(slot);
        if seen_turn == turn {
            return true;
        }
        let new = self.row(slot, period);
        // Acquire pairs with the addition in `slot::count`, a release where stores keep their order. If we see it, we
        // see the slot's earlier begins and ends in the old row. Else the slot is looked at again.
        let has_begun = || new.begun.load(Ordering::Acquire) != seen_begun || is_here(slot);
        seen_turn + 1 == turn
            && has_begun()
            // Acquire pairs with the fence of `order_readers`: see above. It orders nothing.
            && new.begun_beside.load(Ordering::Acquire) == seen_beside
            && self.is_quiet_and_noted(slot)
    }

    /// Whether the sections in the old row are over, for a slot that has followed the last turn.
    pub(super) fn is_quiet_and_noted(&self, slot: u32) -> bool {
        let (old, seen) = (self.row(slot, 1 - self.period()), self.seen(slot));
        // Before the look at the row: a section that begins beside afterwards makes the number differ.
        let begun_beside = old.begun_beside.load(Ordering::Acquire);
        let is_quiet = self.is_quiet(Place::Slot(slot), 1 - self.period());
        if is_quiet {
            seen.turn.store(self.turns(), Ordering::Relaxed);
            seen.begun.store(old.begun.load(Ordering::Relaxed), Ordering::Relaxed);
            seen.begun_beside.store(begun_beside, Ordering::Relaxed);
        }
        is_quiet
    }

    /// The turn that a slot has followed, and the counts noted then. All slots have followed the turn before the one
    /// with which rows were made, and counted nothing. Older notes are about the rows of a fork child's parent.
    fn seen_of(&self, slot: u32) -> [u64; 3] {
        let (seen, first) = (self.seen(slot), self.first_turn());
        match seen.turn.load(Ordering::Relaxed) {
            turn if turn < first => [first - 1, 0, 0],
            turn => [turn, seen.begun.load(Ordering::Relaxed), seen.begun_beside.load(Ordering::Relaxed)],
        }
    }
}

/// Whether the calling thread is in this slot. Then the slot has followed the last turn: we see the counts of threads
/// that were there before, and threads that come later see the turn, as the kernel orders a slot's threads.
fn is_here(slot: u32) -> bool {
    let is_here = slot::current_if_given() == Some(slot);
    // The counts are read after that moment, even if we have left the slot by then.
    order_reads();
    is_here
}
