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
use commensal::machine::{kick, slot};
use common::child::act_out;
use common::disturbed::{self, Crowd};
use common::random::Random;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, Ordering};
use std::thread;
use std::time::Instant;

const THREADS: usize = 8;

static CROWD: Crowd = Crowd::new();

/// Rounds until the time is over, disturbed.
fn repeat(usual_seconds: f64, mut round: impl FnMut(&mut Random)) {
    act_out(usual_seconds, |seed, end| {
        disturbed::handle(disturbed::nothing);
        let (mut random, mut rounds) = (Random::new(seed, 0), 0);
        CROWD.disturb_while(seed, || {
            while Instant::now() < end {
                rounds += 1;
                round(&mut random);
            }
        });
        eprintln!("{:?}: {rounds} rounds, kicks made and refused: {:?}", slot::mode(), kick::counts());
    });
}

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
    repeat(0.8, |random| {
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

/// Planted: a limited addition that is refused as soon as the bound has no room, without closing the cells.
#[test]
fn counter_each_of_eight_holds_one_of_eight() {
    repeat(0.6, |random| round_of_holders(1, 1000, random));
}

/// The threads together come near the limit, and go far from it, so that cells are closed and opened again.
///
/// Planted: as above; and cells that are closed but not taken from the sum of edges.
#[test]
fn counter_eight_hold_thousands() {
    repeat(0.8, |random| {
        let part = 500 + random.below(2000) as i64;
        round_of_holders(part, 3000, random);
    });
}

/// Kicks that are refused, some or all, leave stock where it is: then additions are refused too early, by what the slots hold, but none
/// is too many; and when kicks come through again, the rest is there.
///
/// Planted: cells taken for closed although the kick was refused.
#[test]
fn counter_refused_kicks_pass_no_limit() {
    repeat(0.6, |random| {
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

/// Cells are closed again and again while another CPU draws from them: one thread draws as if there was no limit, and so opens its cell
/// again, while the other one finds a limit that is passed already. Some kicks are refused. Nothing else disturbs, so that both run all
/// the time.
///
/// Planted: cells closed without a restart, by a fence, or though the kick was refused.
#[test]
fn counter_cells_are_closed_amid_draws() {
    act_out(0.6, |seed, end| {
        let (counter, stop) = (LazyCounter::new(), AtomicBool::new(false));
        counter.share().expect("there is memory");
        let draw = || {
            disturbed::pin(1);
            let mut added = 0;
            while !stop.load(Ordering::Relaxed) {
                for amount in [1, 2, -1, 3, -4, 1, 2, -2] {
                    assert!(counter.limited_add(amount, i64::MAX), "refused without a limit");
                    added += amount;
                }
            }
            added
        };
        let close = || {
            disturbed::pin(0);
            let (mut random, mut times) = (Random::new(seed, 0), 0);
            while Instant::now() < end {
                // A reading of a counter without open cells is exact.
                for _ in (0..1000).take_while(|_| counter.read().error == 0) {
                    std::hint::spin_loop();
                }
                if random.once_in(8) {
                    fault::arm(Point::Kick, Plan::Once { skip: 0 });
                }
                assert!(!counter.limited_add(1, -1_000_000), "it is far over this limit");
                times += 1;
            }
            stop.store(true, Ordering::Relaxed);
            eprintln!("{:?}: {times} times, kicks made and refused: {:?}", slot::mode(), kick::counts());
        };
        let added = thread::scope(|scope| {
            let drawer = scope.spawn(draw);
            close();
            drawer.join().expect("no panic")
        });
        assert_eq!(counter.sum(), added);
    });
}

/// A counter that is lazy until a signal handler upgrades it and takes all that its limit leaves, or half of that.
static LAZY: AtomicPtr<LazyCounter> = AtomicPtr::new(std::ptr::null_mut());
static TAKEN: AtomicI64 = AtomicI64::new(0);
const LAZY_LIMIT: i64 = 10;

extern "C" fn upgrade_and_take(_signal: libc::c_int) {
    // SAFETY: the counter is there as long as it is named: the thread that has it is the one that is interrupted.
    let Some(counter) = (unsafe { LAZY.load(Ordering::SeqCst).as_ref() }) else { return };
    if !counter.is_shared() {
        counter.share().expect("there is memory");
        let most = if (&raw const *counter).addr() / 64 % 2 == 0 { LAZY_LIMIT / 2 } else { LAZY_LIMIT };
        let taken = (0..most).filter(|_| counter.limited_add(1, LAZY_LIMIT)).count();
        TAKEN.store(taken as i64, Ordering::SeqCst);
    }
}

/// Upgrades in the middle of limited additions: one that began before the upgrade and ends after it keeps the limit, and what it leaves.
///
/// Planted: the remote word not frozen, or looked at but not minded; an addition refused because the word is frozen.
#[test]
fn counter_limits_across_the_upgrade() {
    act_out(0.5, |seed, end| {
        disturbed::handle(upgrade_and_take);
        let (mut upgrades, mut places) = (0, [const { LazyCounter::new() }; 4]);
        CROWD.disturb_while(seed, || {
            let _member = CROWD.enrol();
            while Instant::now() < end {
                places[upgrades % 4] = LazyCounter::bound();
                add_until_upgraded(&places[upgrades % 4]);
                upgrades += 1;
            }
        });
        eprintln!("{:?}: {upgrades} upgrades", slot::mode());
    });
}

fn add_until_upgraded(counter: &LazyCounter) {
    TAKEN.store(0, Ordering::SeqCst);
    LAZY.store((&raw const *counter).cast_mut(), Ordering::SeqCst);
    while !counter.is_shared() {
        let got = counter.limited_add(1, LAZY_LIMIT);
        if counter.is_shared() {
            let (sum, taken) = (counter.sum(), TAKEN.load(Ordering::SeqCst));
            assert!(sum <= LAZY_LIMIT, "{sum} is over {LAZY_LIMIT}, of which a handler took {taken}");
            assert!(got || sum == LAZY_LIMIT, "refused at {sum} of {LAZY_LIMIT}, of which a handler took {taken}");
            assert_eq!(sum, taken + i64::from(got));
        }
        if got {
            counter.sub(1);
        }
    }
    LAZY.store(std::ptr::null_mut(), Ordering::SeqCst);
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
    act_out(0.6, |seed, end| {
        disturbed::handle(add_within);
        CROWD.disturb_while(seed, || {
            let mut random = Random::new(seed, 0);
            while Instant::now() < end {
                round_with_handlers(&mut random);
            }
        });
    });
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
