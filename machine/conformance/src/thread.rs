//! `machine::thread`: who am I, has the process forked, does it have one thread.
//!
//! An identity says who holds a lock in this process; a fork child has different ones. An id says whose data it is: the
//! thread that forks keeps it.

use crate::case::{Findings, Outcome, demand, ensure, operations};
use crate::runner::{Child, Ended, Fork, Placement, Places, Runner, alone, crowd, in_children, meet, repeat, stay};
use machine::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use machine::thread;

operations! {
    /// Begins a slow path.
    ///
    /// ```text
    /// enter():
    ///     if this process is a fork child without a call of enter(), and an ancestor called notice_forks():
    ///         all threads that had entered in ancestors are gone (see sync)
    ///     if this thread has not entered in this process: identity = one that was never given, not in ancestors either
    ///     return whether it had entered in an ancestor, and not yet in this process: once, for the thread that forked
    /// ```
    ///
    /// A signal handler may call it, also when it interrupts itself.
    enter: fn() -> bool = thread::enter,

    /// Not zero. The same from one [`enter`](Self::enter) on to the thread's death or the next fork.
    identity: fn() -> u64 = thread::identity,

    /// The thread's id: even, and not zero.
    ///
    /// ```text
    /// id():
    ///     return this thread's id: constant, also in children that it forks, and no other living thread's
    /// ```
    ///
    /// A later thread may get the id of a dead one. Needs no [`enter`](Self::enter), also in signal handlers.
    id: fn() -> u64 = thread::id,

    /// Lets children notice that they are children, also those made without handlers. Returns false if they will not.
    /// Several threads may call it at once, and repeatedly.
    notice_forks: fn() -> bool = thread::notice_forks,

    /// Whether the process has had one thread all its life; false when in doubt.
    ///
    /// ```text
    /// is_alone():
    ///     return no second thread was ever created, in this process or in those it was forked from
    /// ```
    is_alone: fn() -> bool = thread::is_alone,

    /// Runs `work` on this thread without interrupts: those that come are handled after it.
    without_signals: fn(work: &mut dyn FnMut()) = |work| thread::without_signals(work),

    /// Makes the process a fork child that was not entered yet, where [`notice_forks`](Self::notice_forks) failed.
    declare_forked: fn() = thread::declare_forked,

    /// The thread's level: how often it and its handlers called [`ascend`](Self::ascend), minus how often
    /// [`descend`](Self::descend); zero at first. Each looks atomic to handlers. A fork child's thread has its
    /// parent's.
    level: fn() -> i32 = thread::level,

    /// One level down; whether it is negative then.
    descend: fn() -> bool = thread::descend,

    /// One level up; whether it is still negative.
    ascend: fn() -> bool = thread::ascend,

    /// Sets the level of this thread.
    set_level: fn(level: i32) = thread::set_level,

    /// Has a function called in children of ordinary forks before the fork returns there. False: it will not be.
    on_fork_in_child: fn(extern "C" fn()) -> bool = thread::on_fork_in_child,
}

crate::cases! {
    CASES of Operations::MACHINE;
    "thread::identity" => identified, {
        "given again" { identity: || thread::identity() % 32 + 1 }
    }
    "thread::id" => numbered, {
        "shared by two" { id: || thread::identity() / 2 * 2 + 2 }
        "a new one each time" { id: planted::another }
        "another one in a child" { id: || thread::identity() * 2 + 2 }
    }
    "thread::enter" => entered, {
        "notices nothing" { enter: || (thread::enter(), false).1 }
        "forks are not noticed" { notice_forks: || true }
    }
    "thread::notice_forks while threads run" => arranged_late, {
        "forks are not noticed" { notice_forks: || true }
        // As if what tells a child from its parent were published before it is written.
        "makes one" { notice_forks: || (thread::declare_forked(), thread::notice_forks()).1 }
    }
    "thread::is_alone" => alone_at_first, {
        "always" { is_alone: || true }
        "never" { is_alone: || false }
    }
    "thread::without_signals" => uninterrupted, {
        "with signals" { without_signals: |work| work() }
    }
    "thread::declare_forked" => declared, {
        "does nothing" { declare_forked: || () }
    }
    "thread::on_fork_in_child" => told, {
        "forgotten" { on_fork_in_child: |_| true }
    }
    "thread::level" => deep, {
        "in two steps" { descend: || planted::go(-1) }
        "in two steps back" { ascend: || planted::go(1) }
        "never negative" { descend: || (thread::descend(), false).1 }
        "not negative any more" { ascend: || (thread::ascend(), false).1 }
    }
}

