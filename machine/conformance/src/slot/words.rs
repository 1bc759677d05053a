//! The operations without races: initialise, mode, possible, current, in_use, load, and results without a slot.

use super::Operations;
use super::region::{Region, WORDS};
use super::rows::{Rows, stocked};
use super::tokens::Tokens;
use crate::case::{Findings, Outcome, demand, ensure};
use crate::runner::{Job, Placement, Runner, crowd, meet, repeat};
use machine::slot::{MAX, Mode, Pair, Stored};
use machine::sync::{AtomicU32, AtomicUsize, Ordering};
use machine::thread;

/// The body of [`Operations::initialise`] and [`Operations::mode`]: the first ones come at once, and they come again.
pub(super) fn initialised(runner: &dyn Runner, operations: &Operations) -> Outcome {
    const TIMES: usize = 100;
    let (findings, arrived) = (Findings::new(), AtomicUsize::new(0));
    let decide = || {
        (operations.initialise)();
        let (wanted, found) = (runner.mode(), (operations.mode)());
        demand!(findings, found == wanted, "the mode was decided otherwise: wanted, found", wanted, found);
    };
    let job = |_| {
        meet(runner, &arrived, runner.width());
        decide();
        let slot = (operations.current)();
        demand!(findings, slot.is_some(), "a thread that entered has no slot");
        for _ in 0..TIMES {
            decide();
            let kept = runner.mode() == Mode::ConcurrencyId || (operations.current)() == slot;
            demand!(findings, kept, "a thread's slot changed");
        }
    };
    runner.run(Placement::Moved, crowd(runner.width(), &job), None);
    // Two threads that run at the same time are in two slots, as the mode says.
    runner.run(Placement::Apart, crowd(2, &|_| count_to_two(operations, &findings)), None);
    findings.outcome()?;
    let bound = (operations.in_use)();
    ensure!(bound >= 2, "two threads have used slots below {bound}");
    Ok(())
}

/// The body of [`Operations::possible`] and [`Operations::in_use`]: both are bounds of all slots.
pub(super) fn bounds(runner: &dyn Runner, operations: &Operations) -> Outcome {
    let _region = Region::new(1, machine::slot::ARRAY)?;
    let (possible, findings) = ((operations.possible)(), Findings::new());
    let job = |_| {
        let slot = (operations.current)().unwrap_or(0);
        // A thread that may run on one CPU only says the same as others.
        let now = (operations.possible)();
        demand!(findings, now == possible, "the bound changed: before, after", possible, now);
        demand!(findings, (slot as usize) < possible, "an impossible slot: slot, bound", slot, possible);
        let bound = (operations.in_use)();
        demand!(findings, slot < bound, "a slot is in use beyond the bound: slot, bound", slot, bound);
    };
    runner.run(Placement::Moved, crowd(runner.width(), &job), None);
    // Two threads that run at the same time are in two slots at least.
    runner.run(Placement::Apart, crowd(2, &|_| count_to_two(operations, &findings)), None);
    runner.run(Placement::Apart, crowd(2, &job), None);
    findings.outcome()?;
    let bound = (operations.in_use)();
    let is_sound = (2..=possible).contains(&(bound as usize)) && possible <= MAX;
    ensure!(is_sound, "slots below {bound} are in use, of {possible} possible ones");
    Ok(())
}

/// The body of [`Operations::current`]: threads have different slots, at least while they run at the same time.
pub(super) fn current(runner: &dyn Runner, operations: &Operations) -> Outcome {
    let region = Region::new(1, machine::slot::ARRAY)?;
    let findings = Findings::new();
    match runner.mode() {
        Mode::ConcurrencyId => {
            let job = |_| meet_own_slot(runner, operations, &region, &findings);
            runner.run(Placement::Apart, crowd(2, &job), None);
        }
        Mode::PerThread => {
            let (owners, arrived) = ([const { AtomicU32::new(0) }; MAX], AtomicUsize::new(0));
            let job = |thread| own_a_slot(runner, operations, &owners, thread, &findings, &arrived);
            runner.run(Placement::Moved, crowd(runner.width(), &job), None);
        }
    }
    findings.outcome()
}

