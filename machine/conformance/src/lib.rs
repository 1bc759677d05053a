//! What a machine must do: each operation is specified once, as pseudo-code, and has one test body for all machines.
//!
//! Each module has the same parts. `Operations` is a table with the specification of each operation;
//! `Operations::MACHINE` is that table for the machine under test. A body is a function of a [`Runner`] and such a
//! table. [`cases!`] makes the cases. A [`Case`] is either the machine's, and must pass, or *planted*: one operation is
//! wrong, and the same body must find it. A body that no planted operation can fail would be no test.
//!
//! The bodies know only the machine's interface, and get threads, interrupts and forks from the runner. So they run
//! unchanged on the host (the program `commensal-conformance` and this package's tests) and on a simulated machine.
//!
//! A case needs a process, or a simulated machine, of its own: slots are initialised and regions installed once.

#![allow(missing_docs)]

pub mod case;
mod clock;
mod code;
mod contention;
mod fault;
mod interrupt;
mod kick;
mod order;
mod probe;
mod process;
mod publication;
mod root;
pub mod runner;
mod sandbox;
pub mod slot;
mod spawn;
mod stack;
pub mod sync;
mod thread;
mod vm;
mod wait;

pub use case::{Case, Findings, Outcome};
pub use runner::{Ended, Fork, Job, Placement, Runner};

pub fn cases() -> impl Iterator<Item = &'static Case> {
    let modules = [
        slot::CASES,
        slot::RESTARTS_OF_ALL,
        kick::CASES,
        sync::CASES,
        order::CASES,
        contention::CASES,
        wait::CASES,
        thread::CASES,
        spawn::CASES,
        interrupt::CASES,
        vm::CASES,
        publication::CASES,
        sandbox::CASES,
        clock::CASES,
        process::CASES,
        root::CASES,
        fault::CASES,
        code::CASES,
        stack::CASES,
        probe::CASES,
    ];
    modules.into_iter().flatten().copied().flatten()
}
