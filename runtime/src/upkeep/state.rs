//! The state of upkeep, of its shepherd, and the report on both: one value for the process, made at its first use, so
//! that short-lived processes have none.
//!
//! Any threads run this at the same time. A lock without waiters protects the inside; threads that fail try again soon.

use super::decay::{Decay, FEW_RUNS, LEAST_PATIENCE};
use super::timetable::Timetable;
use crate::caches::{heap, known_at};
use crate::central::{coarse_time, units_since};
use crate::layout::{HeaderWord, header};
use crate::observe::Events;
use crate::page_heap::PAGE;
use crate::percpu;
use crate::settings::Key;
use core::cell::UnsafeCell;
use machine::sync::{AtomicPtr, AtomicU32, AtomicU64, Lock, Ordering, fence, spin_loop, wake_one};
use machine::thread::{self, FIRST_GENERATION};
use machine::{clock, here, root, slot};

/// Above all others: the holder takes no other lock.
const UPKEEP_RANK: u8 = 7;
const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MILLISECOND;
const MIB_PAGES: u64 = (1 << 20) / PAGE as u64;

pub(super) const UPKEEP: Key = Key::of("upkeep");
const INTERVAL: Key = Key::of("upkeep.interval_ms");
const BUDGET: Key = Key::of("upkeep.budget_mib");

/// The state. All-zero memory is its beginning.
#[repr(C, align(64))]
pub(super) struct State {
    pub(super) shepherd: Shepherd,
    pub(super) counts: Counts,
    /// Progress of the subrelease walk over the heap, plus one; 0: there is nothing to do.
    pub(super) subreleased: AtomicU64,
    /// When to begin the walk again, because it met objects of recently used caches; 0: it met none.
    pub(super) subrelease_again_ns: AtomicU64,
    /// The round of the last look whether memory is short, and its result.
    pub(super) looked_in: AtomicU64,
    pub(super) shortage: AtomicU32,
    lock: Lock<UPKEEP_RANK>,
    inside: UnsafeCell<Inside>,
    pub(super) turns: [OwnTurn; slot::MAX],
}

/// The progress of a slot's turn.
#[repr(C)]
pub(super) struct OwnTurn {
    /// When the turn ends, in nanoseconds; 0: no turn is in progress.
    pub(super) until_ns: AtomicU64,
    /// Number of caches already examined in it.
    pub(super) place: AtomicU32,
}

// SAFETY: the inside is used under the lock; the rest is atomic, or constant.
unsafe impl Sync for State {}

#[repr(C)]
pub(super) struct Inside {
    pub(super) decay: Decay,
    pub(super) allowance: Allowance,
    pub(super) table: Timetable,
    /// When the last look was, in coarse time, and the runs that slow paths without runs count as.
    looked_at: u32,
    slow_paths: u64,
}

impl Inside {
    /// Runs that slow paths count as: enough for a process that works, if there was any since the last call. Most find
    /// what they need in depots and spans, and take no run.
    pub(super) fn count_slow_paths(&mut self) -> u64 {
        let (now, mut watches) = (coarse_time(), (0..slot::in_use()).map(|slot| heap().cpu.watch(slot)));
        let since = units_since(self.looked_at, now);
        if watches.any(|watch| watch.since_last_visit(now) < since) {
            self.slow_paths += FEW_RUNS + 1;
        }
        self.looked_at = now;
        self.slow_paths
    }
}

/// As in [`Report`](super::Report).
#[repr(C)]
pub(super) struct Counts {
    pub(super) own: Events,
    pub(super) deserted: Events,
    pub(super) arrays: Events,
    pub(super) spans: Events,
    pub(super) calls: Events,
    pub(super) pages: Events,
    pub(super) refused: Events,
    pub(super) longest_ns: Events,
}

/// The number of pages that may go back now, by the budget per second.
#[repr(C)]
pub(super) struct Allowance {
    since_ns: u64,
    pages: u64,
}

