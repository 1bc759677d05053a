//! `machine::sandbox`: which system calls may be made.
//!
//! That none of the others is made can be seen in a real sandbox only, and is tested there, by programs under the
//! drop-in library.

use crate::case::{Findings, Outcome, demand, ensure, operations};
use crate::runner::{Fork, Job, Placement, Runner};
use machine::sync::{AtomicBool, Ordering};
use machine::{kick, process, sandbox, thread};

operations! {
    /// No unusual system call from the return on.
    ///
    /// ```text
    /// enter():
    ///     is_on = true                              in fork children as well
    ///     wait for other threads' kicks, and other unusual calls, to end
    /// ```
    enter: fn() = sandbox::enter,

    /// Whether somebody entered.
    is_on: fn() -> bool = sandbox::is_on,
}

crate::cases! {
    CASES of Operations::MACHINE;
    "sandbox::enter" => entered, {
        "nothing happens" { enter: || () }
        "it is on from the start" { is_on: || true }
    }
}

fn entered(runner: &dyn Runner, operations: &Operations) -> Outcome {
    ensure!(!(operations.is_on)(), "a sandbox is on that nobody entered");
    let (findings, is_on) = (Findings::new(), AtomicBool::new(false));
    let kicks: Job<'_> = Box::new(|| {
        thread::enter();
        loop {
            let was_on = is_on.load(Ordering::SeqCst);
            let is_done = kick::fence_all().is_ok();
            demand!(findings, !(was_on && is_done), "a kick in a sandbox");
            if was_on {
                return;
            }
            runner.pause();
        }
    });
    let enters: Job<'_> = Box::new(|| {
        thread::enter();
        (0..100).for_each(|_| runner.pause());
        let process = process::id();
        (operations.enter)();
        (operations.enter)();
        is_on.store(true, Ordering::SeqCst);
        demand!(findings, (operations.is_on)(), "it is not on");
        demand!(findings, process::id() == process, "the process has another number");
    });
    runner.run(Placement::Apart, vec![kicks, enters], None);
    findings.outcome()?;
    let in_child = &mut || {
        let is_shut = (operations.is_on)() && kick::restart_all().is_err();
        if is_shut { Ok(()) } else { Err("a fork child is outside of it") }
    };
    runner.fork(Fork::Ordinary, in_child).well()
}
