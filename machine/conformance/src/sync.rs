//! `machine::sync`: the lock. (The atomics are the language's, and their meaning, too.)
//!
//! The stress is a pair of plain words that each of two locks keeps equal. Threads take the two locks in any order, and
//! so do handlers that interrupt them anywhere, also while they take a lock. Threads have entered, see
//! `thread::Operations::enter`.

use crate::case::{Findings, Outcome, demand, ensure, operations};
use crate::runner::{Child, Ended, Fork, Placement, Runner, alone, crowd, pause_for, wait_until};
use machine::sync::{Acquired, AtomicBool, AtomicU32, AtomicU64, Contention, Lock, Ordering, Site};
use machine::{clock, here, thread};

/// The lock under test: of a rank in the middle.
pub type Middle = Lock<5>;
/// A lock that has to be taken before it.
pub type Lower = Lock<4>;

operations! {
    /// Takes the lock if nobody holds it.
    ///
    /// ```text
    /// try_acquire():
    ///     atomically: if holder ≠ nobody: return false
    ///                 holder = identity()
    ///     return true                                 what earlier holders wrote is visible
    /// ```
    try_acquire: fn(&Middle) -> bool = Middle::try_acquire,

    /// Takes the lock.
    ///
    /// ```text
    /// acquire(contention, site):
    ///     if the thread holds any lock of this rank or above:
    ///         contention.out_of_order += 1
    ///         return Clean if try_acquire(), else WouldDeadlock
    ///     if try_acquire(): return Clean
    ///     wait, as if holding it, until try_acquire(); or until the holder is of an ancestor process: then it is ours
    ///     waited = contention's place for site, or if PLACES other sites have all of them, what is lost
    ///     waited.contended += 1; waited.total_wait_ns += wait; waited.max_wait_ns = max(…, wait)
    ///     return Clean or, in the latter case, Abandoned
    /// ```
    acquire: fn(&Middle, &Contention, Site) -> Acquired = Middle::acquire,

    /// Takes the lock if nobody will ever release it, and waits for nobody. What it protects may be half-changed.
    ///
    /// ```text
    /// try_inherit():
    ///     atomically: if the holder is not of an ancestor process, or is this very thread: return false
    ///                 holder = identity()
    ///     return true
    /// ```
    try_inherit: fn(&Middle) -> bool = Middle::try_inherit,

    /// Gives the lock back, and lets one of those who wait go on.
    ///
    /// ```text
    /// release():                                      the calling thread holds it
    ///     holder = nobody                             what we wrote is visible to later holders
    /// ```
    // SAFETY: the bodies release what they acquired.
    release: fn(&Middle) = |lock| unsafe { lock.release() },

    /// Whether anybody held the lock at some moment of the call.
    is_held: fn(&Middle) -> bool = Middle::is_held,

    /// Whether the calling thread holds the lock, also if a signal handler asks on top of it.
    is_mine: fn(&Middle) -> bool = Middle::is_mine,

    /// [`acquire`](Self::acquire) of a lower rank.
    acquire_lower: fn(&Lower, &Contention, Site) -> Acquired = Lower::acquire,

    /// [`release`](Self::release) of a lower rank.
    // SAFETY: as above.
    release_lower: fn(&Lower) = |lock| unsafe { lock.release() },

    /// Counts a wait at a site, as [`acquire`](Self::acquire) does.
    record: fn(&Contention, Site, u64) = Contention::record,
}

crate::cases! {
    CASES of Operations::MACHINE;
    "sync::Lock excludes" => excludes, {
        "looks, then takes" { acquire: planted::look_then_take, release: planted::free }
    }
    "sync::Lock wakes" => wakes, {
        "wakes nobody" { release: planted::release_silently }
    }
    "sync::Lock is not reentered" => not_reentered, {
        "waits for itself" { acquire: planted::acquire_at_last }
        "is everybody's who asks" { is_mine: Middle::is_held }
    }
    "sync::Lock outlives its holder in a fork" => abandoned, {
        "waits for the dead" { acquire: |lock, _, _| planted::take_when(lock, || true) }
        "is inherited by nobody" { try_inherit: |_| false }
        "is inherited from the living" { try_inherit: Middle::is_held }
        "is inherited by its own holder" { try_inherit: planted::inherit_anyway }
    }
    "sync::Lock waits in order only" => in_order, {
        "waits unless it holds this very lock" { acquire_lower: planted::acquire_unranked }
    }
    "sync::Lock counts while it is waited for" => counted, {
        "not until it is held" { acquire: |lock, _, _| planted::take_when(lock, || !lock.is_held()) }
    }
}

