//! The counts of sections: rows of slots, and lanes.
//!
//! ```text
//!   counts ─▶ │ period 0: begun, ended, ended elsewhere, begun beside │ period 1: … │   slot 0    two lines for each
//!             │                                                       │             │   slot 1
//!
//!   lanes     │ period 0: begun, ended │ period 1: … │   each marked with the generation of the process
//! ```
//!
//! If the kernel gives concurrency ids and grants kicks, a thread counts its sections in the row of its slot, by
//! restartable additions. It takes a locked addition if it has left the slot before the section ends, or if it gets no
//! restartable section to its end. Else threads count in *lanes*, by locked instructions, and so do threads that have
//! no slot.
//!
//! A fork child does not use rows as long as it has inherited sections (`domain`): their ends may still be counted
//! there. In lanes, additions that carry the mark of another generation fail. If one fails, its section was open when
//! the thread forked, and is inherited.

use core::mem::offset_of;
use core::ptr::null_mut;
use machine::slot::{self, COUNTS, Counted, Mode};
use machine::sync::{AtomicPtr, AtomicU32, AtomicU64, Ordering, order_after_change};
use machine::{kick, thread, vm};

const LANES: usize = 16;
/// Bits of a lane's word that count; its mark is above them.
const COUNT: u64 = u32::MAX as u64;

/// States of rows: whether threads count there.
const UNTRIED: u32 = 0;
const USED: u32 = 1;
const REFUSED: u32 = 2;
/// As long as there are inherited sections.
const RESTING: u32 = 3;

/// In [`Counted::slot`], with the generation below it: the section was counted in a lane.
const IN_LANE: u32 = 1 << 31;

/// For an open section that is not counted anywhere, as it is inherited.
const UNCOUNTED: Counted = Counted { at: null_mut(), slot: IN_LANE };

/// The counts of the process's sections. Zeroes are valid: no section was ever opened.
#[repr(C)]
pub(super) struct Sections {
    rows: AtomicU32,
    slots: AtomicU32,
    /// Slot 0's row of the period in which new sections are counted. Ready threads read it.
    counts: AtomicPtr<Row>,
    /// Slot 0's row of period 0; null before there are any. Before the rows lies a `Seen` for each slot, downwards.
    all_counts: AtomicPtr<Row>,
    /// A bit for each lane in which a section was ever counted.
    used_lanes: AtomicU32,
    pub(super) turns: Turns,
    lanes: [Lane; LANES],
}

/// Not in the line that ready threads read: a turn takes that away from all of them, but only once.
#[repr(C, align(64))]
pub(super) struct Turns {
    /// How often the period changed. If odd, new sections are counted in period 1, else in period 0.
    count: AtomicU64,
    /// The same when rows were last made, or zeroed in a fork child.
    first: AtomicU64,
    /// A slot that had not shown itself when slots were last looked at.
    pub(super) unshown: AtomicU32,
}

/// Sections that are not counted in rows.
#[repr(C, align(64))]
struct Lane([Marked; 2]);

/// Marked with the generation in the upper half.
#[repr(C)]
struct Marked {
    begun: AtomicU64,
    ended: AtomicU64,
}

/// A slot's sections of one period.
#[repr(C)]
pub(super) struct Row {
    /// By restartable additions only, as `ended`.
    pub(super) begun: AtomicU64,
    ended: AtomicU64,
    ended_elsewhere: AtomicU64,
    /// By threads that get no section to its end.
    pub(super) begun_beside: AtomicU64,
}

/// The last turn that a slot has followed, and the counts in the row of the period unused since, which stay the same
/// until the next turn but for threads that count beside. Zeroes: nothing is known. Relaxed, as only grace periods use
/// it, under their lock. Readers do not touch these lines.
#[repr(C)]
pub(super) struct Seen {
    pub(super) turn: AtomicU64,
    pub(super) begun: AtomicU64,
    pub(super) begun_beside: AtomicU64,
}

pub(super) const TO_END: i32 = offset_of!(Row, ended) as i32;
const _: () = assert!(2 * size_of::<Row>() <= COUNTS);
const _: () = assert!(offset_of!(Row, begun_beside) == slot::COUNTED_BESIDE);