/// Two threads that run at the same time: each finds itself, most of the time, in the slot that `current` says.
fn meet_own_slot(runner: &dyn Runner, operations: &Operations, region: &Region, findings: &Findings) {
    const TRIES: u64 = 100_000;
    let mut misses = 0;
    while runner.goes_on() && findings.none() {
        let Some(slot) = (operations.current)() else {
            return findings.add("a thread that entered has no slot", [0; 3]);
        };
        if slot as usize >= MAX {
            return findings.add("a slot beyond the last", [slot as u64, MAX as u64, 0]);
        }
        let stored = (operations.compare_store)(region.base(), slot, 0, 0, 0);
        misses = if stored == Stored::Done { 0 } else { misses + 1 };
        demand!(findings, misses < TRIES, "a thread is never in the slot that it is told: slot, tries", slot, TRIES);
    }
}

/// Threads that live at the same time: each keeps its slot, and has it for itself.
fn own_a_slot(
    runner: &dyn Runner, operations: &Operations, owners: &[AtomicU32], thread: usize, findings: &Findings,
    arrived: &AtomicUsize,
) {
    let Some(slot) = (operations.current)() else { return findings.add("a thread that entered has no slot", [0; 3]) };
    let before = owners[slot as usize].swap(thread as u32 + 1, Ordering::Relaxed);
    demand!(findings, before == 0, "two threads have one slot: slot, threads", slot, before, thread + 1);
    // All must live until all have theirs.
    meet(runner, arrived, runner.width());
    let now = (operations.current)().unwrap_or(u32::MAX);
    demand!(findings, now == slot, "a thread's slot changed: before, after", slot, now);
}

fn count_to_two(operations: &Operations, findings: &Findings) {
    while findings.none() && (operations.in_use)() < 2 {
        let slot = (operations.current)().unwrap_or(0);
        let bound = (operations.in_use)();
        demand!(findings, slot < bound, "a slot is in use beyond the bound: slot, bound", slot, bound, 2);
    }
}

pub(super) fn given(runner: &dyn Runner, operations: &Operations) -> Outcome {
    let _region = Region::new(1, machine::slot::ARRAY)?;
    let findings = Findings::new();
    let job = |_| {
        if runner.mode() == Mode::PerThread {
            let early = (operations.current_if_given)();
            demand!(findings, early.is_none(), "a thread that asked for no slot has one", early.unwrap_or(0));
        }
        // By ids the thread may move between the two.
        let same =
            (0..100_000).any(|_| (operations.current)().is_some_and(|it| (operations.current_if_given)() == Some(it)));
        demand!(findings, same, "a thread that has a slot never learns which");
    };
    runner.run(Placement::Moved, crowd(runner.width(), &job), None);
    findings.outcome()
}

pub(super) fn counted(runner: &dyn Runner, operations: &Operations) -> Outcome {
    let _region = Region::new(1, machine::slot::ARRAY)?;
    let job = |thread: usize| (operations.count_as_used)(100 + thread as u32);
    runner.run(Placement::Moved, crowd(runner.width(), &job), None);
    let (expected, bound) = (100 + runner.width() as u32, (operations.in_use)());
    ensure!(bound == expected, "slots below {expected} were counted, and the bound is {bound}");
    (operations.count_as_used)(3);
    ensure!((operations.in_use)() == expected, "counting a lower slot changed the bound");
    Ok(())
}

pub(super) fn load(runner: &dyn Runner, operations: &Operations) -> Outcome {
    let region = Region::new(1, machine::slot::ARRAY)?;
    repeat(runner, || exchange_values(runner, operations, &region))
}