impl Allowance {
    /// Adds the budget of the time since the last look, at most a quarter of a second, so that no storm follows a rest.
    pub(super) fn refill(&mut self, now_ns: u64, pages_per_second: u64) -> u64 {
        let passed = now_ns.saturating_sub(self.since_ns).min(SECOND / 4);
        let more = passed * pages_per_second / SECOND;
        if more > 0 || now_ns < self.since_ns {
            self.since_ns = now_ns;
            self.pages = (self.pages + more).min(pages_per_second.div_ceil(4));
        }
        self.pages
    }

    pub(super) fn take(&mut self, pages: u64) {
        self.pages = self.pages.saturating_sub(pages);
    }
}

// SAFETY: zeroes are null, and a valid state; these bytes are only used here.
pub(super) const STATE: HeaderWord<AtomicPtr<State>> = unsafe { HeaderWord::at(header::UPKEEP) };

impl State {
    /// Does `work` after an event that must be noted. A failure after some microseconds of attempts does little harm.
    pub(super) fn note(&self, now_ns: u64, work: impl Fn(&mut Inside)) {
        const TRIES: u32 = 1000;
        for _ in 0..TRIES {
            if self.with(now_ns, &work).is_some() {
                return;
            }
            spin_loop();
        }
    }

    pub(super) fn pages_per_second(&self) -> u64 {
        BUDGET.get() * MIB_PAGES
    }

    /// Runs `work` under the lock. None: another thread has it.
    pub(super) fn with<R>(&self, now_ns: u64, work: impl FnOnce(&mut Inside) -> R) -> Option<R> {
        let is_ours = self.lock.try_acquire();
        let is_inherited = !is_ours && self.lock.try_inherit();
        if !is_ours && !is_inherited {
            return None;
        }
        if root::is_installed() {
            self.lock.measure_hold(&heap().locks().upkeep, here!());
        }
        // SAFETY: this thread holds the lock.
        let inside = unsafe { &mut *self.inside.get() };
        if is_inherited {
            // The holder vanished in a fork in the middle of a change: slots join again.
            inside.table = Timetable::new();
            inside.decay = Decay::NEW;
        }
        inside.table.advance(now_ns, interval_ns());
        let result = work(inside);
        // SAFETY: acquired above.
        unsafe { self.lock.release() };
        Some(result)
    }
}

pub(crate) fn interval_ns() -> u64 {
    INTERVAL.get() * MILLISECOND
}

pub(super) const NONE: u32 = 0;
pub(super) const AWAKE: u32 = 1;
pub(super) const IDLE: u32 = 2;
/// It finishes, and another one may be created.
pub(super) const ENDING: u32 = 3;
/// An upper bound of the time for its last instructions.
pub(super) const MOMENT_NS: u64 = 10_000_000;

/// The shepherd's state. All zeroes: there is none.
#[repr(C)]
pub(super) struct Shepherd {
    /// The generation, times four, plus the state.
    pub(super) state: AtomicU32,
    /// Changes to wake it up.
    pub(super) bell: AtomicU32,
    /// When it can be created, in nanoseconds of the clock.
    pub(super) not_before_ns: AtomicU64,
    /// The first thread that wanted it, below the generation of the process.
    first: AtomicU64,
    /// When it ended, except for its last instructions.
    pub(super) ended_ns: AtomicU64,
}

/// Bits of an identity that are compared.
const IDENTITY: u32 = 40;

pub(super) fn marked(state: u32) -> u32 {
    thread::generation() << 2 | state
}

impl Shepherd {
    pub(super) fn state(&self) -> u32 {
        let word = self.state.load(Ordering::Relaxed);
        if word >> 2 == thread::generation() { word & 3 } else { NONE }
    }

    pub(super) fn is_there(&self) -> bool {
        matches!(self.state(), AWAKE | IDLE)
    }

