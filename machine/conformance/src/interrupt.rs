//! `machine::thread`: interrupting another thread.

use crate::case::{Findings, Outcome, demand, ensure, operations};
use crate::runner::{Placement, Runner, crowd, wait_until};
use machine::sync::{AtomicU32, AtomicU64, Ordering};
use machine::{clock, code, thread};

operations! {
    /// Says what threads do that [`interrupt`](Self::interrupt) interrupts, from now on. False: none can be.
    on_interrupt: fn(handler: &'static fn()) -> bool = thread::on_interrupt,

    /// Interrupts a thread of the process, by the number that `code::thread_number` returned there. It may be gone.
    ///
    /// ```text
    /// interrupt(number):
    ///     between any two instructions of that thread, soon, unless it masks signals: handler()
    /// ```
    ///
    /// Of several that come before the handler began, one may be all.
    interrupt: fn(number: u32) = thread::interrupt,

    /// Whether the calling thread may be in a signal handler.
    ///
    /// ```text
    /// may_be_in_handler():
    ///     in a handler: true; else false, unless the thread masks a signal that has a handler
    /// ```
    may_be_in_handler: fn() -> bool = thread::may_be_in_handler,
}

crate::cases! {
    CASES of Operations::MACHINE;
    "thread::interrupt" => interrupted, {
        "nobody" { interrupt: |_| () }
        "the one who asks" { interrupt: |_| thread::interrupt(code::thread_number()) }
        "another handler" { on_interrupt: |_| thread::on_interrupt(&(nothing as fn())) }
    }
    "thread::may_be_in_handler" => told, {
        "never" { may_be_in_handler: || false }
        "always" { may_be_in_handler: || true }
    }
}

/// Interrupts that came, and the identity of the thread on which the last one did.
static TIMES: AtomicU64 = AtomicU64::new(0);
static WHERE: AtomicU64 = AtomicU64::new(0);

fn note() {
    WHERE.store(thread::identity(), Ordering::Relaxed);
    TIMES.fetch_add(1, Ordering::Release);
}

fn nothing() {}

pub fn interrupted(runner: &dyn Runner, operations: &Operations) -> Outcome {
    const ROUNDS: u64 = 20;
    const PATIENCE_NS: u64 = 1_000_000_000;
    let findings = Findings::new();
    let (number, identity, done) = (AtomicU32::new(0), AtomicU64::new(0), AtomicU32::new(0));
    ensure!((operations.on_interrupt)(&(note as fn())), "no thread can be interrupted");
    let job = |which: usize| {
        if which == 0 {
            identity.store(thread::identity(), Ordering::Relaxed);
            number.store(code::thread_number(), Ordering::Release);
            return wait_until(runner, || done.load(Ordering::Relaxed) != 0);
        }
        wait_until(runner, || number.load(Ordering::Acquire) != 0);
        for round in 1..=ROUNDS {
            let before = TIMES.load(Ordering::Acquire);
            (operations.interrupt)(number.load(Ordering::Relaxed));
            let start = clock::now_ns();
            while TIMES.load(Ordering::Acquire) == before && findings.none() {
                let ns = clock::now_ns() - start;
                demand!(findings, ns < PATIENCE_NS, "an interrupt did not come: round, ns", round, ns);
                runner.pause();
            }
            let (came, wanted) = (WHERE.load(Ordering::Relaxed), identity.load(Ordering::Relaxed));
            let what = "an interrupt came to another thread: its identity, and the wanted one's";
            demand!(findings, came == wanted || !findings.none(), what, came, wanted);
            if !findings.none() {
                break;
            }
        }
        done.store(1, Ordering::Relaxed);
    };
    runner.run(Placement::Anywhere, crowd(2, &job), None);
    findings.outcome()
}

pub fn told(runner: &dyn Runner, operations: &Operations) -> Outcome {
    const HANDLERS: u64 = 20;
    const PATIENCE_NS: u64 = 2_000_000_000;
    let (findings, handlers) = (Findings::new(), AtomicU64::new(0));
    let job = |_| {
        let start = clock::now_ns();
        while handlers.load(Ordering::Relaxed) < HANDLERS && clock::now_ns() - start < PATIENCE_NS && findings.none() {
            let told = (operations.may_be_in_handler)();
            demand!(findings, !told, "a thread is told that it is in a handler, and is in none");
            runner.pause();
        }
    };
    let handler = || {
        let told = (operations.may_be_in_handler)();
        demand!(findings, told, "a handler is told that it is none");
        handlers.fetch_add(1, Ordering::Relaxed);
    };
    runner.run(Placement::Anywhere, crowd(2, &job), Some(&handler));
    findings.outcome()
}