/// Nobody works in the slot. Each value has equal halves. What is exchanged in comes out again exactly once: by another
/// thread, or at the end.
fn exchange_values(runner: &dyn Runner, operations: &Operations, region: &Region) -> Outcome {
    const STEPS: usize = 20_000;
    let (findings, sum, threads) = (Findings::new(), AtomicUsize::new(0), runner.width());
    let exchange = |value| (operations.exchange)(region.base(), MAX as u32 - 1, WORDS - 1, value);
    let job = |thread: usize| {
        for step in 1..=STEPS {
            let number = thread * STEPS + step;
            let old = exchange(number << 32 | number);
            let seen = (operations.load)(region.base(), MAX as u32 - 1, WORDS - 1);
            sum.fetch_add(old & 0xffff_ffff, Ordering::Relaxed);
            demand!(findings, seen >> 32 == seen & 0xffff_ffff, "a word was read in two parts", seen);
        }
    };
    runner.run(Placement::Moved, crowd(threads, &job), None);
    findings.outcome()?;
    let left = exchange(0) & 0xffff_ffff;
    let all = threads * STEPS;
    let (put, got) = (all * (all + 1) / 2, sum.into_inner() + left);
    ensure!(put == got, "values that sum to {put} were exchanged in, and came out as {got}: one was lost or doubled");
    Ok(())
}

/// Without a slot: null from pop, false from push and draw, Elsewhere from compare_store and replace_pair.
pub(super) fn none(runner: &dyn Runner, operations: &Operations) -> Outcome {
    let (region, rows) = (Region::new(2, machine::slot::ARRAY)?, Rows::new()?);
    let mut array = region.array(0, 1);
    array.push(&region, Tokens::pointer(0));
    let words = [array.take_word(), region.array(1, 1).give_word()];
    let all = (0..MAX as u32).flat_map(|slot| [(slot, 0), (slot, 1)]);
    for (slot, index) in all.clone() {
        (operations.exchange)(region.base(), slot, index, words[index]);
    }
    rows.prepare_all(STOCKED);
    let mut finding = Err("a thread without a slot never ran".to_owned());
    let place = &mut finding;
    let job: Job<'_> =
        Box::new(|| *place = try_without(operations, &region).and_then(|()| try_rows_without(operations, &rows)));
    ensure!(runner.run_without_slot(job), "the runner can make no thread without a slot here");
    finding?;
    for (slot, index) in all {
        let word = (operations.load)(region.base(), slot, index);
        ensure!(word == words[index], "a thread without a slot changed word {index} of slot {slot} to {word}");
    }
    let drawn_from = rows.slots().find(|&slot| rows.pair(slot) != STOCKED);
    ensure!(drawn_from.is_none(), "a thread without a slot changed the pair in row {drawn_from:?}");
    Ok(())
}

const STOCKED: Pair = stocked(2, 2);

fn try_rows_without(operations: &Operations, rows: &Rows) -> Outcome {
    ensure!(!(operations.draw)(rows.cell(), 1), "a thread without a slot drew");
    for slot in 0..4 {
        let stored = (operations.replace_pair)(rows.cell(), slot, STOCKED.left, Pair { left: 0, edge: 0 });
        ensure!(stored == Stored::Elsewhere, "a thread without a slot stored to row {slot}: {stored:?}");
    }
    Ok(())
}

fn try_without(operations: &Operations, region: &Region) -> Outcome {
    thread::enter();
    let slot = (operations.current)();
    ensure!(slot.is_none(), "a thread that cannot have a slot is in {slot:?}");
    let pointer = (operations.pop)(region.base(), 0);
    ensure!(pointer.is_null(), "a thread without a slot popped {pointer:?}");
    ensure!(!(operations.push)(region.base(), 0, Tokens::pointer(1)), "a thread without a slot pushed");
    for slot in 0..4 {
        let stored = (operations.compare_store)(region.base(), slot, 2, 0, 8);
        ensure!(stored == Stored::Elsewhere, "a thread without a slot stored to slot {slot}: {stored:?}");
    }
    Ok(())
}