pub fn identified(runner: &dyn Runner, operations: &Operations) -> Outcome {
    const ROUND: usize = 16;
    ensure!((operations.notice_forks)(), "forks will not be noticed");
    let mut given = Vec::new();
    repeat(runner, || {
        let identities = [const { AtomicU64::new(0) }; ROUND];
        let findings = Findings::new();
        let job = |number: usize| {
            (operations.enter)();
            let identity = (operations.identity)();
            identities[number].store(identity, Ordering::Relaxed);
            demand!(findings, !(operations.enter)(), "a second enter noticed a fork");
            let again = (operations.identity)();
            demand!(findings, identity == again, "an identity changed", identity, again);
        };
        runner.run(Placement::Moved, crowd(ROUND, &job), None);
        findings.outcome()?;
        given.extend(identities.map(AtomicU64::into_inner));
        Ok(())
    })?;
    given.sort_unstable();
    ensure!(given.first().is_none_or(|&first| first > 0), "zero was given as an identity");
    let twice = given.windows(2).find(|pair| pair[0] == pair[1]);
    ensure!(twice.is_none(), "identity {} was given twice", twice.unwrap_or_default()[0]);
    let last = given.last().copied().unwrap_or(0);
    runner.fork(Fork::Bare, &mut || fresh_in_child(runner, operations, last)).well()
}

fn fresh_in_child(runner: &dyn Runner, operations: &Operations, last: u64) -> Result<(), &'static str> {
    let before = (operations.identity)();
    (operations.enter)();
    let after = (operations.identity)();
    let other = alone(runner, || (operations.identity)());
    let are_new = after != before && after > last && other > last && after != other;
    ensure!(are_new, static "an identity of the parent was given again in a child");
    Ok(())
}

pub fn numbered(runner: &dyn Runner, operations: &Operations) -> Outcome {
    ensure!((operations.notice_forks)(), "forks will not be noticed");
    let own = (operations.id)();
    ensure!(own != 0 && own.is_multiple_of(2), "the first thread's id is {own:#x}, which is not even, or zero");
    repeat(runner, || number_a_crowd(runner, operations, own))?;
    keep_in_children(runner, operations)?;
    alone(runner, || keep_in_children(runner, operations))?;
    ensure!((operations.id)() == own, "the first thread's id changed");
    Ok(())
}

fn number_a_crowd(runner: &dyn Runner, operations: &Operations, first: u64) -> Outcome {
    const CROWD: usize = 16;
    // What a thread or one of its interrupts was told last.
    let told: Places<AtomicU64> = Places::new(CROWD);
    let (findings, arrived) = (Findings::new(), AtomicUsize::new(0));
    let ask = |told: &AtomicU64| {
        let id = (operations.id)();
        // Relaxed: between a thread and its own interrupts.
        let before = told.swap(id, Ordering::Relaxed);
        demand!(findings, before == 0 || before == id, "an id changed: before, after", before, id);
    };
    let handler = || {
        told.own().map(ask);
    };
    let job = |number| {
        let told = told.settle(number);
        ask(told);
        arrived.fetch_add(1, Ordering::Relaxed);
        while arrived.load(Ordering::Relaxed) < CROWD {
            runner.pause();
            ask(told);
        }
    };
    runner.run(Placement::Moved, crowd(CROWD, &job), Some(&handler));
    findings.outcome()?;
    let mut ids: Vec<u64> = told.all().map(|id| id.load(Ordering::Relaxed)).chain([first]).collect();
    ids.sort_unstable();
    ensure!(ids.iter().all(|id| *id != 0 && id.is_multiple_of(2)), "an id is not even, or zero: {ids:x?}");
    ensure!(ids.windows(2).all(|pair| pair[0] != pair[1]), "two of these threads have one id: {ids:x?}");
    Ok(())
}

fn keep_in_children(runner: &dyn Runner, operations: &Operations) -> Outcome {
    const OTHER: &str = "the thread that forked has another id in the child";
    const TAKEN: &str = "a new thread in a child has the id of the one that forked";
    (operations.enter)();
    let own = (operations.id)();
    let keeps = || {
        let early = (operations.id)();
        let noticed = (operations.enter)();
        noticed && early == own && (operations.id)() == own
    };
    in_children(runner, |fork| {
        ensure!(keeps(), static OTHER);
        let grandchild = runner.fork(fork, &mut || keeps().then_some(()).ok_or(OTHER));
        ensure!(grandchild == Ended::Well, static OTHER);
        ensure!(alone(runner, || (operations.id)()) != own, static TAKEN);
        Ok(())
    })
}

