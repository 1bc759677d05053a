//! Lazy counters: their upgrade, reading while they change, limits.

use crate::heaps::{Handler, crowd};
use crate::protocol::{BOTH, NO_SIGNALS, protocols};
use commensal::counter::CounterSet;
use commensal::percpu::Area;
use fastrand::Rng;
use machine::kick;
use machine::simulation::Rates;
use machine::simulation::explore::Outcome;
use machine::sync::{AtomicI64, Ordering};
use std::cell::RefCell;

protocols! {
    "counter upgrade":
        "a set that several threads share, announced or not, while all of them add and read, and handlers add, too",
        shared, Rates { signal: 1000, ..Rates::USUAL }, BOTH => by_ids SectionsGoOn, by_ids OneSlot, by_ids ChangesTear;
    "counter limits": "additions that must not lead above a limit, and are refused only there",
        // Threads that meet in one slot, one after the other.
        limited, Rates { preempt: 3000, ..NO_SIGNALS }, BOTH => by_ids RestartIsFence, by_ids SectionsGoOn;
}

const COUNTERS: usize = 2;
const THREADS: usize = 3;
const RANGE: i32 = 64;

/// What one thread says about its additions, before and afterwards.
#[derive(Debug, Default)]
struct Account {
    begun: [AtomicI64; 2],
    complete: [AtomicI64; 2],
}

impl Account {
    fn add(&self, amount: i64, add: impl FnOnce(i64)) {
        let sign = usize::from(amount < 0);
        self.begun[sign].fetch_add(amount.abs(), Ordering::SeqCst);
        add(amount);
        self.complete[sign].fetch_add(amount.abs(), Ordering::SeqCst);
    }
}

fn sum<'a>(words: impl Iterator<Item = &'a AtomicI64>) -> i64 {
    words.map(|word| word.load(Ordering::SeqCst)).sum()
}

fn shared(seed: u64) -> Outcome {
    let mut random = Rng::with_seed(seed);
    let mut set = CounterSet::<COUNTERS, RANGE>::with_range();
    if random.bool() {
        set.rebind();
    }
    let accounts: [[Account; THREADS + 1]; COUNTERS] = Default::default();
    let announces = random.u8(..3);
    let choices = RefCell::new(random.fork());
    let handler = Handler(&|| {
        let (index, amount) = {
            let mut choices = choices.borrow_mut();
            (choices.usize(..COUNTERS), choices.i64(-40..=40))
        };
        accounts[index][THREADS].add(amount, |amount| set.add(index, amount));
    });
    crowd(THREADS, seed, Some(&|| handler.call()), &|thread, random| {
        let steps = random.usize(1..60);
        for step in 0..steps {
            if announces > 0 && step == steps / 2 && (thread == 0 || announces == 2) {
                // Refused where memory is: then it stays as it is.
                let _ = set.share();
            }
            let index = random.usize(..COUNTERS);
            let amount = if random.u8(..8) == 0 { random.i64(-300..=300) } else { random.i64(-9..=9) };
            match random.u8(..8) {
                0 => read(&set, index, &accounts[index]),
                1 => accounts[index][thread].add(amount, |amount| set.add_remote(index, amount)),
                _ => accounts[index][thread].add(amount, |amount| set.add(index, amount)),
            }
        }
    });
    for (index, accounts) in accounts.iter().enumerate() {
        let added = sum(accounts.iter().map(|account| &account.complete[0]));
        let subtracted = sum(accounts.iter().map(|account| &account.complete[1]));
        assert_eq!(set.sum(index), added - subtracted, "counter {index} says another sum than was added");
    }
    drop(set);
    no_blocks_left()
}

/// Whoever lost an upgrade, and every set that ended, has given its block back.
fn no_blocks_left() -> Outcome {
    assert_eq!(Area::of_process().map_or(0, Area::in_use), 0, "blocks are in use, and no counters are left");
    Ok(())
}

/// What is read has in it all that was complete before, and nothing that was not begun afterwards.
fn read(set: &CounterSet<COUNTERS, RANGE>, index: usize, accounts: &[Account]) {
    let complete = |sign: usize| sum(accounts.iter().map(|account| &account.complete[sign]));
    let begun = |sign: usize| sum(accounts.iter().map(|account| &account.begun[sign]));
    let (added, subtracted) = (complete(0), complete(1));
    let reading = set.read(index);
    let (least, most) = (added - begun(1), begun(0) - subtracted);
    let bound = reading.error as i64;
    assert!(
        (least - bound..=most + bound).contains(&reading.value),
        "counter {index} is from {least} to {most}, and reads as {reading:?}"
    );
}

fn limited(seed: u64) -> Outcome {
    const LIMIT: i64 = 90;
    let set = CounterSet::<1, RANGE>::with_range();
    let got = AtomicI64::new(0);
    let announces = Rng::with_seed(seed).bool();
    if announces {
        let _ = set.share();
    }
    crowd(THREADS, seed, None, &|_, random| {
        for _ in 0..random.usize(1..30) {
            let amount = random.i64(1..=6);
            if random.u8(..4) == 0 && got.load(Ordering::SeqCst) > 2 * amount {
                // Given back before anybody counts on it.
                got.fetch_sub(amount, Ordering::SeqCst);
                set.sub(0, amount);
            } else if set.limited_add(0, amount, LIMIT) {
                got.fetch_add(amount, Ordering::SeqCst);
            }
            let sum = set.sum(0);
            assert!(sum <= LIMIT, "a limit of {LIMIT} was passed: {sum}");
        }
    });
    let found = set.sum(0);
    assert_eq!(found, got.load(Ordering::SeqCst), "the counter says another sum than was accepted");
    let room = LIMIT - found;
    assert!((0..=LIMIT).contains(&room), "a limit of {LIMIT} was passed: {found}");
    // Nobody else adds now, so the room is there, and no more.
    let outcome = [set.limited_add(0, room + 1, LIMIT), set.limited_add(0, room, LIMIT), set.limited_add(0, 1, LIMIT)];
    // What was subtracted before the counter knew of a limit may have put stock into slots, which a kernel without kicks leaves there.
    let may_refuse = kick::register().is_err();
    let is_right = !outcome[0] && (outcome[1] || may_refuse) && !(outcome[1] && outcome[2]);
    assert!(is_right, "with room for {room}, that and one more, that, and one more were answered with {outcome:?}");
    drop(set);
    no_blocks_left()
}
