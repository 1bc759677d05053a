//! Counters that eight threads change at once, with everything that disturbs restartable operations, and with handlers that add, too.
//!
//! Each test is made of rounds, each with counters of its own, so that they are new, owned, upgraded and dropped many times; in both
//! modes of the machine. What is checked: at the end of a round a sum is what was added, and blocks that were used are given back; a
//! limit is never passed, and nothing is refused while there is room. What readers see meanwhile is explored
//! (`exploration/src/counters.rs`).

mod common;

use commensal_runtime::counter::{CounterSet, DEFAULT_RANGE, LazyCounter};
use commensal_runtime::machine::fault::{self, Plan, Point};
use commensal_runtime::machine::slot;
use commensal_runtime::percpu::Area;
use common::disturbed::{self, Crowd};
use common::random::Random;
use std::array;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI64, AtomicPtr, AtomicUsize, Ordering};
use std::thread;

const THREADS: usize = 8;
const COUNTERS: usize = 3;

type Set = CounterSet<COUNTERS>;

static CROWD: Crowd = Crowd::new();

/// The set to which signal handlers add, what they added, and the limit that they keep.
static HANDLED: AtomicPtr<Set> = AtomicPtr::new(null_mut());
static HANDLERS_ADDED: [AtomicI64; COUNTERS] = [const { AtomicI64::new(0) }; COUNTERS];
static LIMIT: AtomicI64 = AtomicI64::new(0);

/// Does `work` while handlers add to the set, if there is one; what they added.
fn with_handlers(set: Option<&Set>, work: impl FnOnce()) -> [i64; COUNTERS] {
    HANDLED.store(set.map_or(null_mut(), |set| (&raw const *set).cast_mut()), Ordering::SeqCst);
    work();
    HANDLED.store(null_mut(), Ordering::SeqCst);
    HANDLERS_ADDED.each_ref().map(|added| added.swap(0, Ordering::Relaxed))
}

fn handled() -> Option<&'static Set> {
    // SAFETY: the set is there as long as it is named: threads that are interrupted end before.
    unsafe { HANDLED.load(Ordering::SeqCst).as_ref() }
}

extern "C" fn add_too(_signal: libc::c_int) {
    static HANDLERS: AtomicUsize = AtomicUsize::new(0);
    let Some(set) = handled() else { return };
    let number = HANDLERS.fetch_add(1, Ordering::Relaxed);
    let (index, amount) = (number % COUNTERS, [1, -3, 700, -2500][number % 4]);
    match number / 4 % 8 {
        0 if !set.limited_add(index, amount, i64::MAX) => return,
        0 => {}
        1 => set.add_remote(index, amount),
        2 => {
            set.share().expect("there is memory, also where a handler interrupts the taking of it");
            set.add(index, amount);
        }
        3 => {
            let own = LazyCounter::new();
            own.add_remote(1 << 40);
            return assert_eq!(own.sum(), 1 << 40, "what had no room in a remote word is lost");
        }
        _ => set.add(index, amount),
    }
    HANDLERS_ADDED[index].fetch_add(amount, Ordering::Relaxed);
}

extern "C" fn add_within(_signal: libc::c_int) {
    let Some(set) = handled() else { return };
    let added = (0..3).filter(|_| set.limited_add(0, 1, LIMIT.load(Ordering::Relaxed))).count();
    HANDLERS_ADDED[0].fetch_add(added as i64, Ordering::Relaxed);
}

/// Does `work` as so many threads, and as the calling one if that owns the set; with random choices for each.
fn crowd<R: Send>(others: usize, owner: bool, random: &mut Random, work: impl Fn(bool, Random) -> R + Sync) -> Vec<R> {
    let run = |owns: bool, random: Random| {
        let _member = CROWD.enrol();
        work(owns, random)
    };
    thread::scope(|scope| {
        let start = |_| {
            let (run, random) = (&run, Random::new(random.next(), 0));
            scope.spawn(move || run(false, random))
        };
        let threads: Vec<_> = (0..others).map(start).collect();
        let own = owner.then(|| run(true, Random::new(random.next(), 0)));
        threads.into_iter().map(|thread| thread.join().expect("no panic")).chain(own).collect()
    })
}

