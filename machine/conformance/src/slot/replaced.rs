//! compare_store: arrays change places while pops and pushes run on them.
//!
//! All three operations work together here, as in an allocator; see [`super::owners`]. A handler that interrupts a slow
//! path between two instructions finds words of every kind.

use super::Operations;
use super::cached::under_restarts;
use super::owners::{KINDS, Owners};
use crate::case::{Outcome, ensure};
use crate::runner::{Runner, alone};
use machine::slot::{MAX, Stored};
use machine::sync::{AtomicU64, AtomicUsize, Ordering};

/// Arrays for each thread: few, so that they come round.
const ARRAYS: usize = 12;

/// The body of [`Operations::compare_store`].
pub fn replaced(runner: &dyn Runner, operations: &Operations) -> Outcome {
    let owners = Owners::new(operations, runner.width() * ARRAYS, machine::slot::ARRAY, runner.seed())?;
    alone(runner, || one_replaces(&owners, operations))?;
    let (moves, turn) = (AtomicU64::new(0), AtomicUsize::new(0));
    let work = |thread| {
        moves.fetch_add(owners.work(runner, thread, &|| runner.goes_on()), Ordering::Relaxed);
    };
    let handler = || owners.interrupt(turn.fetch_add(1, Ordering::Relaxed) % KINDS);
    under_restarts(runner, operations, &handler, &work);
    let tokens = owners.account()?;
    let (moves, replaced) = (moves.into_inner(), owners.replaced.load(Ordering::Relaxed));
    ensure!(moves > 0 && replaced > 0, "nothing moved: {moves} tokens, {replaced} arrays");
    Ok(format!("{moves} moves of tokens, {replaced} of arrays; {tokens} tokens in arrays at the end"))
}

/// What the specification says, step by step.
fn one_replaces(owners: &Owners<'_>, operations: &Operations) -> Result<(), String> {
    const INDEX: usize = 2 * KINDS;
    let base = owners.region.base();
    // SAFETY: every slot has an area, and no pop or push uses this word.
    let store = |slot, expected, new| unsafe { (operations.compare_store)(base, slot, INDEX, expected, new) };
    // By ids the thread may have left the slot meanwhile.
    let here = (0..10_000).find_map(|_| {
        let slot = (operations.current)()?;
        (store(slot, 0, 8) == Stored::Done).then_some(slot)
    });
    let here = here.ok_or("a thread never meets the slot that it is in")?;
    ensure!(owners.word(here, INDEX) == 8, "a word that was stored to reads as {}", owners.word(here, INDEX));
    let differs = (0..10_000).map(|_| store(here, 0, 16)).find(|&outcome| outcome != Stored::Elsewhere);
    ensure!(
        differs.is_none_or(|outcome| outcome == Stored::Differs),
        "another word than expected was replaced: {differs:?}"
    );
    let elsewhere = store(MAX as u32 - 1, 0, 8);
    ensure!(elsewhere == Stored::Elsewhere, "a store to a slot that no thread is in: {elsewhere:?}");
    ensure!(owners.word(MAX as u32 - 1, INDEX) == 0, "a store that was elsewhere was done");
    Ok(())
}
