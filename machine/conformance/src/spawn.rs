//! `machine::thread`: threads of the runtime's own.

use crate::case::{Outcome, ensure, operations};
use crate::runner::{Runner, alone, pause_for};
use machine::sync::{AtomicU64, Ordering};
use machine::thread::Work;
use machine::{clock, thread};

operations! {
    /// Starts a thread of the runtime's own.
    ///
    /// ```text
    /// spawn(work):
    ///     either return false
    ///     or return true, and a new thread, which sees all earlier writes, runs work.job once, without handlers
    /// ```
    ///
    /// The process may end before the thread does.
    spawn: fn(&'static Work) -> bool = thread::spawn,
}

crate::cases! {
    CASES of Operations::MACHINE;
    "thread::spawn" => spawned, {
        "on the same thread" { spawn: |work| ((work.job)(), true).1 }
        "nobody" { spawn: |_| true }
        "two" { spawn: |work| thread::spawn(work) && thread::spawn(work) }
    }
}

pub fn spawned(runner: &dyn Runner, operations: &Operations) -> Outcome {
    const PATIENCE_NS: u64 = 2_000_000_000;
    /// In which a second one would come, too.
    const LATER_NS: u64 = 20_000_000;
    const ROUNDS: u64 = 8;
    static TOLD: AtomicU64 = AtomicU64::new(0);
    static SEEN: AtomicU64 = AtomicU64::new(0);
    static TIMES: AtomicU64 = AtomicU64::new(0);
    static STRANGER: AtomicU64 = AtomicU64::new(0);
    static WORK: Work = Work {
        name: c"conformance",
        job: || {
            thread::enter();
            SEEN.store(TOLD.load(Ordering::Relaxed), Ordering::Relaxed);
            STRANGER.store(thread::identity(), Ordering::Relaxed);
            TIMES.fetch_add(1, Ordering::Release);
        },
    };
    let before = TIMES.load(Ordering::Relaxed);
    alone(runner, || {
        for round in 1..=ROUNDS {
            TOLD.store(round, Ordering::Relaxed);
            ensure!((operations.spawn)(&WORK), "no thread could be made");
            let start = clock::now_ns();
            while TIMES.load(Ordering::Acquire) - before < round {
                ensure!(clock::now_ns() - start < PATIENCE_NS, "a thread did not begin");
                runner.pause();
            }
            ensure!(SEEN.load(Ordering::Relaxed) == round, "a thread did not see what was written before");
            ensure!(STRANGER.load(Ordering::Relaxed) != thread::identity(), "a job ran on the thread that spawned it");
        }
        ensure!(!thread::is_alone(), "a process with a thread of the runtime's own is alone");
        pause_for(runner, LATER_NS);
        ensure!(TIMES.load(Ordering::Acquire) - before == ROUNDS, "a job ran more often than it was spawned");
        Ok(())
    })
}
