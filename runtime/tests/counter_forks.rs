//! Counters and forks: children that are forked while other threads are in the middle of adding, upgrading, moving edges and taking memory.
//!
//! What a child inherits is what every thread of the parent had done up to some moment. So what the threads say about their additions
//! (`common/accounts.rs`) bounds what the child finds, with at most one addition of each thread open; and what the child does from then on
//! is exact there, and in the parent not seen. Locks are held by threads that do not exist in the child: a child that waits for one hangs, and is
//! found by that. Nobody uses the heap here: counters must notice forks themselves.
//!
//! Each way to fork is tried for a time that `COMMENSAL_TEST_EFFORT` multiplies, in each mode of the machine.
//! Planted, each found here: see the tests.

mod common;

use commensal::counter::{CounterSet, LazyCounter};
use commensal::machine::slot;
use common::PATIENCE;
use common::accounts::{self, Account};
use common::child::act_out;
use common::disturbed::{self, Crowd};
use common::forks::{FINE, Way, wait_for};
use common::random::Random;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const ADDERS: usize = 3;
const FORKERS: usize = 2;

/// A counter of the shared set to which everybody adds, and one with limits.
const FREE: usize = 0;
const LIMITED: usize = 1;

/// A child's findings, as its exit status.
const SUM: i32 = 1;
const READING: i32 = 2;
const OWNER: i32 = 3;
const VANISHED_OWNER: i32 = 4;
const ADDITIONS: i32 = 5;
const LIMIT: i32 = 6;
const NO_MEMORY: i32 = 7;
const NEW_SET: i32 = 8;
const REBOUND: i32 = 9;
const THREADS: i32 = 10;
const GRANDCHILD: i32 = 11;

fn expect(is_right: bool, otherwise: i32) -> Result<(), i32> {
    if is_right { Ok(()) } else { Err(otherwise) }
}

struct Common {
    set: CounterSet<2>,
    /// Of each counter of the set, what each thread did.
    accounts: [[Account; ADDERS]; 2],
    /// Owned by a forker each.
    owned: [LazyCounter; FORKERS],
    stop: AtomicBool,
}

impl Common {
    fn new() -> Self {
        let common = Common {
            set: CounterSet::new(),
            accounts: Default::default(),
            owned: Default::default(),
            stop: AtomicBool::new(false),
        };
        common.set.share().expect("there is memory");
        common
    }

    /// Adds, mostly past the cells, so that edges move; comes near limits and goes away; takes blocks and gives them back.
    fn add_until_told(&self, number: usize, mut random: Random) {
        let accounts = self.accounts.each_ref().map(|accounts| &accounts[number]);
        while !self.stop.load(Ordering::Relaxed) {
            let amount = 1 + random.below(1500) as i64;
            let up = random.once_in(2);
            match random.below(4) {
                0 => {
                    let another = CounterSet::<4>::new();
                    another.share().expect("there is memory");
                    another.add(random.below(4), amount);
                }
                1 if up => {
                    accounts[LIMITED].try_add(amount, |amount| self.set.limited_add(LIMITED, amount, 10_000));
                }
                1 => accounts[LIMITED].add(-amount, |amount| self.set.add(LIMITED, amount)),
                _ => accounts[FREE].add(if up { amount } else { -amount }, |amount| self.set.add(FREE, amount)),
            }
        }
    }

    /// In a child: what was inherited.
    fn check_inheritance(&self, me: usize, owned: i64) -> Result<(), i32> {
        for index in [FREE, LIMITED] {
            let (sum, bounds) = accounts::look(&self.accounts[index], || self.set.sum(index));
            expect(bounds.contains(&sum), SUM)?;
            let reading = self.set.read(index);
            expect(reading.value.abs_diff(sum) <= reading.error, READING)?;
        }
        expect(self.owned[me].sum() == owned && !self.owned[me].is_shared(), OWNER)
    }

    /// In a child: the one who forked owns what it owned, and others' counters can be added to as well.
    fn add_to_owned(&self, me: usize) -> Result<(), i32> {
        let own = &self.owned[me];
        let before = own.sum();
        (0..1000).for_each(|_| own.add(3));
        expect(own.sum() == before + 3000 && !own.is_shared(), OWNER)?;
        let others = &self.owned[(me + 1) % FORKERS];
        let before = others.sum();
        (0..200).for_each(|_| others.add(5));
        expect(others.sum() == before + 1000, VANISHED_OWNER)
    }

    fn add_to_set(&self, random: &mut Random) -> Result<(), i32> {
        let before = self.set.sum(FREE);
        let mut added = 0;
        for _ in 0..100 {
            let amount = random.below(3000) as i64 - 1000;
            self.set.add(FREE, amount);
            added += amount;
        }
        expect(self.set.sum(FREE) == before + added, ADDITIONS)?;
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
        let sums = [FREE, LIMITED].map(|index| self.set.sum(index));
        // SAFETY: in this process nobody else uses the set.
        unsafe { self.set.all().rebind() };
        expect([FREE, LIMITED].map(|index| self.set.sum(index)) == sums && !self.set.is_shared(), REBOUND)?;
        self.set.share().map_err(|_| NO_MEMORY)?;
        expect([FREE, LIMITED].map(|index| self.set.sum(index)) == sums, REBOUND)
    }