pub fn entered(runner: &dyn Runner, operations: &Operations) -> Outcome {
    ensure!(!(operations.enter)(), "a process that never forked is a child");
    ensure!((operations.notice_forks)(), "forks will not be noticed");
    ensure!(!(operations.enter)(), "arranging for forks to be noticed made one");
    for other_first in [false, true] {
        in_children(runner, |fork| notice_once(runner, operations, fork, other_first))?;
        ensure!(!(operations.enter)(), "a parent takes itself for a child");
    }
    Ok(())
}

fn notice_once(
    runner: &dyn Runner, operations: &Operations, fork: Fork, other_first: bool,
) -> Result<(), &'static str> {
    let noticed = AtomicU32::new(0);
    let others = 4;
    let enter = |_| {
        noticed.fetch_add((operations.enter)() as u32, Ordering::Relaxed);
    };
    if other_first {
        // Not `crowd`, whose jobs have entered.
        let jobs = (0..others).map(|number| Box::new(move || enter(number)) as crate::Job<'_>);
        runner.run(Placement::Anywhere, jobs.collect(), None);
    }
    let before = noticed.load(Ordering::Relaxed);
    let own = (operations.enter)();
    ensure!(before == 0, static "a fork was noticed by a thread that was born after it");
    ensure!(own, static "a fork was not noticed by the thread that forked");
    ensure!(!(operations.enter)(), static "a child was noticed twice");
    let child: Child<'_> = &mut || if (operations.enter)() { Ok(()) } else { Err("a grandchild was not noticed") };
    ensure!(runner.fork(fork, child) == Ended::Well, static "a grandchild was not noticed");
    Ok(())
}

/// The body of [`Operations::notice_forks`] after threads have entered: all call it at once, and again, and each forks.
pub fn arranged_late(runner: &dyn Runner, operations: &Operations) -> Outcome {
    const TIMES: usize = 100;
    let (findings, arrived) = (Findings::new(), AtomicUsize::new(0));
    let job = |_| {
        let before = (operations.identity)();
        meet(runner, &arrived, runner.width());
        for _ in 0..TIMES {
            demand!(findings, (operations.notice_forks)(), "forks will not be noticed");
            demand!(findings, !(operations.enter)(), "arranging for forks to be noticed made one");
        }
        let child: Child<'_> = &mut || if (operations.enter)() { Ok(()) } else { Err("a fork was not noticed") };
        let ended = runner.fork(Fork::Bare, child);
        demand!(findings, ended == Ended::Well, "a fork was not noticed that was arranged for late");
        let after = (operations.identity)();
        demand!(findings, before == after, "an identity changed: before, after", before, after);
    };
    runner.run(Placement::Anywhere, crowd(runner.width(), &job), None);
    findings.outcome()
}

pub fn declared(runner: &dyn Runner, operations: &Operations) -> Outcome {
    (operations.enter)();
    let child: Child<'_> = &mut || {
        ensure!(!(operations.enter)(), static "a fork was noticed, and nobody had arranged for it");
        let before = (operations.identity)();
        (operations.declare_forked)();
        ensure!((operations.enter)() && (operations.identity)() != before, static "a declared fork was not noticed");
        if (operations.enter)() { Err("a declared fork was noticed twice") } else { Ok(()) }
    };
    runner.fork(Fork::Bare, child).well()
}

pub fn alone_at_first(runner: &dyn Runner, operations: &Operations) -> Outcome {
    ensure!((operations.is_alone)(), "a process that never had a second thread is not alone");
    is_inherited(runner, operations)?;
    let during = alone(runner, || (operations.is_alone)());
    ensure!(!during, "a process with two threads is alone");
    ensure!(!(operations.is_alone)(), "a process that had a second thread is alone again");
    is_inherited(runner, operations)
}

fn is_inherited(runner: &dyn Runner, operations: &Operations) -> Outcome {
    let parents = (operations.is_alone)();
    in_children(runner, |_| {
        let is_same = (operations.is_alone)() == parents;
        is_same.then_some(()).ok_or("a child does not say what its parent said of being alone")
    })
}

