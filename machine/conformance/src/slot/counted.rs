//! count and count_in: threads count in their slots, and an account is kept of what each said it did.
//!
//! A count that is lost, done twice, or done in the wrong slot makes a word differ from its account. The word beside it
//! is checked, too; only its sum over all slots is known. Threads migrate, handlers that count interrupt them, and one
//! thread restarts all slots repeatedly.
//!
//! Each thread also has its own counts; its handlers change which word is meant. After they turn to the next word,
//! nothing is counted in the old one until they come back to it.

use super::Operations;
use super::cached::under_restarts;
use super::region::Memory;
use crate::case::{Findings, Outcome, demand, ensure};
use crate::runner::{Places, Runner, alone};
use machine::slot::{self, COUNTED_BESIDE, COUNTS, Counted, NOWHERE};
use machine::sync::{AtomicPtr, AtomicU64, Ordering};
use machine::vm;

const BURST: usize = 64;
/// What lies before the first slot's counts is not theirs.
const BEFORE: usize = vm::PAGE;
const WORDS: usize = COUNTS / 8;
/// From a word to the one beside it. So many words are counted in, each with another one beside it.
const BESIDE: usize = COUNTED_BESIDE / 8;
const _: () = assert!(2 * BESIDE <= WORDS);
pub(super) const OTHER: usize = 8;

pub(super) fn counted(runner: &dyn Runner, operations: &Operations) -> Outcome {
    let account = Account::new()?;
    let has_slot = alone(runner, || (operations.current)().is_some());
    ensure!(has_slot, "a thread that entered has no slot");
    let own = (0..runner.width()).map(|_| Turning::new()).collect::<Result<Vec<_>, _>>()?;
    let places = Places::<AtomicU64>::new(runner.width());
    let of = |place: &AtomicU64| &own[place.load(Ordering::Relaxed) as usize];
    let work = |number| {
        (operations.current)();
        places.settle(number).store(number as u64, Ordering::Relaxed);
        while runner.goes_on() {
            for _ in 0..BURST {
                (operations.count)(&own[number].counts.meant);
                account.said((operations.count)(&account.counts.meant).slot);
            }
        }
    };
    let findings = Findings::new();
    let handler = || {
        let Some(own) = places.own().map(of) else { return };
        (operations.count)(&own.counts.meant);
        own.turn(&findings);
    };
    under_restarts(runner, operations, &handler, &work);
    findings.outcome()?;
    let turns: u64 = own.iter().map(|own| own.turns.load(Ordering::Relaxed)).sum();
    let counts = account.settle(0)?;
    let (beside, said) = (account.counts.sum(BESIDE), account.said_beside.load(Ordering::Relaxed));
    ensure!(beside == said, "{beside} were counted beside, where {said} were said");
    ensure!(counts > BURST as u64 && turns > 0, "{counts} counts only, and {turns} turns");
    Ok(())
}

/// The body of [`Operations::count_in`]: what was begun in a slot ends there, or is said not to.
pub(super) fn counted_in(runner: &dyn Runner, operations: &Operations) -> Outcome {
    let account = Account::new()?;
    alone(runner, || {
        let elsewhere =
            Counted { at: account.counts.word(account.counts.last(), 0).as_ptr().cast(), slot: account.counts.last() };
        ensure!(!(operations.count_in)(elsewhere), "a thread counted in slot {}, where it is not", elsewhere.slot);
        Ok(())
    })?;
    let begin = || (operations.count)(&account.counts.meant);
    let end = |begun: Counted| {
        if (operations.count_in)(begun) {
            account.said(begun.slot);
        }
    };
    let work = |_| {
        (operations.current)();
        while runner.goes_on() {
            for number in 0..BURST {
                let begun = begin();
                if number == 0 {
                    runner.pause();
                }
                end(begun);
            }
        }
    };
    let handler = || end(begin());
    under_restarts(runner, operations, &handler, &work);
    let counts = account.settle(OTHER / 8)?;
    ensure!(counts > BURST as u64, "{counts} counts only");
    Ok(())
}

struct Counts {
    memory: Memory,
    slots: u32,
    /// Where threads count.
    meant: AtomicPtr<AtomicU64>,
}

impl Counts {
    /// All zero. Initialises the slots.
    fn new() -> Result<Self, String> {
        slot::initialise();
        let slots = slot::possible();
        let memory = Memory::new(BEFORE + slots * COUNTS)?;
        let meant = AtomicPtr::new(memory.at(BEFORE).cast());
        Ok(Counts { memory, slots: slots as u32, meant })
    }

    fn last(&self) -> u32 {
        self.slots - 1
    }

    fn word(&self, slot: u32, number: usize) -> &AtomicU64 {
        debug_assert!(slot < self.slots && number < WORDS);
        // SAFETY: the slot has counts, and the mapping lives as long as we do.
        unsafe { &*self.memory.at(BEFORE + slot as usize * COUNTS + number * 8).cast() }
    }

    fn sum(&self, number: usize) -> u64 {
        (0..self.slots).map(|slot| self.word(slot, number).load(Ordering::Relaxed)).sum()
    }

    fn sum_of_both(&self, number: usize) -> u64 {
        self.sum(number) + self.sum(number + BESIDE)
    }
}

struct Account {
    counts: Counts,
    said: Vec<AtomicU64>,
    said_beside: AtomicU64,
}

impl Account {
    fn new() -> Result<Self, String> {
        let counts = Counts::new()?;
        let said = (0..counts.slots).map(|_| AtomicU64::new(0)).collect();
        Ok(Account { counts, said, said_beside: AtomicU64::new(0) })
    }

    fn said(&self, slot: u32) {
        // Relaxed: read when the threads have ended.
        let said = if slot == NOWHERE { &self.said_beside } else { &self.said[slot as usize] };
        said.fetch_add(1, Ordering::Relaxed);
    }

    /// Compares words of a number with what was said; what was counted.
    fn settle(&self, number: usize) -> Result<u64, String> {
        let mut sum = 0;
        for slot in 0..self.counts.slots {
            let said = self.said[slot as usize].load(Ordering::Relaxed);
            let counted = self.counts.word(slot, number).load(Ordering::Relaxed);
            ensure!(counted == said, "slot {slot} counted {counted}, where {said} were said");
            sum += said;
        }
        Ok(sum)
    }
}

/// What only one thread counts in, in the word that its handlers mean.
struct Turning {
    counts: Counts,
    turns: AtomicU64,
    /// What was counted in each word when it was left.
    left: [AtomicU64; BESIDE],
}

impl Turning {
    fn new() -> Result<Self, String> {
        let zero = || AtomicU64::new(0);
        Ok(Turning { counts: Counts::new()?, turns: zero(), left: [(); BESIDE].map(|()| zero()) })
    }

    fn turn(&self, findings: &Findings) {
        let turn = self.turns.fetch_add(1, Ordering::Relaxed) as usize;
        let (from, to) = (turn % BESIDE, (turn + 1) % BESIDE);
        self.left[from].store(self.counts.sum_of_both(from), Ordering::Relaxed);
        let (now, left) = (self.counts.sum_of_both(to), self.left[to].load(Ordering::Relaxed));
        demand!(findings, now == left, "counted in a word that was not meant: its sum, and the one before", now, left);
        self.counts.meant.store(self.counts.word(0, to).as_ptr().cast(), Ordering::Relaxed);
    }
}
