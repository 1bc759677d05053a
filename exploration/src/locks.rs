//! Locks: exclusion, ranks, and handlers that come on top of whoever holds one or waits for it.

use crate::heaps::crowd;
use crate::protocol::protocols;
use fastrand::Rng;
use machine::simulation::explore::Outcome;
use machine::simulation::{Rates, sleep};
use machine::slot::Mode;
use machine::sync::{Acquired, Contention, Lock};
use machine::{clock, here, thread};
use std::cell::{Cell, RefCell};

protocols! {
    "lock ranks":
        "locks that are held so long that others sleep, with handlers on top that want them, too: nobody waits for ever",
        ranked, Rates { signal: 600, ..Rates::USUAL }, &[Mode::ConcurrencyId] => by_ids ChangesTear;
}

const THREADS: usize = 3;
/// Longer than anybody spins.
const LONG_NS: u64 = 20_000;
/// Whoever sleeps on a lock that nobody holds, and whom nobody wakes, looks again after a second.
const MOST_NS: u64 = 500_000_000;

/// A lock, and whether somebody is in what it guards.
struct Guarded<const RANK: u8> {
    lock: Lock<RANK>,
    is_inside: Cell<bool>,
}

impl<const RANK: u8> Guarded<RANK> {
    fn new() -> Self {
        Guarded { lock: Lock::new(), is_inside: Cell::new(false) }
    }

    /// Does `work` with the lock, unless waiting for it might be for ever.
    fn with(&self, contention: &Contention, work: impl FnOnce()) {
        thread::enter();
        if self.lock.acquire(contention, here!()) == Acquired::WouldDeadlock {
            return;
        }
        assert!(!self.is_inside.replace(true), "two threads hold a lock of rank {RANK}");
        work();
        assert!(self.is_inside.replace(false), "two threads held a lock of rank {RANK}");
        // SAFETY: acquired above.
        unsafe { self.lock.release() };
    }
}

fn ranked(seed: u64) -> Outcome {
    let (low, high, contention) = (Guarded::<1>::new(), Guarded::<2>::new(), Contention::new());
    let choices = RefCell::new(Rng::with_seed(!seed));
    let visit = |choice: u8, stay: &dyn Fn()| match choice % 3 {
        0 => low.with(&contention, stay),
        1 => high.with(&contention, stay),
        _ => low.with(&contention, || high.with(&contention, stay)),
    };
    let handler = || {
        let choice = choices.borrow_mut().u8(..);
        visit(choice, &|| assert!(clock::now_ns() > 0));
    };
    crowd(THREADS, seed, Some(&handler), &|_, random| {
        for _ in 0..4 {
            let stays_long = random.bool();
            visit(random.u8(..), &|| {
                // Signals cut sleep short.
                let end = clock::now_ns() + if stays_long { LONG_NS } else { 0 };
                while clock::now_ns() < end {
                    sleep(LONG_NS);
                }
            });
        }
    });
    let late = clock::now_ns();
    if late < MOST_NS { Ok(()) } else { Err(format!("it took {late} ns: somebody was not woken")) }
}
