//! Slots of dead threads, in the mode where a slot belongs to a thread: they come into use again, with what is in them.
//!
//! Threads start, work as in [`super::owners`], and die, leaving tokens behind. Drainers find slots of dead threads and
//! empty them. In a fork child all threads but one are dead.

use super::Operations;
use super::owners::{KINDS, Owners};
use super::region::{Array, Region};
use crate::case::{Outcome, demand, ensure};
use crate::runner::{Fork, Placement, Runner, alone, crowd, in_children, random};
use machine::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use machine::{code, slot, thread};

const ARRAYS: usize = 12;
const GENERATION: usize = 3;
/// Rounds of taking and giving in a thread's life.
const LIFE: usize = 20;

pub(super) fn while_dead(runner: &dyn Runner, operations: &Operations) -> Outcome {
    let parents = 2;
    let owners = Owners::new(operations, parents * GENERATION * ARRAYS, slot::ARRAY, runner.seed())?;
    let guests: Vec<AtomicU32> = (0..slot::MAX).map(|_| AtomicU32::new(0)).collect();
    let (births, taken, at_work) = (AtomicUsize::new(0), AtomicU64::new(0), AtomicUsize::new(parents));
    let job = |number| {
        if number < parents {
            while runner.goes_on() && owners.findings().none() {
                let live =
                    |_| live_and_die(runner, operations, &owners, &guests, births.fetch_add(1, Ordering::Relaxed));
                runner.run(Placement::Anywhere, crowd(GENERATION, &live), None);
            }
            at_work.fetch_sub(1, Ordering::Relaxed);
        } else {
            taken.fetch_add(bury(runner, operations, &owners, &guests, &at_work), Ordering::Relaxed);
        }
    };
    runner.run(Placement::Moved, crowd(parents + 2, &job), None);
    owners.account()?;
    let (births, taken, slots) = (births.into_inner(), taken.into_inner(), (operations.in_use)());
    ensure!(taken > 0, "no array of {births} dead threads was found");
    // Threads that come and go in turn must not each need a slot: those that live together do.
    let bound = (10 * parents * (GENERATION + 1)) as u32;
    ensure!(slots <= bound, "{births} threads, {} at a time, have used {slots} slots", parents * GENERATION);
    Ok(())
}

/// Guards a slot as the specification promises it to its guest.
fn visit(guests: &[AtomicU32], owners: &Owners<'_>, slot: u32, guest: u32) {
    let before = guests[slot as usize].swap(guest, Ordering::AcqRel);
    demand!(owners.findings(), before == 0, "two are in one slot: slot, first, second", slot, before, guest);
}

fn leave(guests: &[AtomicU32], slot: u32) {
    guests[slot as usize].store(0, Ordering::Release);
}

fn live_and_die(
    runner: &dyn Runner, operations: &Operations, owners: &Owners<'_>, guests: &[AtomicU32], number: usize,
) {
    const LIVING: u32 = 1;
    let Some(slot) = (operations.current)() else { return };
    visit(guests, owners, slot, LIVING);
    let rounds = AtomicUsize::new(0);
    owners.work(runner, number, &|| rounds.fetch_add(1, Ordering::Relaxed) < LIFE);
    leave(guests, slot);
}

fn bury(
    runner: &dyn Runner, operations: &Operations, owners: &Owners<'_>, guests: &[AtomicU32], at_work: &AtomicUsize,
) -> u64 {
    const DRAINER: u32 = 2;
    let mut random = random(runner, usize::MAX >> 1);
    let mut taken = 0;
    while at_work.load(Ordering::Relaxed) > 0 && owners.findings().none() {
        let slot = random.u32(0..(operations.in_use)().max(1));
        (operations.while_dead)(slot, &mut || {
            visit(guests, owners, slot, DRAINER);
            for index in 0..2 * KINDS {
                let word = (operations.exchange)(owners.region.base(), slot, index, 0);
                let array = Array::of_word(word, index);
                taken += array.is_some() as u64;
                array.into_iter().for_each(|array| owners.keep(array));
            }
            leave(guests, slot);
        });
        runner.pause();
    }
    taken
}

pub(super) fn claimed(runner: &dyn Runner, operations: &Operations) -> Outcome {
    let _region = Region::new(1, slot::ARRAY)?;
    thread::enter();
    let own = (operations.current)();
    ensure!(own.is_some(), "a thread that entered has no slot");
    // Where one thread runs nobody notices forks, and nobody needs to.
    runner.fork(Fork::Bare, &mut || goes_on_in_child(runner, operations, own)).well()?;
    ensure!(thread::notice_forks(), "forks will not be noticed");
    alone(runner, || fork_in_thread(runner, operations, own))?;
    ensure!((operations.current)() == own, "a fork changed its parent's slot");
    Ok(())
}

fn fork_in_thread(runner: &dyn Runner, operations: &Operations, first: Option<u32>) -> Outcome {
    let own = (operations.current)();
    ensure!(own.is_some() && own != first, "two threads are in {first:?} and {own:?}");
    in_children(runner, |_| {
        // Others, born in the child, may come first.
        let collides = (0..8).any(|_| alone(runner, || (operations.current)()) == own);
        ensure!(!collides, static "another thread got the slot of the one that forked, which had not said so yet");
        ensure!(thread::enter(), static "a child was not noticed");
        (operations.claim)();
        goes_on_in_child(runner, operations, own)
    })?;
    ensure!((operations.current)() == own, "a fork changed its parent's slot");
    Ok(())
}

pub(super) fn forgotten(runner: &dyn Runner, operations: &Operations) -> Outcome {
    let _region = Region::new(1, slot::ARRAY)?;
    thread::enter();
    let own = (operations.current)();
    // The parent's number is known.
    code::thread_number();
    let child = &mut || {
        (operations.forget_number)();
        (operations.claim)();
        goes_on_in_child(runner, operations, own)
    };
    runner.fork(Fork::Bare, child).well()
}

fn goes_on_in_child(runner: &dyn Runner, operations: &Operations, own: Option<u32>) -> Result<(), &'static str> {
    ensure!((operations.current)() == own, static "a thread lost its slot in a fork");
    // Each newcomer looks at a few old slots: enough of them have looked at all.
    let newcomers = [(); 8].map(|()| {
        let bound = (operations.in_use)();
        (alone(runner, || (operations.current)()), bound)
    });
    let is_kept = newcomers.iter().all(|&(slot, _)| slot != own);
    let is_reused = newcomers.iter().any(|&(slot, bound)| slot < Some(bound));
    ensure!(is_kept, static "another thread got the slot of the one that forked");
    ensure!(is_reused, static "no slot of a dead thread came into use again");
    Ok(())
}
