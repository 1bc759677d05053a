//! Lazy counters: their upgrade, reading while they change, limits.

use crate::heaps::crowd;
use crate::protocol::{BOTH, NO_SIGNALS, protocols};
use commensal_runtime::counter::{CounterSet, Reading};
use commensal_runtime::percpu::Area;
use fastrand::Rng;
use machine::kick;
use machine::simulation::Rates;
use machine::simulation::explore::Outcome;
use machine::sync::{AtomicI64, Ordering, fence};
use std::cell::{Cell, RefCell};
use std::cmp::Ordering as Order;
use std::ops::RangeInclusive;

protocols! {
    "counter upgrade":
        "a set that several threads share, announced or not, while all of them add and read, and handlers add, too",
        shared, Rates { signal: 1000, refuse: 3000, ..Rates::USUAL }, BOTH => by_ids SectionsGoOn, by_ids OneSlot, by_ids ChangesTear;
    "counter limits": "additions that must not lead above a limit, and are refused only there",
        // Threads that meet in one slot, one after the other.
        limited, Rates { preempt: 3000, ..NO_SIGNALS }, BOTH => by_ids RestartIsFence, by_ids SectionsGoOn;
}

const COUNTERS: usize = 2;
const THREADS: usize = 3;
const RANGE: i32 = 64;
const WIDENING: i64 = 1 << 20;

/// Amounts that are on their way into a counter, or in it.
#[derive(Default)]
struct Progress {
    begun: Cell<i64>,
    complete: Cell<i64>,
}

/// What is known of a counter from outside. Noting takes no step, so the notes are exact: what is seen has all in it that was complete
/// when the look began, nothing that was not begun when it ended, and of the rest anything.
#[derive(Default)]
pub(crate) struct Notes {
    added: Progress,
    taken: Progress,
}

impl Notes {
    /// Notes an amount, if `add` says that it was accepted.
    pub(crate) fn note(&self, amount: i64, add: impl FnOnce() -> bool) -> bool {
        let progress = if amount > 0 { &self.added } else { &self.taken };
        progress.begun.update(|begun| begun + amount.abs());
        let is_accepted = add();
        let place = if is_accepted { &progress.complete } else { &progress.begun };
        place.update(|noted| noted + if is_accepted { amount.abs() } else { -amount.abs() });
        is_accepted
    }

    pub(crate) fn sum(&self) -> i64 {
        self.added.complete.get() - self.taken.complete.get()
    }

    /// All that was begun, of what was added.
    pub(crate) fn begun(&self) -> i64 {
        self.added.begun.get()
    }

    /// Looks, and says between what bounds that must be which is seen.
    pub(crate) fn look<R>(&self, look: impl FnOnce() -> R) -> (R, RangeInclusive<i64>) {
        let (added, taken) = (self.added.complete.get(), self.taken.complete.get());
        let seen = look();
        (seen, added - self.taken.begun.get()..=self.added.begun.get() - taken)
    }

    /// Whether a reading is off by more than it says, if anything.
    pub(crate) fn judge(&self, read: impl FnOnce() -> Reading) -> Result<i64, String> {
        let (reading, bounds) = self.look(read);
        let error = reading.error as i64;
        let is_within = (bounds.start() - error..=bounds.end() + error).contains(&reading.value);
        if is_within { Ok(reading.value) } else { Err(format!("a counter of {bounds:?} reads as {reading:?}")) }
    }
}

fn shared(seed: u64) -> Outcome {
    let mut random = Rng::with_seed(seed);
    let mut set = CounterSet::<COUNTERS, RANGE>::with_range();
    if random.bool() {
        set.rebind();
    }
    let notes: [Notes; COUNTERS] = Default::default();
    let add = |index: usize, amount: i64, add: &dyn Fn()| {
        notes[index].note(amount, || {
            add();
            // Complete is what others see.
            fence(Ordering::SeqCst);
            true
        });
    };
    let announces = random.u8(..3);
    let choices = RefCell::new(random.fork());
    let handler = || {
        let (index, amount) = {
            let mut choices = choices.borrow_mut();
            (choices.usize(..COUNTERS), choices.i64(-40..=40))
        };
        add(index, amount, &|| set.add(index, amount));
    };
    crowd(THREADS, seed, Some(&handler), &|thread, random| {
        let steps = random.usize(1..60);
        for step in 0..steps {
            if announces > 0 && step == steps / 2 && (thread == 0 || announces == 2) {
                // Refused where memory is: then it stays as it is.
                let _ = set.share();
            }
            let index = random.usize(..COUNTERS);
            let amount = match random.u8(..16) {
                // From then on cells become wide.
                0 => random.i64(-WIDENING..=WIDENING),
                1 | 2 => random.i64(-300..=300),
                _ => random.i64(-9..=9),
            };
            match random.u8(..8) {
                0 => look(&set, index, &notes[index]),
                1 => add(index, amount, &|| set.add_remote(index, amount)),
                _ => add(index, amount, &|| set.add(index, amount)),
            }
        }
    });
    for (index, notes) in notes.iter().enumerate() {
        assert_eq!(set.sum(index), notes.sum(), "counter {index} says another sum than was added");
    }
    drop(set);
    no_blocks_left()
}

/// Looks in all ways.
fn look(set: &CounterSet<COUNTERS, RANGE>, index: usize, notes: &Notes) {
    let with = notes.judge(|| set.read(index)).unwrap_or_else(|wrong| panic!("{wrong}"));
    let (sum, bounds) = notes.look(|| set.sum(index));
    assert!(bounds.contains(&sum), "the sum of a counter of {bounds:?} is {sum}");
    let (order, bounds) = notes.look(|| set.compare(index, with));
    let is_possible = match order {
        Order::Less => *bounds.start() < with,
        Order::Equal => bounds.contains(&with),
        Order::Greater => *bounds.end() > with,
    };
    assert!(is_possible, "a counter of {bounds:?} is {order:?} than {with}");
}

/// Whoever lost an upgrade, and every set that ended, has given its block back.
fn no_blocks_left() -> Outcome {
    assert_eq!(Area::of_process().map_or(0, Area::in_use), 0, "blocks are in use, and no counters are left");
    Ok(())
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
