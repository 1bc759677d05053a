//! `machine::sync`: waiting for a word, and waking who does.

use crate::case::{Findings, Outcome, demand, ensure, operations};
use crate::runner::{Placement, Runner, crowd, wait_until};
use machine::clock;
use machine::sync::{self, AtomicU32, AtomicU64, Ordering};

operations! {
    /// Sleeps while a word is as expected, until somebody wakes who waits there, for some time at most.
    ///
    /// ```text
    /// wait(word, expected, limit):
    ///     atomically: if word ≠ expected: return
    ///                 begin to wait for word
    ///     sleep until woken there, until limit has passed, or until nothing in particular
    /// ```
    wait: fn(word: &AtomicU32, expected: u32, limit_ns: u64) = sync::wait,

    /// Wakes all who wait for a word.
    wake_all: fn(word: &AtomicU32) = sync::wake_all,

    /// Wakes one of them, if there is one.
    wake_one: fn(word: &AtomicU32) = sync::wake_one,
}

crate::cases! {
    CASES of Operations::MACHINE;
    "sync::wait" => waited, {
        "has no limit" { wait: |word, expected, _| sync::wait(word, expected, LONG_NS) }
        "does not compare" { wait: |word, _, limit| sync::wait(word, word.load(Ordering::Relaxed), limit) }
        "does not sleep" { wait: |_, _, _| () }
    }
    "sync::wake_all" => all_woken, {
        "one only" { wake_all: sync::wake_one }
    }
    "sync::wake_one" => each_woken, {
        "nobody" { wake_one: |_| () }
    }
}

const SHORT_NS: u64 = 20_000_000;
const LONG_NS: u64 = 3_000_000_000;

fn time(work: impl FnOnce()) -> u64 {
    let start = clock::now_ns();
    work();
    clock::now_ns() - start
}

/// Nobody wakes: it compares, and has a limit.
fn waited(_: &dyn Runner, operations: &Operations) -> Outcome {
    /// It may return for no reason, but not each time.
    const TIMES: usize = 4;
    let word = AtomicU32::new(1);
    let other = time(|| (operations.wait)(&word, 0, LONG_NS));
    ensure!(other < LONG_NS / 2, "waited {other} ns for a word that was another one already");
    let same: Vec<u64> = (0..TIMES).map(|_| time(|| (operations.wait)(&word, 1, SHORT_NS))).collect();
    ensure!(same.iter().any(|&ns| ns >= SHORT_NS), "never waited {SHORT_NS} ns, but {same:?}");
    ensure!(same.iter().all(|&ns| ns < LONG_NS / 2), "waited {same:?} ns, of which {SHORT_NS} was the limit");
    Ok(())
}

/// All wait for each change that one of them makes.
fn all_woken(runner: &dyn Runner, operations: &Operations) -> Outcome {
    const ROUNDS: u32 = 200;
    let (word, arrived, findings) = (AtomicU32::new(0), AtomicU64::new(0), Findings::new());
    let others = runner.width() as u64 - 1;
    let job = |number: usize| {
        for round in 0..ROUNDS {
            if !findings.none() {
                return;
            }
            if number == 0 {
                let all = others * u64::from(round + 1);
                wait_until(runner, || arrived.load(Ordering::Relaxed) >= all || !findings.none());
                word.store(round + 1, Ordering::Release);
                (operations.wake_all)(&word);
            } else {
                arrived.fetch_add(1, Ordering::Relaxed);
                let ns = time(|| {
                    while word.load(Ordering::Acquire) == round {
                        (operations.wait)(&word, round, LONG_NS);
                    }
                });
                demand!(findings, ns < LONG_NS, "nobody woke a thread: round, ns", round, ns);
            }
        }
    };
    runner.run(Placement::Anywhere, crowd(runner.width(), &job), None);
    findings.outcome()
}

/// A token goes round, and who gets it is woken alone.
fn each_woken(runner: &dyn Runner, operations: &Operations) -> Outcome {
    const ROUNDS: u32 = 200;
    let width = runner.width();
    let (words, findings) = ((0..width).map(|_| AtomicU32::new(0)).collect::<Vec<_>>(), Findings::new());
    let job = |number: usize| {
        for round in 1..=ROUNDS {
            // The first one begins, and then waits for the last one's round before.
            let awaited = if number == 0 { round - 1 } else { round };
            let ns = time(|| {
                loop {
                    let seen = words[number].load(Ordering::Acquire);
                    if seen >= awaited || !findings.none() {
                        break;
                    }
                    (operations.wait)(&words[number], seen, LONG_NS);
                }
            });
            demand!(findings, ns < LONG_NS, "nobody woke a thread: round, ns", round, ns);
            let next = &words[(number + 1) % width];
            next.store(round, Ordering::Release);
            (operations.wake_one)(next);
        }
    };
    runner.run(Placement::Anywhere, crowd(width, &job), None);
    findings.outcome()
}