/// What the lock protects: two words, changed by plain loads and stores.
#[derive(Default)]
struct Pair(AtomicU64, AtomicU64);

impl Pair {
    fn increment(&self, findings: &Findings) {
        let (left, right) = (self.0.load(Ordering::Relaxed), self.1.load(Ordering::Relaxed));
        demand!(findings, left == right, "two threads are inside one lock: left, right", left, right);
        self.0.store(left + 1, Ordering::Relaxed);
        self.1.store(right + 1, Ordering::Relaxed);
    }
}

/// A thread holds one lock while it takes the other, and so does its handler: a cycle of waiters would make this hang.
pub fn excludes(runner: &dyn Runner, operations: &Operations) -> Outcome {
    let (lower, middle, contention, findings) = (Lower::new(), Middle::new(), Contention::new(), Findings::new());
    let (lower_pair, middle_pair) = (Pair::default(), Pair::default());
    let (passes, refusals, turn) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let enters = |acquired| match acquired {
        Acquired::Clean => true,
        Acquired::WouldDeadlock => {
            refusals.fetch_add(1, Ordering::Relaxed);
            false
        }
        Acquired::Abandoned => {
            findings.add("a lock was abandoned without a fork", [0; 3]);
            false
        }
    };
    let pass = || {
        // A handler may come before its thread has entered.
        thread::enter();
        // Every other pass waits for the second lock without the first, so that its handler may wait for the first.
        let takes_both = turn.fetch_add(1, Ordering::Relaxed).is_multiple_of(2);
        let has_lower = takes_both && enters((operations.acquire_lower)(&lower, &contention, here!()));
        if has_lower {
            lower_pair.increment(&findings);
            passes.fetch_add(1, Ordering::Relaxed);
        }
        if enters((operations.acquire)(&middle, &contention, here!())) {
            middle_pair.increment(&findings);
            passes.fetch_add(1, Ordering::Relaxed);
            (operations.release)(&middle);
        }
        if has_lower {
            (operations.release_lower)(&lower);
        }
    };
    let job = |_| {
        while runner.goes_on() && findings.none() {
            pass();
        }
    };
    runner.run(Placement::Moved, crowd(runner.width(), &job), Some(&pass));
    findings.outcome()?;
    let (passes, counted) = (passes.into_inner(), lower_pair.0.into_inner() + middle_pair.0.into_inner());
    ensure!(passes == counted, "{passes} passes through two locks counted {counted}: two threads were inside");
    ensure!(!(operations.is_held)(&middle), "a lock that everybody released is held");
    let (report, refusals) = (contention.report(), refusals.into_inner());
    ensure!(report.waited.contended <= passes, "{} of {passes} passes were contended", report.waited.contended);
    ensure!(refusals <= report.out_of_order, "{refusals} refusals, of {} attempts out of order", report.out_of_order);
    Ok(())
}

/// A holder keeps the lock until the others sleep. Nothing else wakes them: a lock that forgets one makes this hang.
pub fn wakes(runner: &dyn Runner, operations: &Operations) -> Outcome {
    const HOLD_NS: u64 = 20_000;
    let (lock, contention) = (Middle::new(), Contention::new());
    let job = |_| {
        while runner.goes_on() {
            (operations.acquire)(&lock, &contention, here!());
            pause_for(runner, HOLD_NS);
            (operations.release)(&lock);
            // Away for a moment, so that the holder is not always the same.
            pause_for(runner, HOLD_NS);
        }
    };
    runner.run(Placement::Anywhere, crowd(runner.width(), &job), None);
    Ok(())
}

