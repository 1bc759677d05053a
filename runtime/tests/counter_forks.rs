//! Counters and forks: children that are forked while other threads are in the middle of adding, upgrading and taking memory.
//!
//! What the child does is exact there, and in the parent not seen. Locks are held by threads that do not exist in the child: a child that
//! waits for one hangs, and is found by that. Nobody uses the heap here: counters must notice forks themselves. What a child finds of
//! additions that were under way, handlers that fork, and forks while the process's first area is made are explored
//! (`exploration/src/forks.rs`).

mod common;

use commensal_runtime::counter::{CounterSet, Counters, LazyCounter};
use commensal_runtime::machine::slot;
use common::PATIENCE;
use common::child::act_out;
use common::forks::{FINE, Way, wait_for};
use common::random::Random;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const ADDERS: usize = 3;
const FORKERS: usize = 2;

/// A counter of the shared set to which everybody adds, and one with limits.
const FREE: usize = 0;
const LIMITED: usize = 1;

/// A child's findings, as its exit status.
const READING: i32 = 2;
const OWNER: i32 = 3;
const VANISHED_OWNER: i32 = 4;
const ADDITIONS: i32 = 5;
const LIMIT: i32 = 6;
const NO_MEMORY: i32 = 7;
const NEW_SET: i32 = 8;
const REBOUND: i32 = 9;
const THREADS: i32 = 10;

fn expect(is_right: bool, otherwise: i32) -> Result<(), i32> {
    if is_right { Ok(()) } else { Err(otherwise) }
}

#[derive(Default)]
struct Common {
    set: CounterSet<2>,
    /// What was added to each counter of the set.
    added: [AtomicI64; 2],
    /// Owned by a forker each.
    owned: [LazyCounter; FORKERS],
    stop: AtomicBool,
}

impl Common {
    /// Adds, mostly past the cells, so that edges move; comes near limits and goes away; takes blocks and gives them back.
    fn add_until_told(&self, mut random: Random) {
        while !self.stop.load(Ordering::Relaxed) {
            let amount = (1 + random.below(1500) as i64) * if random.once_in(2) { 1 } else { -1 };
            let (index, is_added) = match random.below(4) {
                0 => {
                    let another = CounterSet::<4>::new();
                    another.share().expect("there is memory");
                    another.add(random.below(4), amount);
                    continue;
                }
                1 => (LIMITED, self.set.limited_add(LIMITED, amount, 10_000)),
                _ => {
                    self.set.add(FREE, amount);
                    (FREE, true)
                }
            };
            self.added[index].fetch_add(if is_added { amount } else { 0 }, Ordering::Relaxed);
        }
    }

    fn sums(&self) -> [i64; 2] {
        [FREE, LIMITED].map(|index| self.set.sum(index))
    }

    /// In a child: the one who forked owns what it owned, and others' counters can be added to as well.
    fn add_to_owned(&self, me: usize, owned: i64) -> Result<(), i32> {
        let own = &self.owned[me];
        expect(own.sum() == owned, OWNER)?;
        (0..1000).for_each(|_| own.add(3));
        expect(own.sum() == owned + 3000 && !own.is_shared(), OWNER)?;
        let others = &self.owned[(me + 1) % FORKERS];
        let before = others.sum();
        (0..200).for_each(|_| others.add(5));
        expect(others.sum() == before + 1000, VANISHED_OWNER)
    }

    fn add_to_set(&self, random: &mut Random) -> Result<(), i32> {
        let before = self.set.sum(FREE);
        let amounts = (0..100).map(|_| random.below(3000) as i64 - 1000);
        let added: i64 = amounts.inspect(|&amount| self.set.add(FREE, amount)).sum();
        expect(self.set.sum(FREE) == before + added, ADDITIONS)?;
        let reading = self.set.read(FREE);
        expect(reading.value.abs_diff(before + added) <= reading.error, READING)?;
        let limit = self.set.sum(LIMITED) + 700;
        let got = (0..800).filter(|_| self.set.limited_add(LIMITED, 1, limit)).count();
        expect(got == 700 && self.set.sum(LIMITED) == limit, LIMIT)
    }

