//! Whether sections and grace periods are in order.
//!
//! One thread writes x, waits for a grace period, and reads y; its partner writes y and reads x, in either order in a section, or in this one with a grace
//! period in between. At least one reads what the other one wrote: a section that does not see what came before the grace period is waited for, and what
//! it did is seen after it; and a grace period is a full fence. `orders` says how often they met, and how often each read what the other one had written:
//! both should happen. A section that reads first shows whether it is waited for, one that writes first, and whatever its partner's store overtakes, the fences.

use super::{Flavour, RIG, count, dawdle, goes_on};
use crate::common::random::Random;
use std::fmt;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// What two partners write and read, each time anew.
pub struct Orders {
    x: AtomicU64,
    y: AtomicU64,
    /// The turn that has begun, and the last one that the partner is through with.
    turn: AtomicU64,
    over: AtomicU64,
    /// What the partner read.
    read: AtomicU64,
    met: AtomicU64,
    left_saw: AtomicU64,
    right_saw: AtomicU64,
    neither_saw: AtomicU64,
}

pub static ORDERS: Orders = Orders {
    x: AtomicU64::new(0),
    y: AtomicU64::new(0),
    turn: AtomicU64::new(0),
    over: AtomicU64::new(0),
    read: AtomicU64::new(0),
    met: AtomicU64::new(0),
    left_saw: AtomicU64::new(0),
    right_saw: AtomicU64::new(0),
    neither_saw: AtomicU64::new(0),
};

impl Orders {
    /// Times neither saw what the other one wrote: never.
    pub fn failures(&self) -> u64 {
        self.neither_saw.load(Ordering::Relaxed)
    }

    /// Whether each came first at least once.
    pub fn met(&self) -> bool {
        [&self.left_saw, &self.right_saw].iter().all(|times| times.load(Ordering::Relaxed) > 0)
    }
}

impl fmt::Display for Orders {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [both, one, other] =
            [&self.met, &self.left_saw, &self.right_saw].map(|times| times.load(Ordering::Relaxed));
        write!(out, "orders: {both} both saw, {one} one, {other} the other")
    }
}

/// Has the partner begin a turn, and sees what both read.
pub fn lead<F: Flavour>(flavour: F, random: &mut Random) {
    let _member = RIG.crowd.enrol();
    let orders = &ORDERS;
    for turn in 1.. {
        orders.turn.store(turn, Ordering::Release);
        // A partner that sleeps is overtaken, unless it is waited for.
        (0..random.below(4)).for_each(|_| thread::yield_now());
        (0..random.below(300)).for_each(|_| spin_loop());
        orders.x.store(turn, Ordering::Relaxed);
        flavour.wait(random);
        let left = orders.y.load(Ordering::Relaxed);
        while orders.over.load(Ordering::Acquire) < turn {
            if RIG.stop.load(Ordering::Relaxed) {
                return;
            }
            thread::yield_now();
        }
        let right = orders.read.load(Ordering::Relaxed);
        count(match (left == turn, right == turn) {
            (true, true) => &orders.met,
            (true, false) => &orders.left_saw,
            (false, true) => &orders.right_saw,
            (false, false) => &orders.neither_saw,
        });
        if !goes_on() {
            return;
        }
    }
}

/// The partner: a section for most turns, another grace period for the others.
pub fn follow<F: Flavour>(flavour: F, random: &mut Random) {
    let _member = RIG.crowd.enrol();
    let orders = &ORDERS;
    for turn in 1.. {
        while orders.turn.load(Ordering::Acquire) < turn {
            if RIG.stop.load(Ordering::Relaxed) {
                return;
            }
            thread::yield_now();
        }
        (0..random.below(300)).for_each(|_| spin_loop());
        let write = || orders.y.store(turn, Ordering::Relaxed);
        let read = || orders.read.store(orders.x.load(Ordering::Relaxed), Ordering::Relaxed);
        if random.once_in(4) {
            write();
            flavour.wait(random);
            read();
        } else {
            let reads_first = random.once_in(2);
            let (first, last): (&dyn Fn(), &dyn Fn()) = if reads_first { (&read, &write) } else { (&write, &read) };
            let _section = flavour.read();
            first();
            dawdle(random);
            last();
        }
        orders.over.store(turn, Ordering::Release);
    }
}
