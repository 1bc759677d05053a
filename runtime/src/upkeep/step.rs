//! One bounded step of the work for deserted slots, and for pages of free runs, in the calling thread.

use super::decay::Seen;
use super::state::{Inside, STATE, State, UPKEEP, interval_ns};
use super::timetable::Errand;
use crate::caches::{enter, heap, known_at};
use crate::central::{Subreleased, coarse_of, coarse_time};
use crate::cpu_cache::Reclaimed;
use crate::page_heap::{Huge, MOST_PURGED_AT_ONCE, PAGE};
use crate::{percpu, profile};
use machine::sync::Ordering;
use machine::{clock, process};

/// Pages that go back to the kernel in a step: 16 MiB.
const PAGES_AT_ONCE: u64 = (16 << 20) / PAGE as u64;
/// Idle pages for which the shepherd is woken at once: 1 MiB.
const WORTH_A_CALL: u64 = (1 << 20) / PAGE as u64;
/// Time until the next attempt if another thread has the lock.
const SOON_NS: u64 = 100_000;
const SECOND: u64 = 1_000_000_000;
/// Results of a look at memory: it is short; it is unknown whether it is.
const SHORT: u32 = 1;
const UNTOLD: u32 = 2;
/// If it is unknown, rounds until the next look: a limit may be set meanwhile.
const UNTOLD_FOR: u64 = 64;
/// A slot looks deserted if no thread used it for one part in this many of an interval.
const DESERTED_PART: u64 = 8;
/// Memory is short if less than one part in this many of the limit is left.
const SHORT_PART: u64 = 8;

/// Serves one slot, or returns some idle pages. Returns when to call it again. None: when a slot has joined.
///
/// Takes at most some microseconds for each magazine of a slot, and a millisecond for each MiB that goes back.
pub fn step(now_ns: u64) -> Option<u64> {
    percpu::enter();
    profile::follow_tracer();
    let state = known_at(&STATE).filter(|_| UPKEEP.is_on())?;
    // If `now_ns` is ahead of the clock, everything looks idle for longer.
    let ahead = now_ns.checked_sub(clock::now_ns()).map_or(0, coarse_of);
    let (now, deserted) = (coarse_time().wrapping_add(ahead), coarse_of(interval_ns() / DESERTED_PART));
    let looks_deserted = |slot| heap().cpu.watch(slot).since_last_visit(now) > deserted;
    let errand = state.with(now_ns, |inside| {
        let errand = inside.table.errand(looks_deserted);
        // A slot that is to be served counts as run.
        if let Errand::Serve(slot, _) = errand {
            inside.table.run(slot);
        }
        errand
    });
    let Some(errand) = errand else { return Some(now_ns + SOON_NS) };
    if let Errand::Serve(slot, _) = errand {
        state.serve(slot, now_ns, now);
        return Some(now_ns);
    }
    let subrelease_at = state.subrelease().map(|later_ns| now_ns + later_ns);
    if subrelease_at == Some(now_ns) {
        return subrelease_at;
    }
    state.look_at_memory(now_ns);
    let left = give_idle_pages_back(state, now_ns, PAGES_AT_ONCE);
    let now_ns = now_ns.max(clock::now_ns());
    let pages_at = state.with(now_ns, |inside| state.when_pages_go(inside, now_ns, left));
    let Some(pages_at) = pages_at else { return Some(now_ns + SOON_NS) };
    let again = Some(state.subrelease_again_ns.load(Ordering::Relaxed)).filter(|&again| again != 0);
    let pages_at = pages_at.into_iter().chain(again).chain(subrelease_at).min();
    match errand {
        Errand::NotBeforeNs(at) => Some(pages_at.map_or(at, |pages| pages.min(at))),
        _ => pages_at,
    }
}

/// Does the upkeep that is due now. It is for programs without a shepherd (`upkeep.shepherd:off`). Returns the
/// nanoseconds until the next call is due. None: not before another thread allocates or frees. Not in signal handlers.
pub fn tick() -> Option<u64> {
    if !enter() {
        return None;
    }
    loop {
        let at = step(clock::now_ns())?;
        let now = clock::now_ns();
        if at > now {
            return Some(at - now);
        }
    }
}