/// An amount: mostly such that a slot's stock lasts for a while, sometimes more than one, sometimes more than a remote word holds.
fn amount(random: &mut Random) -> i64 {
    let size = match random.below(64) {
        0 => 1 << 32,
        1 | 2 => 1 << 11,
        3..8 => 1 << 8,
        _ => 1 << 3,
    };
    random.below(2 * size + 1) as i64 - size as i64
}

/// When a set is announced as shared.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Announced {
    AtOnce,
    /// By several threads at about the same time.
    InTheMiddle,
    /// Not at all: it is upgraded by itself, or not.
    Never,
}

fn add_for_a_while(set: &Set, announced: Announced, owns: bool, steps: usize, mut random: Random) -> [i64; COUNTERS] {
    let mut added = [0; COUNTERS];
    for step in 0..steps {
        if announced == Announced::InTheMiddle && step == steps / 2 {
            set.share().expect("there is memory");
        }
        if random.once_in(500) {
            disturbed::migrate(&mut random);
        }
        let (index, mut amount) = (random.below(COUNTERS), amount(&mut random));
        match random.below(256) {
            // Handlers interrupt the taking of memory.
            0 => {
                LazyCounter::new().share().expect("there is memory");
                amount = 0;
            }
            1..4 => amount = -set.reset(index),
            4..20 => set.add_remote(index, amount),
            // SAFETY: the thread owns the set, until it is upgraded.
            20..64 if owns => unsafe { set.add_local(index, amount) },
            64..80 => set.sub(index, -amount),
            80..96 => assert!(set.limited_add(index, amount, i64::MAX), "there is always room"),
            _ => set.add(index, amount),
        }
        added[index] += amount;
    }
    added
}

fn round_of_sums(random: &mut Random) {
    let announced = [Announced::AtOnce, Announced::InTheMiddle, Announced::Never][random.below(3)];
    let (owned, steps) = (random.once_in(2), [10, 300, 3000][random.below(3)]);
    let others = if owned && random.once_in(4) { 0 } else { THREADS };
    let set = if owned { Set::bound() } else { Set::new() };
    if announced == Announced::AtOnce {
        set.share().expect("there is memory");
    }
    let (handled, mut all) = (random.once_in(2).then_some(&set), Vec::new());
    let by_handlers = with_handlers(handled, || {
        all = crowd(others, owned, random, |owns, mut random| {
            let steps = random.below(steps);
            add_for_a_while(&set, announced, owns, steps, random)
        });
    });
    all.push(by_handlers);
    let added: [i64; COUNTERS] = array::from_fn(|index| all.iter().map(|added| added[index]).sum());
    let sums = array::from_fn(|index| set.sum(index));
    assert_eq!(sums, added, "{announced:?}, owned: {owned}, upgraded: {}", set.is_shared());
}

/// Planted: stock drawn by a plain load and store (the slot looked up before), an upgrade by a plain store, `add_slow` that forgets the
/// amount where somebody holds the lock, an owner that is anybody, the owner's addition by a load and a store, a reset that stores zero, a
/// handler that finds the lock held and adds nothing, and an amount that is dropped where there is no block.
#[test]
fn counter_sums_are_exact() {
    CROWD.repeat(2.0, add_too, |random| {
        round_of_sums(random);
        assert!(Area::of_process().is_none_or(|area| area.in_use() == 0), "blocks were not given back");
    });
}

/// Adds one by one, from several threads, until each is refused; how often it was not.
fn race(set: &Set, limit: i64, random: &mut Random) -> i64 {
    let run = |_, mut random: Random| {
        let (mut added, change) = (0, if random.once_in(2) { 1500 } else { -1500 });
        loop {
            // Handlers come in the middle of a slow path, and find the lock held.
            (0..random.below(20)).for_each(|_| set.add(1, change));
            if random.once_in(16) {
                set.share().expect("there is memory");
            }
            let some = (0..200).take_while(|_| set.limited_add(0, 1, limit)).count() as i64;
            assert!(set.sum(0) <= limit, "{} is over {limit}", set.sum(0));
            if some == 0 {
                return added;
            }
            added += some;
        }
    };
    crowd(THREADS, false, random, run).into_iter().sum()
}

