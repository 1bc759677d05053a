//! count and count_in: threads count in the rows of their slots, and an account is kept of what each said it did.
//!
//! A count that is lost, done twice, or done in another row than was said, leaves a row and its account apart. Threads migrate, are
//! interrupted by handlers that count, too, and one of them restarts all slots over and over.
//!
//! Each thread has a guard, which only its handlers change, and rows that only it counts in. When a handler changes the guard it looks at the
//! sum of those rows: that is what was counted by then with the guards until then, no more and no less.

use super::Operations;
use super::cached::under_restarts;
use super::rows::Rows;
use crate::case::{Outcome, ensure};
use crate::runner::{Places, Runner, alone};
use machine::slot::Pair;
use machine::sync::{AtomicU64, Ordering};

/// Counts between two looks at the clock.
const BURST: usize = 64;
/// Changes of a thread's guard.
const CHANGES: usize = 1 << 12;
/// A row where nobody counted, and what lies beside the word says nothing.
const BEFORE: Pair = Pair { left: 7, edge: -1 };

/// Some way to count: in which row it did.
type Count<'a> = &'a (dyn Fn(*mut u8, &AtomicU64, u64) -> Option<u32> + Sync);

/// The body of [`Operations::count`].
pub(super) fn counted(runner: &dyn Runner, operations: &Operations) -> Outcome {
    // SAFETY: every slot has a row, and the mode is by ids.
    let count: Count<'_> = &|cell, guard, expected| unsafe { (operations.count)(cell, guard, expected) };
    check(runner, operations, count)
}

/// The body of [`Operations::count_in`].
pub(super) fn counted_in(runner: &dyn Runner, operations: &Operations) -> Outcome {
    // SAFETY: as above.
    let count_in =
        |cell, slot, guard: &AtomicU64, expected| unsafe { (operations.count_in)(cell, slot, guard, expected) };
    let rows = Rows::new()?;
    alone(runner, || {
        let elsewhere = count_in(rows.cell(), rows.last(), &AtomicU64::new(1), 1);
        ensure!(!elsewhere, "a thread counted in row {}, where it is not", rows.last());
        Ok(())
    })?;
    let count: Count<'_> =
        &|cell, guard, expected| (operations.current)().filter(|&slot| count_in(cell, slot, guard, expected));
    check(runner, operations, count)
}

fn check(runner: &dyn Runner, operations: &Operations, count: Count<'_>) -> Outcome {
    let common = Account::new()?;
    alone(runner, || {
        ensure!((operations.current)().is_some(), "a thread that entered has no slot");
        let guard = AtomicU64::new(1);
        let counts = |expected| (0..10_000).any(|_| common.count(count, &guard, expected));
        ensure!(!counts(2), "a thread counted though the guard is another one");
        // It may move in between, and then not count.
        ensure!(counts(1), "a thread that has a slot never counts");
        Ok(())
    })?;
    let own = (0..runner.width()).map(|_| Guarded::new()).collect::<Result<Vec<_>, _>>()?;
    let places = Places::<AtomicU64>::new(runner.width());
    let of = |place: &AtomicU64| &own[place.load(Ordering::Relaxed) as usize];
    let work = |number| {
        (operations.current)();
        places.settle(number).store(number as u64, Ordering::Relaxed);
        let own = &own[number];
        while runner.goes_on() {
            for _ in 0..BURST {
                own.count(count);
                common.count(count, &own.guard, own.guard.load(Ordering::Relaxed));
            }
        }
    };
    let handler = || {
        let Some(own) = places.own().map(of) else { return };
        own.count(count);
        own.change();
    };
    under_restarts(runner, operations, &handler, &work);
    let mut counts = common.settle()?;
    for own in &own {
        counts += own.settle()?;
    }
    let changes: u64 = own.iter().map(|own| own.guard.load(Ordering::Relaxed)).sum();
    ensure!(counts > BURST as u64 && changes > 0, "{counts} counts only, and {changes} changes of guards");
    Ok(format!("{counts} counts, {changes} changes of guards"))
}

/// Rows, and what was said to be counted in each.
#[derive(Debug)]
struct Account {
    rows: Rows,
    said: Vec<AtomicU64>,
}

impl Account {
    fn new() -> Result<Self, String> {
        let rows = Rows::new()?;
        rows.prepare_all(BEFORE);
        let said = (0..=rows.last()).map(|_| AtomicU64::new(0)).collect();
        Ok(Account { rows, said })
    }

    fn count(&self, count: Count<'_>, guard: &AtomicU64, expected: u64) -> bool {
        let Some(slot) = count(self.rows.cell(), guard, expected) else { return false };
        // Relaxed: read when the threads have ended.
        self.said[slot as usize].fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Compares rows with what was said; what was counted.
    fn settle(&self) -> Result<u64, String> {
        let mut sum = 0;
        for slot in self.rows.slots() {
            let said = self.said[slot as usize].load(Ordering::Relaxed);
            let (pair, expected) = (self.rows.pair(slot), Pair { left: BEFORE.left + said, ..BEFORE });
            ensure!(pair == expected, "row {slot} has {pair:?}, where {said} counts were said to make {expected:?}");
            sum += said;
        }
        Ok(sum)
    }
}

/// What only one thread counts in, and its handlers.
#[derive(Debug)]
struct Guarded {
    account: Account,
    guard: AtomicU64,
    /// By guards: what was counted with each, and the sum of all rows when it was changed.
    counted: Vec<AtomicU64>,
    sums: Vec<AtomicU64>,
}

impl Guarded {
    fn new() -> Result<Self, String> {
        let [counted, sums] = [(); 2].map(|()| (0..=CHANGES).map(|_| AtomicU64::new(0)).collect());
        Ok(Guarded { account: Account::new()?, guard: AtomicU64::new(0), counted, sums })
    }

    fn count(&self, count: Count<'_>) {
        let guard = self.guard.load(Ordering::Relaxed);
        if self.account.count(count, &self.guard, guard) {
            self.counted[guard as usize].fetch_add(1, Ordering::Relaxed);
        }
    }

    fn change(&self) {
        let (guard, rows) = (self.guard.load(Ordering::Relaxed), &self.account.rows);
        if guard < CHANGES as u64 {
            let sum = rows.slots().map(|slot| rows.left(slot).load(Ordering::Relaxed) - BEFORE.left).sum();
            self.sums[guard as usize].store(sum, Ordering::Relaxed);
            self.guard.store(guard + 1, Ordering::Relaxed);
        }
    }

    fn settle(&self) -> Result<u64, String> {
        let mut counted = 0;
        for guard in 0..self.guard.load(Ordering::Relaxed) as usize {
            counted += self.counted[guard].load(Ordering::Relaxed);
            let sum = self.sums[guard].load(Ordering::Relaxed);
            ensure!(
                sum == counted,
                "{counted} counts with guards up to {guard}, and {sum} when that was changed: one was done with another guard than it found"
            );
        }
        self.account.settle()
    }
}
