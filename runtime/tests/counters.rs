//! Counters that eight threads change at once, with everything that disturbs restartable operations.
//!
//! Each test is made of rounds, each with counters of its own, so that they are new, owned, upgraded and dropped many times; in both modes of
//! the machine. What is checked: at the end of a round a sum is what was added; while it goes on, what is read is within the bound that
//! comes with it, whatever is added, subtracted, upgraded or refused meanwhile; blocks that were used are given back.
//! `COMMENSAL_TEST_EFFORT` multiplies how long each test takes in each mode.
//!
//! Planted, each found here: see the tests.

mod common;

use commensal::counter::{CounterSet, DEFAULT_RANGE, LazyCounter};
use commensal::machine::slot;
use commensal::percpu::Area;
use common::accounts::{self, Account};
use common::disturbed::{self, Crowd};
use common::random::Random;
use std::array;
use std::cmp::Ordering as Order;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

const THREADS: usize = 8;
const COUNTERS: usize = 3;

static CROWD: Crowd = Crowd::new();

/// When a set is announced as shared.
#[derive(Clone, Copy, Debug)]
enum Announced {
    AtOnce,
    /// By several threads at about the same time.
    InTheMiddle,
    /// Not at all: it is upgraded by itself, or not.
    Never,
}

impl Announced {
    fn any(random: &mut Random) -> Self {
        [Announced::AtOnce, Announced::InTheMiddle, Announced::Never][random.below(3)]
    }
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

fn add_for_a_while(
    set: &CounterSet<COUNTERS>, announced: Announced, owns: bool, most_steps: usize, mut random: Random,
) -> [i64; COUNTERS] {
    let _member = CROWD.enrol();
    let steps = random.below(most_steps);
    let middle = steps / 2;
    let mut added = [0; COUNTERS];
    for step in 0..steps {
        if matches!(announced, Announced::InTheMiddle) && step == middle {
            set.share().expect("there is memory");
        }
        if random.once_in(500) {
            disturbed::migrate(&mut random);
        }
        let (index, amount) = (random.below(COUNTERS), amount(&mut random));
        match random.below(16) {
            0 => set.add_remote(index, amount),
            // SAFETY: the thread owns the set, until it is upgraded.
            1..4 if owns => unsafe { set.add_local(index, amount) },
            4 => set.sub(index, -amount),
            5 if !set.limited_add(index, amount, i64::MAX) => panic!("there is always room"),
            5 => {}
            _ => set.add(index, amount),
        }
        added[index] += amount;
    }
    added
}

fn one_round(random: &mut Random) {
    let (announced, owned, steps) = (Announced::any(random), random.once_in(2), [10, 300, 3000][random.below(3)]);
    let set = if owned { CounterSet::bound() } else { CounterSet::new() };
    if matches!(announced, Announced::AtOnce) {
        set.share().expect("there is memory");
    }
    let added = thread::scope(|scope| {
        let start = |_| {
            scope.spawn({
                let (set, random) = (&set, Random::new(random.next(), 0));
                move || add_for_a_while(set, announced, false, steps, random)
            })
        };
        let threads: [_; THREADS] = array::from_fn(start);
        let own = owned.then(|| add_for_a_while(&set, announced, true, steps, Random::new(random.next(), 1)));
        let others = threads.map(|thread| thread.join().expect("no panic"));
        others.into_iter().chain(own).reduce(|some, more| array::from_fn(|index| some[index] + more[index]))
    });
    let sums = array::from_fn(|index| set.sum(index));
    assert_eq!(Some(sums), added, "{announced:?}, owned: {owned}, upgraded: {}", set.is_shared());
}

/// Planted: stock drawn by a plain load and store (the slot looked up before), an upgrade by a plain store, `add_slow` that forgets the
/// amount where somebody holds the lock, an owner that is anybody.
#[test]
fn counter_sums_are_exact() {
    CROWD.repeat(1.0, disturbed::nothing, |random| {
        one_round(random);
        assert!(Area::of_process().is_none_or(|area| area.in_use() == 0), "blocks were not given back");
    });
}

/// Threads that add, while one takes out what is there, again and again; and sets what is left.
///
/// Planted: a reset that stores zero, and loses what came after the sum.
#[test]
fn counter_resets_lose_nothing() {
    CROWD.repeat(0.5, disturbed::nothing, |random| {
        let (counter, adding) = (LazyCounter::new(), AtomicU64::new(THREADS as u64 - 1));
        let add = |mut random: Random| {
            let _member = CROWD.enrol();
            let amounts = (0..3000).map(|_| random.below(64) as i64 - 16);
            let added: i64 = amounts.inspect(|&amount| counter.add(amount)).sum();
            adding.fetch_sub(1, Ordering::Relaxed);
            added
        };
        let add = &add;
        let (added, taken) = thread::scope(|scope| {
            let adders: [_; THREADS - 1] = array::from_fn(|_| {
                let random = Random::new(random.next(), 0);
                scope.spawn(move || add(random))
            });
            let mut taken = 0;
            while adding.load(Ordering::Relaxed) > 0 {
                taken += counter.reset();
            }
            (adders.map(|adder| adder.join().expect("no panic")).into_iter().sum::<i64>(), taken)
        });
        assert_eq!(counter.sum() + taken, added);
        counter.set(-7);
        assert_eq!((counter.sum(), counter.reset(), counter.sum()), (-7, -7, 0));
    });
}

/// What signal handlers do: they add to this counter, and say so here.
static HANDLED: AtomicPtr<LazyCounter> = AtomicPtr::new(std::ptr::null_mut());
static HANDLERS_ADDED: AtomicI64 = AtomicI64::new(0);
static HANDLERS: AtomicU64 = AtomicU64::new(0);

extern "C" fn add_too(_signal: libc::c_int) {
    // SAFETY: the counter is there as long as it is named: threads that are interrupted end before.
    let Some(counter) = (unsafe { HANDLED.load(Ordering::SeqCst).as_ref() }) else { return };
    let number = HANDLERS.fetch_add(1, Ordering::Relaxed);
    let amount = [1, -3, 700, -2500][number as usize % 4];
    match number / 4 % 8 {
        0 if !counter.limited_add(amount, i64::MAX) => return,
        0 => {}
        1 => counter.add_remote(amount),
        2 => {
            counter.share().expect("there is memory, also where a handler interrupts the taking of it");
            counter.add(amount);
        }
        _ => counter.add(amount),
    }
    HANDLERS_ADDED.fetch_add(amount, Ordering::Relaxed);
}

/// Threads that add, the owner among them, and are interrupted by handlers that add too.
///
/// Planted: the owner's addition by a load and a store; stock drawn by them; a handler that finds the lock held adds nothing.
#[test]
fn counter_handlers_that_add_lose_nothing() {
    CROWD.repeat(1.0, add_too, round_with_handlers);
}

fn round_with_handlers(random: &mut Random) {
    let counter = LazyCounter::bound();
    HANDLERS_ADDED.store(0, Ordering::Relaxed);
    HANDLED.store((&raw const counter).cast_mut(), Ordering::SeqCst);
    let stop = AtomicBool::new(false);
    let add = |random: &mut Random| {
        let _member = CROWD.enrol();
        let mut added = 0;
        while !stop.load(Ordering::Relaxed) {
            let amount = if random.once_in(16) { 300 - random.below(601) as i64 } else { 1 };
            counter.add(amount);
            added += amount;
        }
        added
    };
    let added: i64 = thread::scope(|scope| {
        let others: [_; 3] = array::from_fn(|_| {
            scope.spawn({
                let mut random = Random::new(random.next(), 0);
                move || add(&mut random)
            })
        });
        scope.spawn(|| {
            // The owner is alone with its handlers for a while, then others come; later they are announced.
            thread::sleep(Duration::from_millis(10));
            counter.share().expect("there is memory");
            thread::sleep(Duration::from_millis(10));
            stop.store(true, Ordering::Relaxed);
        });
        let own = add(random);
        own + others.map(|thread| thread.join().expect("no panic")).into_iter().sum::<i64>()
    });
    HANDLED.store(std::ptr::null_mut(), Ordering::SeqCst);
    let handled = HANDLERS_ADDED.load(Ordering::Relaxed);
    assert_eq!(counter.sum(), added + handled, "threads added {added}, handlers {handled}");
}

static HANDLERS_WRONG: AtomicU64 = AtomicU64::new(0);

extern "C" fn upgrade_by_a_large_addition(_signal: libc::c_int) {
    let counter = LazyCounter::new();
    counter.add_remote(1 << 40);
    HANDLERS_WRONG.fetch_add(u64::from(counter.sum() != 1 << 40), Ordering::Relaxed);
}

/// Handlers interrupt the taking of memory, and need some themselves: what they add has no room in a remote word.
///
/// Planted: the amount dropped where there is no block.
#[test]
fn counter_handlers_that_need_memory_get_some() {
    CROWD.repeat(0.4, upgrade_by_a_large_addition, |_| {
        let member = CROWD.enrol();
        (0..1000).for_each(|_| LazyCounter::new().share().expect("there is memory"));
        drop(member);
        assert_eq!(HANDLERS_WRONG.load(Ordering::Relaxed), 0);
        assert_eq!(Area::of_process().map(Area::in_use), Some(0));
    });
}

/// How the threads of a round with a reader add.
#[derive(Clone, Copy, Debug)]
enum Manner {
    /// Only upwards, so that the bounds are narrow.
    Up,
    UpAndDown,
    /// Within limits that are far and near in turn: stock comes and is taken away, also by what is subtracted.
    Limited,
}

fn add_and_tell(counter: &LazyCounter, account: &Account, manner: Manner, stop: &AtomicBool, mut random: Random) {
    let _member = CROWD.enrol();
    while !stop.load(Ordering::Relaxed) {
        let amount = if random.once_in(8) { random.below(1200) } else { 1 + random.below(32) } as i64;
        match manner {
            Manner::Up => account.add(amount, |amount| counter.add(amount)),
            Manner::UpAndDown if random.once_in(2) => account.add(-amount, |amount| counter.add(amount)),
            Manner::UpAndDown => account.add(amount, |amount| counter.add(amount)),
            Manner::Limited if random.once_in(4) => account.add(-amount, |amount| counter.add(amount)),
            Manner::Limited => {
                let near = if random.once_in(4) { counter.sum() + 100 } else { i64::MAX };
                account.try_add(amount, |amount| counter.limited_add(amount, near));
            }
        }
    }
}

/// Reads in all ways, and compares each with what the threads say.
fn read_and_judge(counter: &LazyCounter, accounts: &[Account], stop: &AtomicBool) -> Result<(), String> {
    while !stop.load(Ordering::Relaxed) {
        let upgraded = counter.is_shared();
        let (reading, bounds) = accounts::look(accounts, || counter.read());
        let (least, most) = (reading.value - reading.error as i64, reading.value + reading.error as i64);
        if most < *bounds.start() || least > *bounds.end() {
            return Err(format!("{reading:?} is not of {bounds:?}, upgraded before: {upgraded}"));
        }
        let most_error = u64::from(slot::in_use()) * DEFAULT_RANGE as u64 / 2;
        if reading.error > most_error {
            return Err(format!("{reading:?} may be off by more than {most_error}"));
        }
        let (sum, bounds) = accounts::look(accounts, || counter.sum());
        if !bounds.contains(&sum) {
            return Err(format!("the sum {sum} is not of {bounds:?}, upgraded before: {upgraded}"));
        }
        let with = reading.value;
        let (order, bounds) = accounts::look(accounts, || counter.compare(with));
        let is_possible = match order {
            Order::Less => *bounds.start() < with,
            Order::Equal => bounds.contains(&with),
            Order::Greater => *bounds.end() > with,
        };
        if !is_possible {
            return Err(format!("{order:?} than {with} is not of {bounds:?}, upgraded before: {upgraded}"));
        }
    }
    Ok(())
}

fn round_with_reader(manner: Manner, random: &mut Random) {
    let (counter, accounts) = (LazyCounter::new(), array::from_fn::<_, 4, _>(|_| Account::new()));
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let reader = scope.spawn(|| read_and_judge(&counter, &accounts, &stop));
        for account in &accounts {
            let (counter, stop, random) = (&counter, &stop, Random::new(random.next(), 0));
            scope.spawn(move || add_and_tell(counter, account, manner, stop, random));
        }
        thread::sleep(Duration::from_micros(random.below(4000) as u64));
        if random.once_in(2) {
            counter.share().expect("there is memory");
        }
        thread::sleep(Duration::from_micros(random.below(4000) as u64));
        stop.store(true, Ordering::Relaxed);
        reader.join().expect("no panic").unwrap_or_else(|wrong| panic!("{manner:?}: {wrong}"))
    });
    let reading = counter.read();
    assert_eq!(counter.sum(), accounts::total(&accounts));
    assert!(counter.sum().abs_diff(reading.value) <= reading.error, "{reading:?} of {}", counter.sum());
}

#[test]
fn counter_readings_are_within_their_bound() {
    let mut manners = [Manner::Up, Manner::UpAndDown, Manner::Limited].into_iter().cycle();
    CROWD.repeat(1.0, disturbed::nothing, |random| round_with_reader(manners.next().expect("no end"), random));
}