    /// After a plain fork a child may have threads of its own.
    fn add_with_threads(&self) -> Result<(), i32> {
        let before = self.set.sum(FREE);
        thread::scope(|scope| {
            for amount in [1, -2, 700] {
                scope.spawn(move || (0..2000).for_each(|_| self.set.add(FREE, amount)));
            }
            (0..2000).for_each(|_| self.set.add(FREE, 1));
        });
        expect(self.set.sum(FREE) == before + 2000 * 700, THREADS)
    }

    fn live(&self, way: Way, me: usize, owned: i64, random: &mut Random) -> Result<(), i32> {
        self.check_inheritance(me, owned)?;
        self.add_to_owned(me)?;
        self.add_to_set(random)?;
        if random.once_in(4) {
            let before = self.set.sum(FREE);
            let grandchild = way.fork_and(|| {
                expect(self.set.sum(FREE) == before, SUM)?;
                self.add_to_set(random)
            });
            expect(wait_for(grandchild, PATIENCE) == Some(FINE), GRANDCHILD)?;
            expect(self.set.sum(FREE) == before, GRANDCHILD)?;
        }
        if way == Way::Fork && random.once_in(4) {
            self.add_with_threads()?;
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
            match wait_for(way.fork_and(|| self.live(way, me, owned, &mut childs)), PATIENCE) {
                Some(FINE) => {}
                Some(status) => return Err(format!("child {forks} by {way:?} found {status}")),
                None => return Err(format!("child {forks} by {way:?} died, or hung for {PATIENCE:?}")),
            }
            if self.owned[me].sum() != owned || self.owned[me].is_shared() {
                return Err(format!("{} where {owned} was added", self.owned[me].sum()));
            }
        }
        Ok(forks)
    }
}

