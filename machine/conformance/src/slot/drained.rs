//! exchange, compare_exchange and restart: arrays are taken away from owners at work, or given back to them.
//!
//! Drainers run the protocol of [`Operations::exchange`] on random words while threads work as in `replaced`. Each
//! array has its own page, which a drainer returns to the system when the array is empty. So a push may take a page
//! fault between reading its word and committing: that takes long, and restarts nothing.

use super::Operations;
use super::cached::interrupts;
use super::owners::{KINDS, Owners};
use super::region::{Array, DRAINING};
use crate::case::{Outcome, demand, ensure};
use crate::runner::{Placement, Runner, crowd, random};
use machine::sync::{AtomicU64, AtomicUsize, Contention, Lock, Ordering};
use machine::vm;
use machine::{here, slot};

const ARRAYS: usize = 12;
const DRAINERS: usize = 2;
/// One in so many drainings makes no restart.
const REFUSED: u32 = 3;
const BURST: usize = 64;

pub fn drained(runner: &dyn Runner, operations: &Operations) -> Outcome {
    let workers = runner.width();
    let owners = Owners::new(operations, workers * ARRAYS, vm::PAGE, runner.seed())?;
    let drainer = Drainer { owners: &owners, operations, lock: Lock::new(), contention: Contention::new() };
    let (moves, taken, turn) = (AtomicU64::new(0), AtomicU64::new(0), AtomicUsize::new(0));
    let job = |thread| {
        if thread < workers {
            moves.fetch_add(owners.work(runner, thread, &|| runner.goes_on()), Ordering::Relaxed);
        } else {
            taken.fetch_add(drainer.work(runner, thread), Ordering::Relaxed);
        }
    };
    let handler = || owners.interrupt(turn.fetch_add(1, Ordering::Relaxed) % KINDS);
    runner.run(Placement::Moved, crowd(workers + DRAINERS, &job), interrupts(runner, &handler));
    owners.account()?;
    let (moves, taken) = (moves.into_inner(), taken.into_inner());
    ensure!(moves > 0 && taken > 0, "nothing moved: {moves} tokens, {taken} arrays taken away");
    Ok(())
}

struct Drainer<'a> {
    owners: &'a Owners<'a>,
    operations: &'a Operations,
    lock: Lock<2>,
    contention: Contention,
}

impl Drainer<'_> {
    fn work(&self, runner: &dyn Runner, thread: usize) -> u64 {
        let mut random = random(runner, thread);
        let mut taken = 0;
        while runner.goes_on() && self.owners.findings().none() {
            for _ in 0..BURST {
                taken += self.drain_one(random.u32(0..slot::in_use().max(1)), &mut random);
            }
            runner.pause();
        }
        taken
    }

    fn drain_one(&self, slot: u32, random: &mut fastrand::Rng) -> u64 {
        if !self.owners.findings().none() {
            return 0;
        }
        self.lock.acquire(&self.contention, here!());
        let arrays = self.drain(slot, random);
        // SAFETY: acquired above.
        unsafe { self.lock.release() };
        let taken = arrays.len() as u64;
        arrays.into_iter().for_each(|array| self.discard(array));
        taken
    }

    /// Takes some arrays of a slot with one restart. Sometimes it takes none, as if the restart were refused.
    fn drain(&self, slot: u32, random: &mut fastrand::Rng) -> Vec<Array> {
        let indices = (0..2 * KINDS).filter(|_| random.bool());
        let marked: Vec<(usize, usize)> = indices.map(|index| (index, self.exchange(slot, index, DRAINING))).collect();
        if random.u32(0..REFUSED) == 0 {
            for (index, old) in marked {
                self.compare_exchange(slot, index, old);
            }
            return Vec::new();
        }
        let restarted = (self.operations.restart)(slot);
        demand!(self.owners.findings(), restarted.is_ok(), "a restart was refused", slot);
        let kept = marked.into_iter().filter(|&(index, _)| self.compare_exchange(slot, index, 0));
        kept.filter_map(|(index, old)| Array::of_word(old, index)).collect()
    }

    fn compare_exchange(&self, slot: u32, index: usize, new: usize) -> bool {
        (self.operations.compare_exchange)(self.owners.region.base(), slot, index, DRAINING, new)
    }

    fn exchange(&self, slot: u32, index: usize, value: usize) -> usize {
        (self.operations.exchange)(self.owners.region.base(), slot, index, value)
    }

    /// Keeps an array that is ours; the page of an empty one goes back to the system first.
    fn discard(&self, array: Array) {
        let region = &self.owners.region;
        if array.is_empty(region)
            && let Some(number) = region.number(array)
        {
            // SAFETY: the array is private, alone in its page, and zeroes are an empty one.
            unsafe { vm::decommit(region.memory(number), vm::PAGE) };
        }
        self.owners.keep(array);
    }
}