/// A place where sections are counted, as grace periods look at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Lane(usize),
    Slot(u32),
}

impl Sections {
    /// Counts a section that opens in the row of the thread's slot.
    /// Safety: the thread is ready: it has a slot, and there are counts for all possible ones.
    #[inline(always)]
    pub(super) unsafe fn begin_in_row(&self) -> Counted {
        // SAFETY: passed on.
        unsafe { slot::count(&self.counts) }
    }

    /// Marks lanes with this generation of the process, before any of its sections is counted there.
    pub(super) fn mark_lanes(&self) {
        let mark = mark();
        for word in self.lanes.iter().flat_map(|lane| &lane.0).flat_map(|words| [&words.begun, &words.ended]) {
            word.store(mark, Ordering::Relaxed);
        }
    }

    pub(super) fn rest_rows(&self) {
        let _ = self.rows.compare_exchange(USED, RESTING, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Zeroes the rows for new use, after the last inherited section: no thread will count in the old ones.
    pub(super) fn use_rows_again(&self) {
        if self.rows.load(Ordering::Relaxed) == RESTING {
            let counts = self.all_counts.load(Ordering::Relaxed).cast();
            // SAFETY: the rows' words, which nothing uses.
            unsafe { vm::zero(counts, self.slots() as usize * COUNTS) };
            // Untried: the thread that has the lock of grace periods lets readers in.
            self.rows.store(UNTRIED, Ordering::Release);
        }
    }

    pub(super) fn are_rows_untried(&self) -> bool {
        self.rows.load(Ordering::Acquire) == UNTRIED
    }

    /// Lets readers use rows, if possible. Only while that is untried, and under the lock of grace periods.
    pub(super) fn try_rows(&self) {
        let outcome = if self.has_rows() { USED } else { REFUSED };
        // The same period: what was noted of older rows becomes worthless.
        let turn = self.turns() + 2;
        self.turns.count.store(turn, Ordering::Relaxed);
        self.turns.first.store(turn, Ordering::Relaxed);
        self.counts.store(self.rows_of(self.period()), Ordering::Relaxed);
        // Release pairs with the acquire in `uses_rows`: a thread that uses the rows finds them, and finds them zeroed.
        self.rows.store(outcome, Ordering::Release);
    }

    #[cold]
    fn has_rows(&self) -> bool {
        slot::initialise();
        if slot::mode() != Mode::ConcurrencyId || kick::register().is_err() || !thread::notice_forks() {
            return false;
        }
        if self.all_counts.load(Ordering::Relaxed).is_null() {
            let Some(counts) = rows_for(slot::most(), slot::possible()) else { return false };
            self.slots.store(slot::most() as u32, Ordering::Relaxed);
            self.all_counts.store(counts, Ordering::Relaxed);
        }
        true
    }

    /// Whether readers may count in rows at this moment. Stays as it is while the caller has the lock of grace periods.
    pub(super) fn uses_rows(&self) -> bool {
        self.rows.load(Ordering::Acquire) == USED
    }

    /// Whether no section is open, and none opens without a locked instruction. Under the lock of grace periods.
    pub(super) fn are_unused(&self) -> bool {
        self.rows.load(Ordering::Relaxed) == UNTRIED && self.used_lanes.load(Ordering::SeqCst) == 0
    }

    fn rows_of(&self, period: usize) -> *mut Row {
        self.all_counts.load(Ordering::Relaxed).wrapping_add(period)
    }

    /// From now on new sections are counted in the other period. Under the lock of grace periods.
    pub(super) fn turn(&self) {
        self.turns.count.store(self.turns() + 1, Ordering::Relaxed);
        // Release pairs with the load in `slot::count`, an acquire where loads keep their order: what was unlinked
        // before the grace period that turns here is unlinked for threads that count there.
        self.counts.store(self.rows_of(self.period()), Ordering::Release);
    }

    /// The period in which new sections are counted. Changes under the lock of grace periods only.
    pub(super) fn period(&self) -> usize {
        (self.turns() & 1) as usize
    }

    pub(super) fn turns(&self) -> u64 {
        self.turns.count.load(Ordering::Relaxed)
    }

    pub(super) fn first_turn(&self) -> u64 {
        self.turns.first.load(Ordering::Relaxed)
    }

    pub(super) fn slots(&self) -> u32 {
        self.slots.load(Ordering::Relaxed)
    }

    pub(super) fn places(&self) -> usize {
        LANES + if self.uses_rows() { self.slots() as usize } else { 0 }
    }

    pub(super) fn place(&self, number: usize) -> Place {
        number.checked_sub(LANES).map_or(Place::Lane(number), |slot| Place::Slot(slot as u32))
    }

    pub(super) fn row(&self, slot: u32, period: usize) -> &Row {
        let at = self.rows_of(period).wrapping_byte_add(slot as usize * COUNTS);
        // SAFETY: every possible slot has its counts, which are never unmapped; only atomics and restartable additions
        // change them.
        unsafe { &*at }
    }

    pub(super) fn seen(&self, slot: u32) -> &Seen {
        let end = self.all_counts.load(Ordering::Relaxed).cast::<Seen>();
        // SAFETY: every slot that is looked at has one before the counts, which is never unmapped.
        unsafe { &*end.wrapping_sub(slot as usize + 1) }
    }

    /// Whether a place and period has no open section that a grace period must wait for. Under the lock of grace
    /// periods, except for reports.
    ///
    /// Ends are loaded first, by acquire, and each is a release behind its begin. So a look that sees an end here sees
    /// its begin below, and the reads in the section come before. The other way round, a section that begins and ends
    /// in between would make up for one that is open. The kernel orders a slot's threads: a look that sees the last
    /// one's end sees those before it.
    pub(super) fn is_quiet(&self, place: Place, period: usize) -> bool {
        match place {
            Place::Lane(number) if self.used_lanes.load(Ordering::Relaxed) & 1 << number == 0 => true,
            Place::Lane(number) => {
                let words = &self.lanes[number].0[period];
                // Acquire pairs with the release in `end_elsewhere`. The second one orders nothing.
                let ended = words.ended.load(Ordering::Acquire);
                words.begun.load(Ordering::Acquire) == ended
            }
            Place::Slot(slot) => {
                let row = self.row(slot, period);
                // Acquire, both, pairs with the releases of `slot::count_in` and `end_elsewhere`. The begins order
                // nothing.
                let ended = row.ended.load(Ordering::Acquire).wrapping_add(row.ended_elsewhere.load(Ordering::Acquire));
                row.begun.load(Ordering::Acquire).wrapping_add(row.begun_beside.load(Ordering::Acquire)) == ended
            }
        }
    }

    /// Counts a section that opens in a lane, after its thread's level went down; or the section is inherited by now.
    /// If the thread forked in between, and this is the child, it may be both, and is waited for twice.
    pub(super) fn begin_in_lane(&self) -> Counted {
        let mark = mark();
        // A lane for each slot, as far as there are enough; the first one for threads without a slot.
        let (lane, period) = (slot::current_if_given().unwrap_or(0) as usize % LANES, self.period());
        if self.used_lanes.load(Ordering::Relaxed) & 1 << lane == 0 {
            // SeqCst: see `are_unused`.
            self.used_lanes.fetch_or(1 << lane, Ordering::SeqCst);
        }
        let word = &self.lanes[lane].0[period].begun;
        let is_counted = add(word, mark, Ordering::SeqCst);
        // Pairs with the fence of a grace period: if that comes first, the section does not find what was unlinked
        // before; if this one does, the period sees the section.
        order_after_change();
        if !is_counted {
            return UNCOUNTED;
        }
        Counted { at: word.as_ptr().cast(), slot: IN_LANE | (mark >> 32) as u32 }
    }
}

/// Slot 0's row among rows for all possible slots, behind notes on those that are looked at. None: no address space.
fn rows_for(slots: usize, possible: usize) -> Option<*mut Row> {
    let seen = (slots * size_of::<Seen>()).next_multiple_of(COUNTS);
    let bytes = (seen + possible * COUNTS).next_multiple_of(vm::PAGE);
    vm::reserve(null_mut(), bytes, vm::Access::ReadWrite).map(|memory| memory.wrapping_add(seen).cast())
}

fn mark() -> u64 {
    u64::from(thread::generation() & !IN_LANE) << 32
}

/// Ends a section that could not end by a restartable addition.
#[cold]
pub(super) fn end_elsewhere(counted: Counted) {
    if counted.at.is_null() {
        return;
    }
    // Release pairs with the acquires in `is_quiet`: the reads in the section come before.
    if counted.slot & IN_LANE != 0 {
        let mark = u64::from(counted.slot & !IN_LANE) << 32;
        // SAFETY: it was counted in a lane, of which it is the first word.
        let words = unsafe { &*counted.at.cast::<Marked>() };
        // If this fails, it is an inherited section, and no lane knows of it.
        add(&words.ended, mark, Ordering::Release);
    } else {
        // SAFETY: it was counted in a row.
        let row = unsafe { &*counted.at.cast::<Row>() };
        row.ended_elsewhere.fetch_add(1, Ordering::Release);
    }
}

/// Adds one to a word of a lane; false if it has another mark.
fn add(word: &AtomicU64, mark: u64, order: Ordering) -> bool {
    let next = |seen: u64| (seen & !COUNT == mark).then(|| mark | (seen.wrapping_add(1) & COUNT));
    word.fetch_update(order, Ordering::Relaxed, next).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A slot that no test's thread is in.
    const SLOT: u32 = 999;
    const SLOTS: usize = 1000;

    fn sections() -> Sections {
        let counts = rows_for(SLOTS, SLOTS).expect("there is memory");
        // SAFETY: zeroes are valid.
        let sections: Sections = unsafe { core::mem::zeroed() };
        sections.slots.store(SLOTS as u32, Ordering::Relaxed);
        sections.all_counts.store(counts, Ordering::Relaxed);
        sections.turns.count.store(2, Ordering::Relaxed);
        sections.turns.first.store(2, Ordering::Relaxed);
        sections
    }

    fn read(sections: &Sections, period: usize) {
        let row = sections.row(SLOT, period);
        row.begun.fetch_add(1, Ordering::Relaxed);
        row.ended.fetch_add(1, Ordering::Relaxed);
    }

    #[test]
    fn slot_shows_itself_by_a_begin_after_the_turn_once_older_sections_are_over() {
        let sections = sections();
        assert!(!sections.has_shown(SLOT), "nothing was counted");
        read(&sections, 0);
        assert!(sections.has_shown(SLOT));
        sections.row(SLOT, 0).begun.fetch_add(1, Ordering::Relaxed);
        sections.turn();
        assert!(!sections.has_shown(SLOT), "nothing was counted since the turn");
        read(&sections, 1);
        assert!(!sections.has_shown(SLOT), "an older section is open");
        sections.row(SLOT, 0).ended.fetch_add(1, Ordering::Relaxed);
        assert!(sections.has_shown(SLOT));
    }

    #[test]
    fn late_begin_with_the_address_of_an_earlier_turn_is_no_show() {
        let sections = sections();
        read(&sections, 0);
        assert!(sections.has_shown(SLOT));
        // Another thread has loaded the address of period 0.
        sections.turn();
        assert!(!sections.have_all_shown(), "the next turn must not be watched");
        sections.turn();
        read(&sections, 0);
        assert!(!sections.has_shown(SLOT), "that begin was late");
        assert!(sections.is_quiet_and_noted(SLOT), "a kick has aborted all begins in flight");
        sections.turn();
        read(&sections, 1);
        assert!(sections.has_shown(SLOT));
    }

    #[test]
    fn section_that_began_beside_in_the_new_row_keeps_its_slot_from_showing_itself() {
        let sections = sections();
        read(&sections, 0);
        assert!(sections.has_shown(SLOT));
        sections.row(SLOT, 1).begun_beside.fetch_add(1, Ordering::Relaxed);
        sections.turn();
        read(&sections, 1);
        assert!(!sections.has_shown(SLOT), "the section may have begun before the turn");
    }
}