/// Planted: a lock of a vanished holder is waited for; what it protects is not repaired; forks are not noticed.
fn fork_while_others_add(way: Way, seed: u64, end: Instant) {
    let common = Common::new();
    let forks = thread::scope(|scope| {
        let common = &common;
        for number in 0..ADDERS {
            scope.spawn(move || common.add_until_told(number, Random::new(seed, number as u64)));
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
    for index in [FREE, LIMITED] {
        assert_eq!(common.set.sum(index), accounts::total(&common.accounts[index]), "children are seen in the parent");
    }
    eprintln!("{:?}: {} forks by {way:?}", slot::mode(), forks.iter().sum::<u64>());
}

#[test]
fn counter_forks_of_every_kind() {
    act_out(1.2, |seed, end| {
        let each = end.saturating_duration_since(Instant::now()) / Way::ALL.len() as u32;
        Way::ALL.iter().for_each(|&way| fork_while_others_add(way, seed, Instant::now() + each));
    });
}

/// One process that has no area yet: a thread makes it, while another one forks.
fn make_the_area_in_a_fork(seed: u64) -> Result<(), i32> {
    let set = CounterSet::<2>::new();
    let ready = AtomicU64::new(0);
    let meet = |delay: usize| {
        ready.fetch_add(1, Ordering::Relaxed);
        while ready.load(Ordering::Relaxed) < 2 {
            std::hint::spin_loop();
        }
        let (start, delay) = (Instant::now(), Duration::from_nanos(delay as u64));
        while start.elapsed() < delay {}
    };
    let share = || {
        meet(Random::new(seed, 1).below(20_000));
        (0..50).for_each(|_| set.limited_add(0, 600, i64::MAX).then_some(()).expect("there is room"));
        set.share().map_err(|_| NO_MEMORY)?;
        (0..50).for_each(|_| set.limited_add(0, 600, i64::MAX).then_some(()).expect("there is room"));
        expect(set.sum(0) == 60_000, ADDITIONS)
    };
    let live = || {
        set.share().map_err(|_| NO_MEMORY)?;
        let before = set.sum(0);
        let got = (0..20).filter(|_| set.limited_add(0, 600, before + 6000)).count();
        expect(before % 600 == 0 && got == 10 && set.sum(0) == before + 6000, LIMIT)
    };
    let fork = || {
        meet(Random::new(seed, 2).below(40_000));
        expect(wait_for(Way::Bare.fork_and(live), PATIENCE) == Some(FINE), GRANDCHILD)
    };
    thread::scope(|scope| {
        let threads = [scope.spawn(share), scope.spawn(fork)];
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or(Err(THREADS)))
    })
}

/// Planted: forks noticed only from the second area's making on.
#[test]
fn counter_bare_system_calls_while_the_area_is_made() {
    act_out(0.5, |seed, end| {
        let mut rounds = 0;
        while Instant::now() < end {
            let status = wait_for(Way::Fork.fork_and(|| make_the_area_in_a_fork(seed + rounds)), PATIENCE);
            assert_eq!(status, Some(FINE), "in round {rounds} (none: it hung, or died)");
            rounds += 1;
        }
        eprintln!("{:?}: {rounds} processes made an area", slot::mode());
    });
}

/// In a child: threads that draw from their slots at the same time as the one that forked.
fn draw_with_threads() -> Result<(), i32> {
    const OTHERS: usize = 3;
    const TIMES: i64 = 100_000;
    let (counter, together) = (LazyCounter::new(), Barrier::new(OTHERS + 1));
    counter.share().map_err(|_| NO_MEMORY)?;
    let draw = || {
        together.wait();
        (0..TIMES).for_each(|_| counter.add(1));
    };
    thread::scope(|scope| {
        (0..OTHERS).for_each(|_| drop(scope.spawn(draw)));
        draw();
    });
    expect(counter.sum() == TIMES * (OTHERS as i64 + 1), THREADS)
}

/// A thread that was given its slot when the process had no area, and noticed no forks, forks. Its child makes the area, and has threads:
/// none of them may be given the same slot.
#[test]
fn counter_a_child_makes_the_first_area() {
    act_out(0.2, |_, end| {
        while Instant::now() < end {
            let take_a_slot_and_fork = || {
                // Few enough that the counter stays lazy.
                LazyCounter::bound().add_remote(1);
                wait_for(Way::Fork.fork_and(draw_with_threads), PATIENCE)
            };
            let status = thread::spawn(take_a_slot_and_fork).join().expect("no panic");
            assert_eq!(status, Some(FINE), "(none: it hung, or died)");
        }
    });
}

/// The counter to which handlers that fork, and their children, add.
static INTERRUPTED: LazyCounter = LazyCounter::new();
static IS_CHILD: AtomicBool = AtomicBool::new(false);
static BAD_CHILDREN: AtomicU64 = AtomicU64::new(0);
static CHILDREN: AtomicU64 = AtomicU64::new(0);

extern "C" fn fork_here(_signal: libc::c_int) {
    if IS_CHILD.load(Ordering::Relaxed) {
        return;
    }
    let child = Way::Bare.fork();
    if child == 0 {
        IS_CHILD.store(true, Ordering::Relaxed);
        // Past the cells, where edges are moved if nobody else is at it: here the thread that was interrupted may be.
        INTERRUPTED.add(5000);
        INTERRUPTED.sub(5000);
        return;
    }
    CHILDREN.fetch_add(1, Ordering::Relaxed);
    BAD_CHILDREN.fetch_add(u64::from(wait_for(child, PATIENCE) != Some(FINE)), Ordering::Relaxed);
}

/// A child whose handler came back into what it interrupted. Kicks have been made before, so that it can make some, too.
fn live_after_the_handler() -> Result<(), i32> {
    INTERRUPTED.add(200);
    let (reading, sum) = (INTERRUPTED.read(), INTERRUPTED.sum());
    expect(reading.value.abs_diff(sum) <= reading.error, READING)?;
    let got = (0..120).filter(|_| INTERRUPTED.limited_add(1, sum + 100)).count();
    expect(got == 100, LIMIT)
}

/// For this thread, for good.
fn block_signals() {
    // SAFETY: the set is a local.
    unsafe {
        let mut all = core::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &all, core::ptr::null_mut());
    }
}

/// After the handler has returned.
fn end_if_child() {
    if IS_CHILD.load(Ordering::Relaxed) {
        let status = live_after_the_handler().err().unwrap_or(FINE);
        // SAFETY: nothing of the parent's is to be finished in the child.
        unsafe { libc::_exit(status) };
    }
}

/// A signal handler forks, and its child goes on with what was interrupted: also with moving edges, under a lock that a vanished holder
/// seems to have.
///
/// Planted: such a lock is taken over in the handler, from its own thread.
#[test]
fn counter_handlers_that_fork() {
    static CROWD: Crowd = Crowd::new();
    act_out(0.7, |seed, end| {
        INTERRUPTED.share().expect("there is memory");
        disturbed::handle(fork_here);
        CROWD.disturb_while(seed, || {
            let _member = CROWD.enrol();
            while Instant::now() < end {
                for amount in [400, 400, -400, -400].into_iter().cycle().take(200) {
                    INTERRUPTED.add(amount);
                    end_if_child();
                }
            }
            // A child that was made behind the last addition must not wait for threads that it has not; none is made from here on.
            block_signals();
            end_if_child();
        });
        let (bad, children) = (BAD_CHILDREN.load(Ordering::Relaxed), CHILDREN.load(Ordering::Relaxed));
        assert_eq!(bad, 0, "of {children} children");
        eprintln!("{:?}: {children} children", slot::mode());
    });
}