pub fn uninterrupted(runner: &dyn Runner, operations: &Operations) -> Outcome {
    const STAY_NS: u64 = 20_000;
    // Each place holds the identity of a thread that must not be interrupted.
    let sheltered: Vec<_> = (0..runner.width()).map(|_| AtomicU64::new(0)).collect();
    let (findings, interrupts) = (Findings::new(), AtomicU64::new(0));
    let handler = || {
        interrupts.fetch_add(1, Ordering::Relaxed);
        let me = (operations.identity)();
        let interrupted = me != 0 && sheltered.iter().any(|place| place.load(Ordering::Relaxed) == me);
        demand!(findings, !interrupted, "a thread was interrupted that was without signals: identity", me);
    };
    let job = |number: usize| {
        let me = (operations.identity)();
        while runner.goes_on() && findings.none() {
            (operations.without_signals)(&mut || {
                sheltered[number].store(me, Ordering::Relaxed);
                stay(STAY_NS);
                sheltered[number].store(0, Ordering::Relaxed);
            });
            stay(STAY_NS);
        }
    };
    runner.run(Placement::Anywhere, crowd(runner.width(), &job), Some(&handler));
    findings.outcome()?;
    ensure!(
        interrupts.into_inner() > runner.width() as u64,
        "threads that were without signals for a while got no more signals"
    );
    Ok(())
}

static TOLD: AtomicUsize = AtomicUsize::new(0);

extern "C" fn tell() {
    TOLD.fetch_add(1, Ordering::Relaxed);
}

pub fn told(runner: &dyn Runner, operations: &Operations) -> Outcome {
    ensure!((operations.on_fork_in_child)(tell), "the function will not be called");
    for (fork, expected) in [(Fork::Ordinary, 1), (Fork::Bare, 0), (Fork::Ordinary, 1)] {
        let child: Child<'_> = &mut || {
            ensure!(TOLD.load(Ordering::Relaxed) == expected, static "a function was called too often, or not at all");
            Ok(())
        };
        runner.fork(fork, child).well()?;
        ensure!(TOLD.load(Ordering::Relaxed) == 0, "a function for fork children was called in the parent");
    }
    Ok(())
}

/// The body of [`Operations::level`] and what changes it. Handlers go down and return, or leave the thread lower.
pub fn deep(runner: &dyn Runner, operations: &Operations) -> Outcome {
    const BURST: usize = 64;
    const HIGH: i32 = 1 << 30;
    let left = Places::<AtomicU64>::new(runner.width());
    let findings = Findings::new();
    let walk = |start: i32| {
        let told = [(operations.descend)(), (operations.descend)(), (operations.ascend)()];
        demand!(findings, told == [start <= 0; 3], "whether a thread is below zero, of a level", start);
    };
    let handler = || match left.own() {
        Some(left) => {
            walk(HIGH);
            left.fetch_add(1, Ordering::Relaxed);
        }
        None => {
            walk((operations.level)());
            (operations.ascend)();
        }
    };
    let job = |number| {
        (operations.set_level)(HIGH);
        let left = left.settle(number);
        while runner.goes_on() {
            for _ in 0..BURST {
                walk(HIGH);
                (operations.ascend)();
            }
        }
        thread::without_signals(|| {
            let (level, left) = ((operations.level)(), left.load(Ordering::Relaxed));
            let lower = (HIGH - level) as u64;
            demand!(findings, lower == left, "a level lower by, and the levels that handlers left", lower, left);
            let child: Child<'_> = &mut || {
                if (operations.level)() == level { Ok(()) } else { Err("a child's thread is not where it was") }
            };
            demand!(findings, runner.fork(Fork::Bare, child) == Ended::Well, "a level in a child");
            (operations.set_level)(0);
            walk(0);
            let told = (operations.ascend)();
            demand!(findings, !told, "a thread at level zero is told that it is below");
            // As handlers expect it.
            (operations.set_level)(HIGH);
        });
    };
    runner.run(Placement::Moved, crowd(runner.width(), &job), Some(&handler));
    findings.outcome()
}

mod planted {
    use super::*;

    /// An id for nobody yet.
    pub(super) fn another() -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(2);
        NEXT.fetch_add(2, Ordering::Relaxed)
    }

    /// Changes the level in two steps, of which the machine is told that something may come in between.
    pub(super) fn go(change: i32) -> bool {
        static BETWEEN: AtomicU32 = AtomicU32::new(0);
        let level = thread::level();
        BETWEEN.load(Ordering::Relaxed);
        // A compiler that sees that this is an addition makes one instruction of all.
        thread::set_level(std::hint::black_box(level) + change);
        thread::level() < 0
    }
}
