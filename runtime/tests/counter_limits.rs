//! Limited additions: never over the limit, never refused while there is room.
//!
//! Eight threads, disturbed as in tests/counters.rs, race for what a limit leaves. Whether one is *over* is told without the counter: each
//! thread counts what it got, and says that it holds something only after it got it and no longer than until it gives it back. `COMMENSAL_TEST_EFFORT`
//! multiplies how long each test takes in each mode of the machine.
//!
//! Planted, each found here: see the tests.

mod common;

use commensal::counter::LazyCounter;
use commensal::machine::fault::{self, Plan, Point};
use commensal::machine::slot;
use common::disturbed::{self, Crowd};
use common::random::Random;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread;

const THREADS: usize = 8;

static CROWD: Crowd = Crowd::new();

/// Adds one by one, from several threads, until each is refused; how often it was not.
fn race(counter: &LazyCounter, limit: i64) -> i64 {
    let run = || {
        let _member = CROWD.enrol();
        (0..).take_while(|_| counter.limited_add(1, limit)).count() as i64
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(run)).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    })
}

/// A limit at which no slot has stock, one that is near when a counter is upgraded by itself, one at which some slots have stock, and one
/// that takes a while to reach.
fn some_limit(random: &mut Random) -> i64 {
    let most = [8, 200, 4000, 30_000][random.below(4)];
    random.below(most) as i64
}

/// Looks whether the counter is ever over the limit, until told to stop.
fn watch(counter: &LazyCounter, limit: i64, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let sum = counter.sum();
        assert!(sum <= limit, "{sum} is over {limit}");
    }
}

/// Planted: the remote word not frozen; stock raised without a second look at the limit, or before the sum of edges; cells closed without
/// a restart; a limited addition past the cells that adds without comparing.
#[test]
fn counter_as_many_as_the_limit() {
    CROWD.repeat(0.8, disturbed::nothing, |random| {
        let (counter, limit, stop) = (LazyCounter::new(), some_limit(random), AtomicBool::new(false));
        if random.once_in(3) {
            counter.share().expect("there is memory");
        }
        let added = thread::scope(|scope| {
            scope.spawn(|| watch(&counter, limit, &stop));
            if random.once_in(2) {
                // In the middle of the race, if it takes that long.
                scope.spawn(|| counter.share().expect("there is memory"));
            }
            let added = race(&counter, limit);
            stop.store(true, Ordering::Relaxed);
            added
        });
        assert_eq!((added, counter.sum()), (limit, limit), "upgraded: {}", counter.is_shared());
    });
}

/// Several hold what they got for a moment, and give it back. Nobody wants more than its part of the limit, so nobody is ever refused.
fn hold_and_give_back(counter: &LazyCounter, part: i64, turns: usize, held: &AtomicI64, mut random: Random) {
    let _member = CROWD.enrol();
    let (mut own, limit) = (0, part * THREADS as i64);
    for _ in 0..turns {
        let amount = 1 + random.below(part as usize) as i64;
        if own + amount <= part {
            let got = counter.limited_add(amount, limit);
            assert!(got, "refused {amount} while there was room: nobody holds more than {part} of {limit}");
            let held = held.fetch_add(amount, Ordering::SeqCst) + amount;
            assert!(held <= limit, "{held} are held of {limit}");
            own += amount;
        } else {
            let amount = 1 + random.below(own as usize) as i64;
            held.fetch_sub(amount, Ordering::SeqCst);
            counter.sub(amount);
            own -= amount;
        }
    }
    held.fetch_sub(own, Ordering::SeqCst);
    counter.sub(own);
}

fn round_of_holders(part: i64, turns: usize, random: &mut Random) {
    let (counter, held) = (LazyCounter::new(), AtomicI64::new(0));
    if random.once_in(2) {
        counter.share().expect("there is memory");
    }
    thread::scope(|scope| {
        for _ in 0..THREADS {
            let (counter, held, random) = (&counter, &held, Random::new(random.next(), 0));
            scope.spawn(move || hold_and_give_back(counter, part, turns, held, random));
        }
    });
    assert_eq!(counter.sum(), 0);
}