    /// Blocks are taken and given back, also the inherited one.
    fn turn_blocks_over(&self) -> Result<(), i32> {
        for _ in 0..3 {
            let set = CounterSet::<4>::new();
            set.add(1, 5);
            set.share().map_err(|_| NO_MEMORY)?;
            set.add(1, 5000);
            expect([0, 1, 2, 3].map(|index| set.sum(index)) == [0, 5005, 0, 0], NEW_SET)?;
        }
        let sums = self.sums();
        // SAFETY: in this process nobody else uses the set.
        unsafe { Counters::rebind(&self.set) };
        expect(self.sums() == sums && !self.set.is_shared(), REBOUND)?;
        self.set.share().map_err(|_| NO_MEMORY)?;
        expect(self.sums() == sums, REBOUND)
    }

    fn live(&self, way: Way, me: usize, owned: i64, random: &mut Random) -> Result<(), i32> {
        self.add_to_owned(me, owned)?;
        self.add_to_set(random)?;
        if way == Way::Fork && random.once_in(4) {
            draw_with_threads(&self.set)?;
        }
        self.turn_blocks_over()?;
        self.add_to_set(random)
    }

    /// Forks again and again; how often, or what a child found.
    fn fork_until_told(&self, way: Way, me: usize, mut random: Random) -> Result<u64, String> {
        let (mut owned, mut forks) = (0, 0);
        while !self.stop.load(Ordering::Relaxed) {
            for _ in 0..random.below(50) {
                self.owned[me].add(forks as i64);
                owned += forks as i64;
            }
            forks += 1;
            let mut childs = Random::new(random.next(), 0);
            let found = wait_for(way.fork_and(|| self.live(way, me, owned, &mut childs)), PATIENCE);
            if found != Some(FINE) {
                return Err(format!("child {forks} by {way:?} found {found:?} (none: it hung, or died)"));
            }
            if self.owned[me].sum() != owned || self.owned[me].is_shared() {
                return Err(format!("{} where {owned} was added", self.owned[me].sum()));
            }
        }
        Ok(forks)
    }
}

/// In a child: threads that draw from their slots at the same time as the one that forked.
fn draw_with_threads(set: &CounterSet<2>) -> Result<(), i32> {
    const OTHERS: usize = 3;
    const TIMES: i64 = 100_000;
    let (before, together) = (set.sum(FREE), Barrier::new(OTHERS + 1));
    set.share().map_err(|_| NO_MEMORY)?;
    let draw = || {
        together.wait();
        (0..TIMES).for_each(|_| set.add(FREE, 1));
    };
    thread::scope(|scope| {
        (0..OTHERS).for_each(|_| drop(scope.spawn(draw)));
        draw();
    });
    expect(set.sum(FREE) == before + TIMES * (OTHERS as i64 + 1), THREADS)
}

/// Planted: a lock of a vanished holder is waited for; what it protects is not repaired; forks are not noticed.
fn fork_while_others_add(way: Way, seed: u64, end: Instant) {
    let common = Common::default();
    common.set.share().expect("there is memory");
    let forks = thread::scope(|scope| {
        let common = &common;
        for number in 0..ADDERS {
            scope.spawn(move || common.add_until_told(Random::new(seed, number as u64)));
        }
        let fork = |me: usize| {
            scope.spawn(move || {
                let result = common.fork_until_told(way, me, Random::new(seed, 100 + me as u64));
                common.stop.fetch_or(result.is_err(), Ordering::Relaxed);
                result
            })
        };
        let forkers: [_; FORKERS] = std::array::from_fn(fork);
        while Instant::now() < end && !common.stop.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(5));
        }
        common.stop.store(true, Ordering::Relaxed);
        forkers.map(|forker| forker.join().expect("no panic").unwrap_or_else(|wrong| panic!("{wrong}")))
    });
    let added = common.added.each_ref().map(|added| added.load(Ordering::Relaxed));
    assert_eq!(common.sums(), added, "children are seen in the parent");
    eprintln!("{:?}: {} forks by {way:?}", slot::mode(), forks.iter().sum::<u64>());
}

#[test]
fn counter_forks_of_every_kind() {
    act_out(1.2, |seed, end| {
        let each = end.saturating_duration_since(Instant::now()) / Way::ALL.len() as u32;
        Way::ALL.iter().for_each(|&way| fork_while_others_add(way, seed, Instant::now() + each));
    });
}
