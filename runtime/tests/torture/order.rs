//! Whether sections and grace periods are in order.
//!
//! One thread writes x, waits for a grace period, and reads y; its partner writes y and reads x, in either order in a section, or in this one with a grace
//! period in between. At least one reads what the other one wrote: a section that does not see what came before the grace period is waited for, and what
//! it did is seen after it; and a grace period is a full fence. `orders` says how often they met, and how often each read what the other one had written:
//! both should happen. A section that reads first shows whether it is waited for, one that writes first, and whatever its partner's store overtakes, the fences.

use super::{CROWD, STOP, count, dawdle, goes_on, of, read_guard, wait};
use crate::common::random::Random;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// What two partners write and read, each time anew.
static X: AtomicU64 = AtomicU64::new(0);
static Y: AtomicU64 = AtomicU64::new(0);
/// What the partner read.
static READ: AtomicU64 = AtomicU64::new(0);
/// The turn that has begun, and the last one that the partner is through with.
static TURN: AtomicU64 = AtomicU64::new(0);
static OVER: AtomicU64 = AtomicU64::new(0);
/// How often neither saw what the other one wrote, which must not be, only the leader did, only its partner, and both.
static SEEN: [AtomicU64; 4] = [const { AtomicU64::new(0) }; 4];

pub fn failures() -> u64 {
    of(&SEEN[0])
}

pub fn both_were_first() -> bool {
    of(&SEEN[1]) > 0 && of(&SEEN[2]) > 0
}

pub fn report() -> String {
    let [_, one, other, both] = SEEN.each_ref().map(of);
    format!("orders: {both} both saw, {one} one, {other} the other")
}

/// Has the partner begin a turn, and sees what both read.
pub fn lead(random: &mut Random) {
    let _member = CROWD.enrol();
    for turn in 1.. {
        TURN.store(turn, Ordering::Release);
        // A partner that sleeps is overtaken, unless it is waited for.
        (0..random.below(4)).for_each(|_| thread::yield_now());
        (0..random.below(300)).for_each(|_| spin_loop());
        X.store(turn, Ordering::Relaxed);
        wait(random);
        let left = Y.load(Ordering::Relaxed);
        while OVER.load(Ordering::Acquire) < turn {
            if STOP.load(Ordering::Relaxed) {
                return;
            }
            thread::yield_now();
        }
        let right = READ.load(Ordering::Relaxed);
        count(&SEEN[usize::from(left == turn) + 2 * usize::from(right == turn)]);
        if !goes_on() {
            return;
        }
    }
}

/// The partner: a section for most turns, another grace period for the others.
pub fn follow(random: &mut Random) {
    let _member = CROWD.enrol();
    for turn in 1.. {
        while TURN.load(Ordering::Acquire) < turn {
            if STOP.load(Ordering::Relaxed) {
                return;
            }
            thread::yield_now();
        }
        (0..random.below(300)).for_each(|_| spin_loop());
        let write = || Y.store(turn, Ordering::Relaxed);
        let read = || READ.store(X.load(Ordering::Relaxed), Ordering::Relaxed);
        if random.once_in(4) {
            write();
            wait(random);
            read();
        } else {
            let reads_first = random.once_in(2);
            let (first, last): (&dyn Fn(), &dyn Fn()) = if reads_first { (&read, &write) } else { (&write, &read) };
            let _section = read_guard();
            first();
            dawdle(random);
            last();
        }
        OVER.store(turn, Ordering::Release);
    }
}