impl State {
    /// Drains what is idle in a slot. An empty slot leaves; it joins again when a thread uses it.
    fn serve(&self, slot: u32, now_ns: u64, now: u32) {
        let began = clock::now_ns();
        let idle = coarse_of(interval_ns() / 2);
        let Some(done) = self.freeing_idle_pages(|| heap().cpu.reclaim_idle(slot, now, idle)) else { return };
        self.counts.longest_ns.raise(clock::now_ns() - began);
        self.counts.deserted.count();
        self.count_reclaimed(done);
        let is_empty = done.magazines + done.spans == 0 && !done.is_more;
        if is_empty {
            self.note(now_ns, |inside| inside.table.leave(slot));
            heap().cpu.watch(slot).look_now();
        }
    }

    /// Runs `work`, which frees pages that were idle for an interval. It may count some that other threads free.
    pub(super) fn freeing_idle_pages<R>(&self, work: impl FnOnce() -> R) -> R {
        let page_heap = heap().page_heap();
        let counts = &page_heap.counts;
        // Includes pages that go back meanwhile.
        let ever_free = || counts.free_dirty.get() + counts.purged.get();
        let before = ever_free();
        let result = work();
        let came = ever_free().saturating_sub(before);
        if came > 0 {
            self.note(clock::now_ns(), |inside| {
                inside.decay.came_idle(came);
                page_heap.raise_least_dirty(came);
            });
            if came >= WORTH_A_CALL {
                self.shepherd.ring();
            }
        }
        result
    }

    /// Walks a part over the heap, if magazines were emptied or a walk is due. Returns the wait before the next part.
    pub(super) fn subrelease(&self) -> Option<u64> {
        let (again, began) = (self.subrelease_again_ns.load(Ordering::Relaxed), clock::now_ns());
        if again != 0 && again <= began && self.subreleased.load(Ordering::Relaxed) == 0 {
            self.subrelease_again_ns.store(0, Ordering::Relaxed);
            self.subreleased.store(1, Ordering::Relaxed);
        }
        // Relaxed: of two threads that walk at once, one repeats work.
        let from = self.subreleased.load(Ordering::Relaxed).checked_sub(1)?;
        let looked = self.with(began, |inside| {
            self.observe(inside, began);
            (inside.allowance.refill(began, self.pages_per_second()), inside.decay.wanted())
        });
        let Some((1.., wanted)) = looked else { return Some(self.until_allowed_ns()) };
        let mut done = Subreleased::default();
        let pause_ns = interval_ns() / 2;
        // The objects came from magazines that were idle for half an interval.
        let idle_ns = u64::from(wanted) * interval_ns() / 4 - pause_ns;
        let next = heap().cpu.subrelease(from, coarse_of(idle_ns), &mut done);
        if done.is_more {
            self.subrelease_again_ns.store(began + pause_ns, Ordering::Relaxed);
        }
        self.counts.longest_ns.raise(clock::now_ns() - began);
        self.note(began, |inside| inside.allowance.take(done.pages as u64));
        self.counts.calls.add(done.calls as u64);
        self.counts.pages.add(done.pages as u64);
        let to = next.map_or(0, |next| next + 1);
        let _ = self.subreleased.compare_exchange(from + 1, to, Ordering::Relaxed, Ordering::Relaxed);
        // Without progress, another thread is draining.
        next.map(|next| if next == from { SOON_NS } else { 0 })
    }

    /// Looks at the pages of free runs.
    fn observe(&self, inside: &mut Inside, now_ns: u64) {
        let page_heap = heap().page_heap();
        let (least, counts) = (page_heap.take_least_dirty(), &page_heap.counts);
        let (refilled, in_use) = (counts.refilled.get(), counts.in_use.get());
        let handed_out = counts.allocations.get() + inside.count_slow_paths();
        inside.decay.observe(now_ns, interval_ns(), Seen { least, refilled, in_use, handed_out });
    }

