//! Small bodies: two or three threads that do an operation or two each, of which every schedule within a bound is tried.
//!
//! Threads stay on their CPUs, and stores become visible at once. Exploring by chance covers the rest. Between two
//! steps, a thread notes what it begins and what is complete, so the notes are exact. A reading has all additions that
//! were complete when it began, and none that begin after its end. Who is refused had no room at some moment.
//!
//! The bugs that these bodies must find are in the list of mutants.

use crate::blocks::Block;
use crate::caches::{create, destroy};
use crate::counters::Notes;
use commensal_runtime::counter::CounterSet;
use commensal_runtime::heap;
use commensal_runtime::percpu::Area;
use machine::simulation::{Job, Place, Settings, exhaust, run};
use machine::sync::Lock;
use machine::thread;
use std::cell::Cell;

#[derive(Debug)]
pub struct Small {
    pub name: &'static str,
    pub about: &'static str,
    /// How often another thread goes on although the current one could, at most.
    bound: usize,
    cpus: usize,
    body: fn() -> Result<(), String>,
}

const fn small(name: &'static str, bound: usize, about: &'static str, body: fn() -> Result<(), String>) -> Small {
    Small { name, about, bound, cpus: 4, body }
}

/// All threads on one CPU, and so in one slot.
const fn on_one_cpu(small: Small) -> Small {
    Small { cpus: 1, ..small }
}

pub const SMALL: &[Small] = &[
    small("every upgrade", 2, "two threads add while a third one announces that it shares", upgraded),
    small("every winner", 2, "two upgrade a counter while one adds", won),
    small("every look", 2, "one reads a counter that is being upgraded", looked_at),
    small("every limit", 2, "two add within a limit with room for one, while a third one upgrades", || limited(1)),
    small("every room", 2, "the same with room for both", || limited(2)),
    small("every refusal", 2, "room is made in the block, and taken again in the word of before", refused),
    small("every stock", 2, "two add within a limit from stock of theirs", stocked),
    on_one_cpu(small("every late draw", 2, "one sees a limit, and draws what another one leaves there", drawn_late)),
    small("every handler", 2, "one adds within a limit while another one must not wait, as a handler", handled),
    small("every rise", 2, "one reads while another one gets stock", risen),
    small("every closing", 2, "one reads while another one closes all cells", closed),
    small("every walk", 1, "one reads the report while a cache ends, and so its span leaves it", walked),
];

pub fn find(name: &str) -> Option<&'static Small> {
    SMALL.iter().find(|small| small.name == name)
}

impl Small {
    /// Tries every schedule. The number of them, or what is wrong with one.
    pub fn exhaust(&self) -> Result<u64, String> {
        let settings = Settings { cpus: self.cpus, store_buffer: 0, ..Settings::default() };
        let (mut wrong, mut runs) = (None, 0);
        let exhausted = exhaust(&settings, self.bound, u64::MAX, self.body, |report| {
            runs += 1;
            let found = match report.outcome {
                Ok(outcome) => outcome.err(),
                Err(failure) => Some(failure.to_string()),
            };
            wrong = found.map(|what| {
                let choices: Vec<String> = report.deviations.iter().map(ToString::to_string).collect();
                format!("{}: {what}\nfound in run {runs}: {}", self.name, choices.join(","))
            });
            wrong.is_none()
        });
        wrong.map_or(Ok(exhausted.runs), Err)
    }
}

const REFUSED: &str = "an addition was refused while there was room";

/// The smallest range there is: stock is two at first, and three at most.
type Counter = CounterSet<1, 4>;

/// A counter, and what is known of it from outside.
struct Known {
    set: Counter,
    notes: Notes,
    wrong: Cell<Option<&'static str>>,
}

impl Known {
    /// Nobody's. The process has the area where blocks are taken from.
    fn new() -> Self {
        Area::of_process().expect("there is memory");
        Known { set: Counter::with_range(), notes: Notes::default(), wrong: Cell::new(None) }
    }

    fn shared() -> Self {
        let known = Self::new();
        known.set.share().expect("there is memory");
        known
    }

    fn demand(&self, holds: bool, what: &'static str) {
        if !holds {
            self.wrong.set(self.wrong.get().or(Some(what)));
        }
    }

    fn add(&self, amount: i64) {
        self.notes.note(amount, || {
            self.set.add(0, amount);
            true
        });
    }

    /// Adds an amount, where nothing is taken back that the limit was reached with.
    fn add_within(&self, amount: i64, limit: i64) {
        if self.try_within(amount, limit) {
            self.demand(self.notes.sum() <= limit, "a limit was passed");
        } else {
            self.demand(self.notes.begun() + amount > limit, REFUSED);
        }
    }

    fn try_within(&self, amount: i64, limit: i64) -> bool {
        self.notes.note(amount, || self.set.limited_add(0, amount, limit))
    }

    fn read(&self) {
        let is_right = self.notes.judge(|| self.set.read(0)).is_ok();
        self.demand(is_right, "a reading is off by more than it says");
    }

    fn upgrade(&self) {
        self.demand(self.set.share().is_ok() && self.set.is_shared(), "there was no upgrade");
    }