/// Each of eight holds one of eight; or the threads together come near a limit of thousands, and go far from it, so that cells are closed and opened
/// again.
///
/// Planted: a limited addition that is refused as soon as the bound has no room, without closing the cells; and cells that are closed but not taken from
/// the sum of edges.
#[test]
fn counter_nobody_is_refused_while_there_is_room() {
    CROWD.repeat(1.0, disturbed::nothing, |random| match random.once_in(2) {
        true => round_of_holders(1, 1000, random),
        false => round_of_holders(500 + random.below(2000) as i64, 3000, random),
    });
}

/// Kicks that are refused, some or all, leave stock where it is: then additions are refused too early, by what the slots hold, but none
/// is too many; and when kicks come through again, the rest is there.
///
/// Planted: cells taken for closed although the kick was refused.
#[test]
fn counter_refused_kicks_pass_no_limit() {
    CROWD.repeat(0.6, disturbed::nothing, |random| {
        let (counter, limit) = (LazyCounter::new(), some_limit(random));
        counter.share().expect("there is memory");
        let plan = match random.below(3) {
            0 => Plan::Always { skip: 0 },
            1 => Plan::Always { skip: random.below(3) as u32 },
            _ => Plan::Once { skip: random.below(3) as u32 },
        };
        fault::arm(Point::Kick, plan);
        let added = race(&counter, limit);
        fault::arm(Point::Kick, Plan::Never);
        assert_eq!(added, counter.sum());
        let most_stock = 1024 * i64::from(slot::in_use() + 1);
        assert!((limit - most_stock..=limit).contains(&added), "{added} of {limit} with refused kicks");
        let rest = race(&counter, limit);
        assert_eq!((added + rest, counter.sum()), (limit, limit), "{added}, then {rest}");
    });
}

/// The counter to which signal handlers add, within its limit; what they added.
static HANDLED: LazyCounter = LazyCounter::new();
static HANDLED_LIMIT: AtomicI64 = AtomicI64::new(0);
static HANDLERS_ADDED: AtomicI64 = AtomicI64::new(0);

extern "C" fn add_within(_signal: libc::c_int) {
    let added = (0..3).filter(|_| HANDLED.limited_add(1, HANDLED_LIMIT.load(Ordering::Relaxed))).count();
    HANDLERS_ADDED.fetch_add(added as i64, Ordering::Relaxed);
}

/// Handlers find the lock held: by the thread that they interrupted, for this counter or for another one whose turn it is elsewhere.
///
/// Planted: a handler that adds without comparing.
#[test]
fn counter_handlers_pass_no_limit() {
    CROWD.repeat(0.6, add_within, round_with_handlers);
}

fn round_with_handlers(random: &mut Random) {
    let other = LazyCounter::new();
    let before = HANDLED.sum();
    HANDLERS_ADDED.store(0, Ordering::Relaxed);
    let limit = before + some_limit(random);
    HANDLED_LIMIT.store(limit, Ordering::SeqCst);
    HANDLED.share().and(other.share()).expect("there is memory");
    let run = &|odd: bool| {
        let _member = CROWD.enrol();
        let mut added = 0;
        loop {
            // Most of the time in the middle of a slow path.
            (0..20).for_each(|_| other.add(if odd { 1500 } else { -1500 }));
            match (0..20).take_while(|_| HANDLED.limited_add(1, limit)).count() {
                0 => return added,
                some => added += some as i64,
            }
        }
    };
    let added: i64 = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|number| scope.spawn(move || run(number % 2 == 1))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    });
    let handled = HANDLERS_ADDED.load(Ordering::Relaxed);
    assert_eq!(HANDLED.sum(), limit, "threads added {added}, handlers {handled}");
    assert_eq!(before + added + handled, limit);
}