    /// Whether forks allow its creation. The C library's locks are in order in a child that has created a thread. After
    /// `_Fork` or the bare system call, vanished threads may hold them. So a child needs two threads first.
    pub(super) fn is_possible_in_child(&self) -> bool {
        let generation = thread::generation();
        if generation == FIRST_GENERATION {
            return true;
        }
        let mine = u64::from(generation) << IDENTITY | (thread::identity() & ((1 << IDENTITY) - 1));
        // Relaxed: a thread that misses another one asks again.
        let first = self.first.load(Ordering::Relaxed);
        if first >> IDENTITY != u64::from(generation) {
            self.first.store(mine, Ordering::Relaxed);
        }
        first >> IDENTITY == u64::from(generation) && first != mine
    }

    /// Wakes it if it is idle. The caller has left work for it before.
    pub(super) fn rouse(&self) {
        // Pairs with the fence in `rest`: if ours is first, it sees the work; otherwise we see that it is idle.
        fence(Ordering::SeqCst);
        if self.state() == IDLE
            && self.state.compare_exchange(marked(IDLE), marked(AWAKE), Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            self.ring();
        }
    }

    /// Makes it look at once.
    pub(super) fn ring(&self) {
        self.bell.fetch_add(1, Ordering::SeqCst);
        wake_one(&self.bell);
    }

    /// Whether it is about to end, also for the kernel, or has just ended.
    pub(super) fn is_going(&self) -> bool {
        self.state() == ENDING || clock::now_ns().saturating_sub(self.ended_ns.load(Ordering::Relaxed)) < MOMENT_NS
    }
}

/// Statistics of upkeep so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// Whether upkeep is on.
    pub is_on: bool,
    /// Whether there is a shepherd.
    pub has_shepherd: bool,
    /// Turns that threads took in their own slots.
    pub own_turns: u64,
    /// Turns taken for deserted slots.
    pub deserted_turns: u64,
    /// Magazines emptied.
    pub arrays: u64,
    /// Spans moved from page lists to the page heap.
    pub spans: u64,
    /// Bytes returned to the kernel.
    pub bytes: u64,
    /// Calls that returned them.
    pub calls: u64,
    /// Calls that found no pages, or that the kernel refused.
    pub refused: u64,
    /// The longest single piece of work, including waits for locks, in nanoseconds.
    pub longest_ns: u64,
    /// Intervals that pages must be idle for before they go back.
    pub patience: u32,
}

impl Report {
    /// Reads the statistics: each figure is exact; together they are exact at rest.
    pub fn read() -> Report {
        let Some(state) = known_at(&STATE) else {
            return Report { is_on: UPKEEP.is_on(), patience: LEAST_PATIENCE, ..Report::default() };
        };
        // Makes a new child notice the fork.
        percpu::enter();
        let counts = &state.counts;
        Report {
            is_on: UPKEEP.is_on(),
            has_shepherd: state.shepherd.is_there(),
            own_turns: counts.own.get(),
            deserted_turns: counts.deserted.get(),
            arrays: counts.arrays.get(),
            spans: counts.spans.get(),
            bytes: counts.pages.get() * PAGE as u64,
            calls: counts.calls.get(),
            refused: counts.refused.get(),
            longest_ns: counts.longest_ns.get(),
            // 0: another thread has the lock.
            patience: state.with(clock::now_ns(), |inside| inside.decay.patience()).unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allowance_grows_with_time_up_to_a_bound() {
        let mut allowance = Allowance { since_ns: 0, pages: 0 };
        assert_eq!(allowance.refill(100 * SECOND, 1000), 250, "a rest of a hundred seconds");
        allowance.take(200);
        assert_eq!(allowance.refill(100 * SECOND + SECOND / 10, 1000), 150);
        allowance.take(1000);
        assert_eq!(allowance.refill(100 * SECOND + SECOND / 10 + 10, 1000), 0);
        // Short times are not lost.
        let pages = (1..=1000).map(|step| allowance.refill(100 * SECOND + SECOND / 10 + step * MILLISECOND / 10, 1000));
        assert_eq!(pages.last(), Some(100));
    }
}