pub fn not_reentered(runner: &dyn Runner, operations: &Operations) -> Outcome {
    thread::enter();
    let (lock, contention) = (Middle::new(), Contention::new());
    ensure!(!(operations.is_held)(&lock) && !(operations.is_mine)(&lock), "a new lock is held");
    for _ in 0..3 {
        let first = (operations.acquire)(&lock, &contention, here!());
        ensure!(first == Acquired::Clean, "a free lock was acquired {first:?}");
        ensure!((operations.is_held)(&lock) && (operations.is_mine)(&lock), "an acquired lock is not held");
        ensure!(!alone(runner, || (operations.is_mine)(&lock)), "a held lock is another thread's");
        ensure!(!(operations.try_acquire)(&lock), "a held lock was acquired by its holder");
        let second = (operations.acquire)(&lock, &contention, here!());
        ensure!(second == Acquired::WouldDeadlock, "a lock was acquired {second:?} by its holder");
        let third = alone(runner, || (operations.try_acquire)(&lock));
        ensure!(!third, "a held lock was acquired by another thread");
        (operations.release)(&lock);
        let is_free = !(operations.is_held)(&lock) && !(operations.is_mine)(&lock);
        ensure!(is_free, "a lock that was released once is held");
    }
    ensure!((operations.try_acquire)(&lock), "a free lock could not be acquired");
    (operations.release)(&lock);
    Ok(())
}

/// Before the fork, a thread that stays behind holds one lock while another sleeps on it, the forking thread holds one
/// as in a handler; one is free.
pub fn abandoned(runner: &dyn Runner, operations: &Operations) -> Outcome {
    ensure!(thread::notice_forks(), "forks will not be noticed");
    let locks = [const { Middle::new() }; 3];
    let contention = Contention::new();
    let (held, forked) = (AtomicU32::new(0), AtomicBool::new(false));
    let mut outcome = Ok(());
    let place = std::sync::Mutex::new(&mut outcome);
    let job = |number| match number {
        0 => hold(runner, operations, &locks[0], &contention, &held, &forked),
        1 => {
            wait_until(runner, || held.load(Ordering::Acquire) == 1);
            hold(runner, operations, &locks[0], &contention, &held, &forked);
        }
        _ => {
            wait_until(runner, || held.load(Ordering::Acquire) == 1);
            // Long enough for the other one to fall asleep.
            pause_for(runner, 2_000_000);
            let result = fork_both_ways(runner, operations, &locks, &contention);
            forked.store(true, Ordering::Release);
            **place.lock().expect("nobody else uses it") = result;
        }
    };
    runner.run(Placement::Anywhere, crowd(3, &job), None);
    outcome?;
    ensure!(held.into_inner() == 2, "a waiting thread never got the lock of the one that stayed");
    Ok(())
}

fn hold(
    runner: &dyn Runner, operations: &Operations, lock: &Middle, contention: &Contention, held: &AtomicU32,
    forked: &AtomicBool,
) {
    (operations.acquire)(lock, contention, here!());
    held.fetch_add(1, Ordering::Release);
    wait_until(runner, || forked.load(Ordering::Acquire));
    (operations.release)(lock);
}

fn fork_both_ways(
    runner: &dyn Runner, operations: &Operations, locks: &[Middle; 3], contention: &Contention,
) -> Outcome {
    for (fork, tries) in [Fork::Bare, Fork::Ordinary].into_iter().flat_map(|fork| [(fork, false), (fork, true)]) {
        (operations.acquire)(&locks[1], contention, here!());
        ensure!(!locks.iter().any(operations.try_inherit), "a lock was inherited without a fork");
        let child: Child<'_> = &mut || {
            let expected = [Acquired::Abandoned, Acquired::Clean, Acquired::Clean];
            inherit(operations, locks, contention, tries, 1, expected)?;
            (operations.acquire)(&locks[2], contention, here!());
            let grandchild: Child<'_> = &mut || inherit(operations, locks, contention, tries, 2, [Acquired::Clean; 3]);
            if runner.fork(fork, grandchild) == Ended::Well {
                Ok(())
            } else {
                Err("a grandchild found another holder than its own child")
            }
        };
        let ended = runner.fork(fork, child);
        (operations.release)(&locks[1]);
        ended.well()?;
    }
    Ok(())
}

