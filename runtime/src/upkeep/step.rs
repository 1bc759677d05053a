//! One step of what is due for slots where nobody comes along, and for pages of free runs: bounded, and by whoever calls.

use super::decay::Seen;
use super::state::{Inside, State};
use super::timetable::Errand;
use crate::page::MOST_PURGED_AT_ONCE;
use crate::percpu;
use crate::slab::Kept;
use crate::slab::region::general;
use crate::slab::sharing;
use machine::{clock, process};

/// Pages that go back to the kernel in a step: 16 MiB.
const PAGES_AT_ONCE: u64 = 4096;
/// Idle pages that the shepherd is woken for at once: 1 MiB.
const WORTH_A_CALL: u64 = 256;
/// Until the next try, where somebody else is at it.
const SOON_NS: u64 = 100_000;
/// After the kernel refused to take pages back.
const AFTER_REFUSAL_NS: u64 = 1_000_000_000;
/// Memory is short when less than one part in so many of the limit is left.
const SHORT_PART: u64 = 8;

/// Does what is due now: serves a slot, or some, and gives some idle pages back. Returns when it wants to be called again; none: not until some slot
/// has its turn, which joins when a thread comes along there.
///
/// Takes some microseconds for each array that a slot has, and a millisecond for each MiB that goes back, at most.
pub fn step(now_ns: u64) -> Option<u64> {
    percpu::enter();
    let state = State::known().filter(|state| state.is_on())?;
    let Some(errand) = state.with(now_ns, begin_errand) else { return Some(now_ns + SOON_NS) };
    if let Errand::Serve(slot, _) = errand {
        state.serve(slot, now_ns);
        return Some(now_ns);
    }
    let is_more = give_idle_pages_back(state, now_ns, PAGES_AT_ONCE);
    let pages_at = state.with(now_ns, |inside| state.when_pages_go(inside, now_ns, is_more)).flatten();
    match errand {
        Errand::NotBeforeNs(at) => Some(pages_at.map_or(at, |pages| pages.min(at))),
        _ => pages_at,
    }
}

/// [`step`], by the machine's clock, until nothing is due now: for embedders, who have no shepherd (`shepherd:off`). Returns in how many nanoseconds it wants to be
/// called again; none: not before other threads have allocated or released memory. Not in signal handlers.
pub fn tick() -> Option<u64> {
    if !sharing::enter() {
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

/// The next errand; a slot that is to be served has run.
fn begin_errand(inside: &mut Inside) -> Errand {
    let errand = inside.table.errand();
    if let Errand::Serve(slot, _) = errand {
        inside.table.run(slot);
    }
    errand
}

impl State {
    /// Empties a deserted slot. One that has nothing any more goes: whoever comes along there again joins.
    fn serve(&self, slot: u32, now_ns: u64) {
        let began = clock::now_ns();
        let Some(kept) = self.freeing_idle_pages(|| general().keep_deserted(slot)) else { return };
        self.counts.longest_ns.raise(clock::now_ns() - began);
        self.counts.deserted.count();
        self.count_kept(kept);
        let is_empty = kept.arrays + kept.spans + kept.calls == 0;
        if is_empty {
            self.with(now_ns, |inside| inside.table.leave(slot));
            general().watch(slot).look_now();
        }
    }

    /// Does what makes pages free that nobody used for an interval already. What others free at the same time counts as that, too, which is a mistake of little
    /// harm.
    pub(super) fn freeing_idle_pages<R>(&self, work: impl FnOnce() -> R) -> R {
        let counts = &general().state().zone.counts;
        // What goes back meanwhile came before.
        let ever_free = || counts.free_dirty.get() + counts.purged.get();
        let before = ever_free();
        let result = work();
        let came = ever_free().saturating_sub(before);
        if came > 0 {
            self.with(clock::now_ns(), |inside| inside.decay.came_idle(came));
            if came >= WORTH_A_CALL {
                self.shepherd.ring();
            }
        }
        result
    }

    pub(super) fn count_kept(&self, kept: Kept) {
        self.counts.arrays.add(kept.arrays as u64);
        self.counts.spans.add(kept.spans as u64);
        self.counts.calls.add(kept.calls as u64);
        self.counts.pages.add(kept.pages as u64);
    }

    /// When pages will have to go back, if nothing else happens; none: none will.
    fn when_pages_go(&self, inside: &Inside, now_ns: u64, is_more: bool) -> Option<u64> {
        let zone = &general().state().zone;
        if is_more {
            return Some(now_ns + MOST_PURGED_AT_ONCE * 1_000_000_000 / self.pages_per_second());
        }
        let has_any = zone.counts.free_dirty.get() > zone.kept_dirty();
        // Those that are idle now and did not go are a rest that cannot: broken huge pages, or the kernel refused.
        let idle_at = has_any.then(|| inside.decay.idle_at_ns(0).unwrap_or(now_ns + AFTER_REFUSAL_NS))?;
        // What was least is known for as long as nobody looked: so while anything happens, each quarter is looked at by itself.
        let is_quiet = inside.table.is_empty();
        Some(if is_quiet { idle_at } else { idle_at.min(inside.decay.quarter_ends_ns()) })
    }

    /// Whether the process's memory is short; looked at once in a round.
    fn is_memory_short(&self, inside: &mut Inside) -> bool {
        let round = inside.table.round();
        if inside.looked_in != round {
            let (used, limit) = process::memory_of_group().unwrap_or((0, u64::MAX));
            (inside.looked_in, inside.is_short) = (round, used > limit - limit / SHORT_PART);
        }
        inside.is_short
    }
}

/// Gives idle pages of free runs back to the kernel, up to so many, and as many as the budget allows. True: there are more.
pub(super) fn give_idle_pages_back(state: &State, now_ns: u64, most: u64) -> bool {
    let (zone, locks) = (&general().state().zone, general().state().locks());
    let idle = state.with(now_ns, |inside| {
        let (least, counts) = (zone.take_least_dirty(), &zone.counts);
        let seen = Seen { least, refilled: counts.refilled.get(), in_use: counts.in_use.get() };
        inside.decay.observe(now_ns, state.interval_ns(), seen);
        let dirty = zone.counts.free_dirty.get();
        let is_short = state.is_memory_short(inside);
        let idle = if is_short { dirty } else { inside.decay.idle().min(dirty.saturating_sub(zone.kept_dirty())) };
        (idle, inside.allowance.refill(now_ns, state.pages_per_second()), is_short)
    });
    let Some((idle, allowed, is_short)) = idle else { return true };
    let mut given = 0;
    while let rest = most.min(allowed).min(idle).saturating_sub(given)
        && rest > 0
    {
        let began = clock::now_ns();
        let pages = zone.purge_some(locks, rest, !is_short);
        if pages == 0 {
            state.counts.refused.count();
            break;
        }
        state.counts.calls.count();
        state.counts.longest_ns.raise(clock::now_ns() - began);
        given += pages;
    }
    state.counts.pages.add(given);
    state.with(now_ns, |inside| {
        inside.decay.gave(given);
        inside.allowance.take(given);
    });
    given > 0 && given < idle
}