/// Several race for what a limit leaves, handlers among them. Kicks that are refused leave stock where it is: then additions are
/// refused too early, by what the slots hold, but none is too many; and when kicks come through again, the rest is there.
fn round_of_limits(random: &mut Random) {
    // At which no slot has stock; near when a counter is upgraded by itself; some slots have stock; and one that takes a while.
    let most = [8, 200, 4000, 30_000][random.below(4)];
    let (set, limit) = (Set::new(), random.below(most) as i64);
    LIMIT.store(limit, Ordering::SeqCst);
    if random.once_in(2) {
        set.share().expect("there is memory");
    }
    let plan = match random.below(6) {
        0 => Plan::Always { skip: random.below(3) as u32 },
        1 => Plan::Once { skip: random.below(3) as u32 },
        _ => Plan::Never,
    };
    fault::arm(Point::Kick, plan);
    let mut added = 0;
    let by_handlers = with_handlers(Some(&set), || added = race(&set, limit, random))[0];
    fault::arm(Point::Kick, Plan::Never);
    added += by_handlers;
    assert_eq!(added, set.sum(0));
    let most_stock = if plan == Plan::Never { 0 } else { i64::from(DEFAULT_RANGE) * i64::from(slot::in_use() + 1) };
    assert!((limit - most_stock..=limit).contains(&added), "{added} of {limit}, with {plan:?}");
    let rest = race(&set, limit, random);
    assert_eq!((added + rest, set.sum(0)), (limit, limit), "{added}, then {rest}");
}

/// Several hold what they got for a moment, and give it back. Nobody wants more than its part of the limit, so nobody is ever refused.
///
/// Whether one is *over* is told without the counter: each says that it holds something only after it got it, and no longer than until it
/// gives it back.
fn round_of_holders(part: i64, turns: usize, random: &mut Random) {
    let (set, held, limit) = (Set::new(), AtomicI64::new(0), part * THREADS as i64);
    if random.once_in(2) {
        set.share().expect("there is memory");
    }
    crowd(THREADS, false, random, |_, mut random| {
        let mut own = 0;
        let give_back = |amount: i64| {
            held.fetch_sub(amount, Ordering::SeqCst);
            set.sub(0, amount);
        };
        for _ in 0..turns {
            let amount = 1 + random.below(part as usize) as i64;
            if own + amount <= part {
                let got = set.limited_add(0, amount, limit);
                assert!(got, "refused {amount} while there was room: nobody holds more than {part} of {limit}");
                let held = held.fetch_add(amount, Ordering::SeqCst) + amount;
                assert!(held <= limit, "{held} are held of {limit}");
                own += amount;
            } else {
                let amount = 1 + random.below(own as usize) as i64;
                give_back(amount);
                own -= amount;
            }
        }
        give_back(own);
    });
    assert_eq!(set.sum(0), 0);
}

/// Each of eight holds one of eight; or the threads together come near a limit of thousands, and go far from it, so that cells are closed
/// and opened again.
///
/// Planted: the remote word not frozen; stock raised without a second look at the limit, or before the sum of edges; cells closed without
/// a restart, or taken for closed although the kick was refused; a limited addition past the cells, or in a handler, that adds without
/// comparing; one that is refused as soon as the bound has no room, without closing the cells; cells that are closed but not taken from the
/// sum of edges.
#[test]
fn counter_limits_are_reached_and_never_passed() {
    CROWD.repeat(2.0, add_within, |random| match random.below(4) {
        0 => round_of_holders(1, 1000, random),
        1 => round_of_holders(500 + random.below(2000) as i64, 3000, random),
        _ => round_of_limits(random),
    });
}