/// In a child: continues as the thread that forked while it held the lock `own`. Then acquires all locks, in the state
/// in which it should find them, twice. If it `tries`, it does not wait.
fn inherit(
    operations: &Operations, locks: &[Middle; 3], contention: &Contention, tries: bool, own: usize,
    expected: [Acquired; 3],
) -> Result<(), &'static str> {
    let acquire = |lock: &Middle| match tries {
        true if (operations.try_acquire)(lock) => Acquired::Clean,
        true if (operations.try_inherit)(lock) => Acquired::Abandoned,
        true => Acquired::WouldDeadlock,
        false => (operations.acquire)(lock, contention, here!()),
    };
    ensure!(thread::enter(), static "a child was not noticed");
    const TAKEN: &str = "a child took the lock over that its own thread held when it forked";
    ensure!(acquire(&locks[own]) == Acquired::WouldDeadlock, static TAKEN);
    (operations.release)(&locks[own]);
    for (lock, expected) in locks.iter().zip(expected) {
        for expected in [expected, Acquired::Clean] {
            let outcome = acquire(lock);
            if outcome != expected {
                return Err(if expected == Acquired::Clean {
                    "a lock that nobody holds, or that was taken over, is not acquired clean in a child"
                } else {
                    "a lock that was held at the fork is not acquired as abandoned in a child"
                });
            }
            (operations.release)(lock);
        }
    }
    Ok(())
}

/// A thread holds a lock of a higher rank, as a signal handler's may.
pub fn in_order(runner: &dyn Runner, operations: &Operations) -> Outcome {
    let (lower, middle, contention, findings) = (Lower::new(), Middle::new(), Contention::new(), Findings::new());
    let (held, asked) = (AtomicBool::new(false), AtomicBool::new(false));
    let demand = |acquired, expected, what| demand!(findings, acquired == expected, what);
    let job = |number| match number {
        0 => {
            (operations.acquire_lower)(&lower, &contention, here!());
            held.store(true, Ordering::Release);
            wait_until(runner, || asked.load(Ordering::Acquire));
            (operations.release_lower)(&lower);
        }
        _ => {
            wait_until(runner, || held.load(Ordering::Acquire));
            let free = Lower::new();
            (operations.acquire)(&middle, &contention, here!());
            let got = (operations.acquire_lower)(&free, &contention, here!());
            demand(got, Acquired::Clean, "a free lock of a lower rank was refused");
            (operations.release_lower)(&free);
            let got = (operations.acquire_lower)(&lower, &contention, here!());
            demand(got, Acquired::WouldDeadlock, "a thread waited for a lock of a lower rank than one that it holds");
            asked.store(true, Ordering::Release);
            (operations.release)(&middle);
            let got = (operations.acquire_lower)(&lower, &contention, here!());
            demand(got, Acquired::Clean, "a lock was not waited for, though no other is held");
            (operations.release_lower)(&lower);
        }
    };
    runner.run(Placement::Anywhere, crowd(2, &job), None);
    findings.outcome()?;
    let counted = contention.report().out_of_order;
    ensure!(counted == 2, "2 attempts out of order were counted as {counted}");
    Ok(())
}

/// Handlers above a waiting thread. It may have been woken, and then those behind it wait for it: its handlers must not
/// wait for what they hold.
pub fn counted(runner: &dyn Runner, operations: &Operations) -> Outcome {
    const ROUNDS: usize = 4;
    const HOLD_NS: u64 = 300_000_000;
    let refused = (0..ROUNDS).filter(|_| is_refused_while_waiting(runner, operations, HOLD_NS)).count();
    // A handler may come just before the wait, and wait by right.
    ensure!(refused > 0, "handlers above a waiting thread wait for locks of a lower rank, in each of {ROUNDS} rounds");
    Ok(())
}

