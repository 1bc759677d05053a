//! Cells: no update is lost, a value that somebody has stays whole, and each is dropped once.

use crate::heaps::crowd;
use crate::protocol::{BOTH, protocols};
use commensal_runtime::rcu;
use fastrand::Rng;
use machine::simulation::explore::Outcome;
use machine::simulation::{Rates, pause};
use machine::sync::{AtomicI64, AtomicU64, Ordering};
use std::cell::Cell;

protocols! {
    "cell updates":
        "threads that update a cell at the same time, each from the value that it found, beside readers and handlers",
        updated, Rates { signal: 60, ..Rates::USUAL }, BOTH
            => by_ids SectionsGoOn, by_ids ChangesTear, in_fallback ChangesTear;
}

const UPDATERS: usize = 2;
const READERS: usize = 2;
const UPDATES: u64 = 5;

thread_local! {
    /// Values of the simulation that runs here that are alive: a drop has nothing but the value.
    static ALIVE: Cell<*const AtomicI64> = const { Cell::new(std::ptr::null()) };
}

fn alive() -> &'static AtomicI64 {
    // SAFETY: it outlives all values.
    unsafe { &*ALIVE.get() }
}

/// A number twice. When it is gone, both are the same.
struct Pair(AtomicU64, AtomicU64);

impl Pair {
    fn new(number: u64) -> Self {
        alive().fetch_add(1, Ordering::Relaxed);
        Pair(AtomicU64::new(number), AtomicU64::new(!number))
    }

    fn check(&self) -> u64 {
        let (number, other) = (self.0.load(Ordering::Relaxed), self.1.load(Ordering::Relaxed));
        assert!(other == !number, "a value is gone that somebody has: {number} and {other}");
        number
    }
}

impl Clone for Pair {
    fn clone(&self) -> Self {
        Pair::new(self.check())
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        self.check();
        self.1.store(self.0.load(Ordering::Relaxed), Ordering::Relaxed);
        alive().fetch_sub(1, Ordering::Relaxed);
    }
}

/// One to three updates. Notes each value that was replaced, of which some are kept for a while.
fn update(cell: &rcu::Cell<Pair>, replaced: &[AtomicU64], kept: &mut Vec<rcu::Replaced<Pair>>, random: &mut Rng) {
    let next = |now: &Pair| Pair::new(now.check() + 1);
    // There is none left for a moment if the machine refuses memory.
    let Ok(old) = cell.rcu(next) else { return update(cell, replaced, kept, random) };
    let times = replaced[old.check() as usize].fetch_add(1, Ordering::Relaxed);
    assert_eq!(times, 0, "an update is lost: {} was replaced twice", old.check());
    kept.push(old);
    kept.iter().for_each(|old| _ = old.check());
    if random.bool() {
        kept.swap_remove(random.usize(..kept.len()));
    }
}

fn read(cell: &rcu::Cell<Pair>, last: &mut u64, random: &mut Rng) {
    let number = if random.u8(..4) == 0 {
        cell.load_full().check()
    } else {
        let now = cell.load();
        let number = now.check();
        for _ in 0..random.usize(..20) {
            assert_eq!(now.check(), number);
        }
        number
    };
    assert!(number >= *last, "{number} was found after {last}");
    *last = number;
    pause();
}

fn updated(seed: u64) -> Outcome {
    let ours = AtomicI64::new(0);
    ALIVE.set(&ours);
    let Ok(cell) = rcu::Cell::new(Pair::new(0)) else { return Ok(()) };
    let replaced = [const { AtomicU64::new(0) }; UPDATERS * UPDATES as usize + 1];
    let handler = || _ = cell.load().check();
    crowd(UPDATERS + READERS, seed, Some(&handler), &|thread, random| {
        let (mut kept, mut last) = (Vec::new(), 0);
        match thread {
            0..UPDATERS => (0..UPDATES).for_each(|_| update(&cell, &replaced, &mut kept, random)),
            _ => (0..10).for_each(|_| read(&cell, &mut last, random)),
        }
    });
    let (all, found) = (UPDATERS as u64 * UPDATES, cell.load().check());
    if found != all {
        return Err(format!("updates were lost: {found} are left of {all}"));
    }
    drop(cell);
    rcu::barrier();
    match ours.load(Ordering::Relaxed) {
        0 => Ok(()),
        values => Err(format!("{values} values are alive that nobody has")),
    }
}
