//! The algorithms of Commensal and their state, for the package `commensal`, the drop-in library and the command.
//!
//! Programs use `commensal`, which shows a part of this: what is here for others may change with each version. The
//! runtime reaches the computer through `machine` alone, so the same source runs on Linux and on a simulated machine.
#![no_std]
#![deny(missing_docs, clippy::missing_errors_doc, clippy::missing_panics_doc, clippy::missing_safety_doc)]
#![warn(missing_debug_implementations)]

#[cfg(test)]
extern crate std;

pub mod caches;
pub mod central;
pub mod counter;
pub mod cpu_cache;
pub mod depot;
pub mod group;
pub mod heap;
pub mod layout;
pub mod misuse;
pub mod observe;
pub mod page_heap;
pub mod percpu;
pub mod profile;
pub mod rcu;
pub mod sandbox;
pub mod settings;
mod upcalls;
pub mod upkeep;

mod allocator;
mod global;

/// Fills in the upcalls, where both sides are known.
const UPCALLS: upcalls::Upcalls = upcalls::Upcalls {
    maintain: heap::maintain,
    poll: heap::control::poll,
    write_statistics: heap::statistics::write_due,
    before_a_thread: upkeep::before_a_thread,
    report_mixed_caches: caches::report_mixed_caches,
    readers_are_absent: rcu::readers_are_absent,
    rouse_worker: rcu::rouse_worker,
    wait_for_readers: rcu::wait_for_readers,
    count_objects: profile::count_objects,
    forget_large: group::forget_large,
};

pub use global::Commensal;
#[doc(hidden)]
pub use machine;