fn is_refused_while_waiting(runner: &dyn Runner, operations: &Operations, hold_ns: u64) -> bool {
    let (lower, middle, contention) = (Lower::new(), Middle::new(), Contention::new());
    let (held, waiter, refused) = (AtomicBool::new(false), AtomicU64::new(0), AtomicBool::new(false));
    let job = |number| match number {
        0 => {
            (operations.acquire_lower)(&lower, &contention, here!());
            (operations.acquire)(&middle, &contention, here!());
            held.store(true, Ordering::Release);
            let end = clock::now_ns() + hold_ns;
            wait_until(runner, || refused.load(Ordering::Relaxed) || clock::now_ns() > end);
            (operations.release)(&middle);
            (operations.release_lower)(&lower);
        }
        _ => {
            wait_until(runner, || held.load(Ordering::Acquire));
            waiter.store(thread::identity(), Ordering::Relaxed);
            (operations.acquire)(&middle, &contention, here!());
            waiter.store(0, Ordering::Relaxed);
            (operations.release)(&middle);
        }
    };
    let handler = || {
        thread::enter();
        if waiter.load(Ordering::Relaxed) != thread::identity() || refused.load(Ordering::Relaxed) {
            return;
        }
        match (operations.acquire_lower)(&lower, &contention, here!()) {
            Acquired::WouldDeadlock => refused.store(true, Ordering::Relaxed),
            _ => (operations.release_lower)(&lower),
        }
    };
    runner.run(Placement::Anywhere, crowd(2, &job), Some(&handler));
    refused.into_inner()
}

/// Wrong locks. A lock is one word of 32 bits, zero if it is free, with the highest bit for those who sleep.
mod planted {
    use super::*;

    const WAITERS: u32 = 1 << 31;
    /// After so many tries, a lock that should wait for ever acts as if it had got it.
    const PATIENCE: u32 = 200_000;

    fn word<const RANK: u8>(lock: &Lock<RANK>) -> &AtomicU32 {
        // SAFETY: a lock is transparent over its word.
        unsafe { &*(&raw const *lock).cast() }
    }

    pub(super) fn look_then_take<const RANK: u8>(lock: &Lock<RANK>, _: &Contention, _: Site) -> Acquired {
        for _ in 0..PATIENCE {
            if word(lock).load(Ordering::Relaxed) == 0 {
                word(lock).store(thread::identity() as u32, Ordering::Relaxed);
                break;
            }
            core::hint::spin_loop();
        }
        Acquired::Clean
    }

    pub(super) fn free(lock: &Middle) {
        word(lock).store(0, Ordering::Release);
    }

    pub(super) fn release_silently(lock: &Middle) {
        word(lock).fetch_and(!WAITERS, Ordering::Relaxed);
        // SAFETY: passed on.
        unsafe { lock.release() };
    }

    pub(super) fn acquire_at_last(lock: &Middle, _: &Contention, _: Site) -> Acquired {
        let _ = (0..PATIENCE).any(|_| lock.try_acquire());
        Acquired::Clean
    }

    /// Tries for ever, but only when it seems worth it.
    pub(super) fn take_when(lock: &Middle, is_worth_it: impl Fn() -> bool) -> Acquired {
        while !is_worth_it() || !lock.try_acquire() {
            core::hint::spin_loop();
        }
        Acquired::Clean
    }

    /// To a lock of the highest rank, those that the thread holds say nothing.
    pub(super) fn inherit_anyway(lock: &Middle) -> bool {
        // SAFETY: locks of all ranks are transparent over the same word.
        unsafe { &*(&raw const *lock).cast::<Lock<7>>() }.try_inherit()
    }

    /// What this lock once did. Where it would wait for ever it goes on after a while, without the lock.
    pub(super) fn acquire_unranked(lock: &Lower, _: &Contention, _: Site) -> Acquired {
        for _ in 0..PATIENCE {
            if lock.try_acquire() {
                break;
            }
            if word(lock).load(Ordering::Relaxed) & !WAITERS == thread::identity() as u32 {
                return Acquired::WouldDeadlock;
            }
            core::hint::spin_loop();
        }
        Acquired::Clean
    }
}
