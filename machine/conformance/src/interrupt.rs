//! `machine::thread`: interrupting another thread, and faults of the own one.

use crate::case::{Findings, Outcome, demand, ensure, operations};
use crate::runner::{Ended, Fork, Placement, Runner, crowd, wait_until};
use core::ptr::{null_mut, with_exposed_provenance_mut};
use machine::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use machine::thread::{After, Fault};
use machine::vm::{self, Access};
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

    /// Says what is done when a thread reaches for memory that is not there. False: it cannot be done.
    ///
    /// ```text
    /// on_fault(look):
    ///     at each access by any thread to a page that is free or hidden:
    ///         if look(its address, its instruction, whether it writes) = Repeat: the access is done again
    ///         else: as without a call of on_fault
    /// ```
    on_fault: fn(look: &'static fn(Fault) -> After) -> bool = thread::on_fault,
}

crate::cases! {
    CASES of Operations::MACHINE;
    "thread::interrupt" => interrupted, {
        "nobody" { interrupt: |_| () }
        "the one who asks" { interrupt: |_| thread::interrupt(code::thread_number()) }
        "another handler" { on_interrupt: |_| thread::on_interrupt(&(nothing as fn())) }
    }
    "thread::on_fault" => looked_at, {
        "never" { on_fault: |_| true }
        "not at all" { on_fault: |_| thread::on_fault(&(ignore as fn(Fault) -> After)) }
    }
    "thread::may_be_in_handler" => told, {
        "never" { may_be_in_handler: || false }
        "always" { may_be_in_handler: || true }
    }
}

/// The page that is hidden, and the last fault there.
static HIDDEN: AtomicUsize = AtomicUsize::new(0);
static FAULT: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

fn look(fault: Fault) -> After {
    let hidden = HIDDEN.load(Ordering::Relaxed);
    if fault.address.wrapping_sub(hidden) >= vm::PAGE {
        return After::HandOn;
    }
    FAULT[0].store(fault.address, Ordering::Relaxed);
    FAULT[1].store(usize::from(fault.is_write), Ordering::Relaxed);
    // SAFETY: the page is ours.
    unsafe { vm::protect(with_exposed_provenance_mut(hidden), vm::PAGE, Access::ReadWrite) };
    After::Repeat
}

fn ignore(_: Fault) -> After {
    After::HandOn
}

pub fn looked_at(runner: &dyn Runner, operations: &Operations) -> Outcome {
    const BYTES: usize = 2 * vm::PAGE;
    let Some(pages) = vm::reserve(null_mut(), BYTES, Access::None) else { return Err("no address space".into()) };
    HIDDEN.store(pages.expose_provenance(), Ordering::Relaxed);
    // In children: the handler stays, and others might rely on dying.
    let child = &mut || {
        ensure!((operations.on_fault)(&(look as fn(Fault) -> After)), static "faults cannot be looked at");
        for (offset, is_write) in [(8, false), (4088, true), (16, false)] {
            // SAFETY: the page is ours. What it is accessed for is what is tested.
            unsafe {
                vm::protect(pages, vm::PAGE, Access::None);
                let at = pages.add(offset).cast::<u64>();
                if is_write { at.write_volatile(7) } else { _ = at.read_volatile() }
            }
            let found = FAULT.each_ref().map(|word| word.load(Ordering::Relaxed));
            let wanted = [pages.addr() + offset, usize::from(is_write)];
            ensure!(found == wanted, static "another fault was told than the one that came");
        }
        Ok(())
    };
    for fork in [Fork::Bare, Fork::Ordinary] {
        match runner.fork(fork, child) {
            Ended::Well => {}
            other => return Err(format!("with a look at faults, a child ended so: {other:?}")),
        }
    }
    let others = &mut || {
        (operations.on_fault)(&(look as fn(Fault) -> After));
        // SAFETY: it is not safe; that is the point.
        unsafe { pages.add(vm::PAGE).write_volatile(1) };
        Ok(())
    };
    ensure!(runner.fork(Fork::Bare, others) == Ended::Died, "a fault that nobody mends did not end the process");
    // SAFETY: the pages are ours.
    unsafe { vm::release(pages, BYTES) };
    Ok(())
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