    pub(super) fn count_reclaimed(&self, done: Reclaimed) {
        if done.magazines > 0 {
            // The emptied magazines made rows of free objects. A walk in progress ends first, so that it ends at all.
            let begins = self.subreleased.compare_exchange(0, 1, Ordering::Relaxed, Ordering::Relaxed);
            if begins.is_err() {
                self.subrelease_again_ns.store(clock::now_ns(), Ordering::Relaxed);
            }
        }
        self.counts.arrays.add(done.magazines as u64);
        self.counts.spans.add(done.spans as u64);
    }

    /// Time until a call's worth of pages may go back.
    fn until_allowed_ns(&self) -> u64 {
        (MOST_PURGED_AT_ONCE * SECOND / self.pages_per_second()).min(SECOND / 4)
    }

    /// When pages must go back next if nothing else happens. None: never.
    fn when_pages_go(&self, inside: &Inside, now_ns: u64, left: Left) -> Option<u64> {
        let page_heap = heap().page_heap();
        let is_quiet = inside.table.is_empty();
        match left {
            Left::Some => return Some(now_ns + self.until_allowed_ns()),
            // Pages that cannot go, because huge pages would break or the kernel refuses, stay while all is quiet.
            Left::Refused => return (!is_quiet).then_some(now_ns + SECOND),
            Left::None => {}
        }
        let has_any = page_heap.counts.free_dirty.get() > page_heap.kept_dirty();
        let idle_at = has_any.then(|| inside.decay.idle_at_ns(0).unwrap_or(now_ns + SECOND))?;
        // One least covers the time between two looks. So while anything happens, each quarter needs a look.
        Some(if is_quiet { idle_at } else { idle_at.min(inside.decay.ends_ns) })
    }

    /// Checks once in a round whether the process's memory is short, and notes peaks.
    fn look_at_memory(&self, now_ns: u64) {
        let Some(round) = self.with(now_ns, |inside| inside.table.round()) else { return };
        // Relaxed, all: two threads at once may both check.
        if self.looked_in.swap(round, Ordering::Relaxed) == round {
            return;
        }
        heap().central().tally().note_peaks();
        let insists = round.is_multiple_of(UNTOLD_FOR);
        if (insists || !self.pressure.is_untold()) && self.pressure.has_grown() {
            heap().cpu.trim(0);
            self.counts.pressure.count();
        }
        if insists || self.shortage.load(Ordering::Relaxed) != UNTOLD {
            // The page cache counts as used memory, so this only justifies returning idle pages.
            let mut shortage = UNTOLD;
            process::memory_of_groups(|used, limit| {
                let is_short = used > limit - limit / SHORT_PART;
                shortage = shortage & SHORT | u32::from(is_short);
            });
            self.shortage.store(shortage, Ordering::Relaxed);
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    None,
    /// They can go a little later.
    Some,
    /// They could not be returned.
    Refused,
}

/// Returns up to `most` idle pages of free runs to the kernel, as the budget allows.
pub(super) fn give_idle_pages_back(state: &State, now_ns: u64, most: u64) -> Left {
    let page_heap = heap().page_heap();
    let is_short = state.shortage.load(Ordering::Relaxed) == SHORT;
    let huge = if is_short { Huge::BreakUp } else { Huge::KeepWhole };
    let idle = state.with(now_ns, |inside| {
        state.observe(inside, now_ns);
        let dirty = page_heap.counts.free_dirty.get();
        let idle = match is_short {
            true => inside.decay.idle_without_patience().min(dirty),
            false => inside.decay.idle().min(dirty.saturating_sub(page_heap.kept_dirty())),
        };
        (idle, inside.allowance.refill(now_ns, state.pages_per_second()))
    });
    let Some((idle, allowed)) = idle else { return Left::Some };
    let (mut given, mut left) = (0, Left::None);
    while let rest = most.min(allowed).min(idle).saturating_sub(given)
        && rest > 0
    {
        let began = clock::now_ns();
        let pages = page_heap.purge_some(rest, huge);
        if pages == 0 {
            state.counts.refused.count();
            left = Left::Refused;
            break;
        }
        state.counts.calls.count();
        state.counts.longest_ns.raise(clock::now_ns() - began);
        given += pages;
    }
    state.counts.pages.add(given);
    state.note(now_ns, |inside| {
        inside.decay.gave(given);
        inside.allowance.take(given);
    });
    if left == Left::None && given < idle { Left::Some } else { left }
}