    fn settle(self) -> Result<(), String> {
        self.demand(self.set.sum(0) == self.notes.sum(), "the sum is not what was added");
        let in_use = || Area::of_process().map_or(0, Area::in_use);
        self.demand(in_use() == u64::from(self.set.is_shared()), "not exactly the counter's block is in use");
        drop(self.set);
        self.wrong.get().map_or(Ok(()), |what| Err(what.to_string()))?;
        if in_use() == 0 { Ok(()) } else { Err("a block is in use, and no counter is left".into()) }
    }
}

/// Each thread on a CPU of its own.
fn beside<const THREADS: usize>(threads: [&dyn Fn(); THREADS]) {
    at(core::array::from_fn(Place::On), threads);
}

fn at<const THREADS: usize>(places: [Place; THREADS], threads: [&dyn Fn(); THREADS]) {
    let jobs = places.into_iter().zip(threads).map(|(place, thread)| {
        let job = move || {
            thread::enter();
            thread();
        };
        (Box::new(job) as Job<'_>, place)
    });
    run(jobs.collect(), None);
}

fn upgraded() -> Result<(), String> {
    let counter = Known::new();
    let twice = || [1, 2].into_iter().for_each(|amount| counter.add(amount));
    beside([&twice, &|| counter.add(4), &|| counter.upgrade()]);
    counter.settle()
}

fn won() -> Result<(), String> {
    let counter = Known::new();
    beside([&|| counter.add(1), &|| counter.upgrade(), &|| counter.upgrade()]);
    counter.settle()
}

fn looked_at() -> Result<(), String> {
    let counter = Known::new();
    let upgrade = || {
        counter.upgrade();
        counter.add(2);
    };
    beside([&|| counter.add(1), &upgrade, &|| counter.read()]);
    counter.settle()
}

fn limited(limit: i64) -> Result<(), String> {
    let counter = Known::new();
    let add = || counter.add_within(1, limit);
    beside([&add, &add, &|| counter.upgrade()]);
    counter.settle()
}

/// One thread takes two back after the upgrade. If it does not see the two that another one adds, there was room for one more all
/// the time.
fn refused() -> Result<(), String> {
    const LIMIT: i64 = 2;
    let counter = Known::new();
    let (seen, is_added) = (Cell::new(0), Cell::new(false));
    let take_back = || {
        counter.upgrade();
        counter.add(-2);
        seen.set(counter.set.sum(0));
    };
    let add_two = || {
        counter.try_within(2, LIMIT);
    };
    beside([&add_two, &|| is_added.set(counter.try_within(1, LIMIT)), &take_back]);
    counter.demand(is_added.get() || seen.get() != -2, REFUSED);
    counter.settle()
}

fn stocked() -> Result<(), String> {
    const LIMIT: i64 = 4;
    let counter = Known::shared();
    let add = || (0..3).for_each(|_| counter.add_within(1, LIMIT));
    beside([&add, &add]);
    counter.settle()
}

/// One of stock is left when the first thread looks at the limit. If the other one refilled the slot beyond it, the first
/// would draw two that nobody has room for.
fn drawn_late() -> Result<(), String> {
    const LIMIT: i64 = 5;
    let counter = Known::shared();
    let add = |amounts: &[i64]| amounts.iter().for_each(|&amount| counter.add_within(amount, LIMIT));
    at([Place::Anywhere; 2], [&|| add(&[1, 1, 2]), &|| add(&[2])]);
    counter.settle()
}

/// Whoever holds a lock of a rank above waits for no counter's.
fn handled() -> Result<(), String> {
    const LIMIT: i64 = 3;
    let counter = Known::shared();
    let add = || (0..3).for_each(|_| counter.add_within(1, LIMIT));
    let handler = || {
        let above = Lock::<7>::new();
        assert!(above.try_acquire(), "it is free");
        // It may be refused early.
        let is_added = counter.try_within(1, LIMIT);
        counter.demand(!is_added || counter.notes.sum() <= LIMIT, "a limit was passed");
        // SAFETY: acquired above.
        unsafe { above.release() };
    };
    beside([&add, &handler]);
    counter.settle()
}

fn risen() -> Result<(), String> {
    let counter = Known::shared();
    beside([&|| counter.add(1), &|| counter.read()]);
    counter.settle()
}

/// Both cells are full when they are closed.
fn closed() -> Result<(), String> {
    let counter = Known::shared();
    let fill = || [1, -1].into_iter().for_each(|amount| counter.add(amount));
    let refused = || {
        fill();
        counter.demand(!counter.try_within(1, 0), "a limit was passed");
    };
    let read = || {
        fill();
        counter.read();
    };
    beside([&refused, &read]);
    counter.settle()
}

/// The report goes over all spans without a lock: a span that it saw in a cache may be in none a moment later.
fn walked() -> Result<(), String> {
    let held = Cell::new(None);
    let get = || {
        let cache = create(5000).expect("there is memory");
        held.set(Some((Block::of(cache).expect("there is memory"), cache)));
    };
    beside([&get]);
    let give_back = || {
        let (block, cache) = held.take().expect("it was got");
        block.free_to(cache);
        destroy(cache);
    };
    beside([&|| _ = heap::report::process(), &give_back]);
    Ok(())
}
