//! Commensal: the Linux kernel's per-CPU memory mechanisms for ordinary programs.
//!
//! A process with one thread pays next to nothing; a process with hundreds of threads never queues at a shared cache
//! line. This package is the product. It holds the algorithms and all of their state, and reaches the computer through
//! `machine` alone, so the same source runs on Linux and on a simulated machine.
//!
//! Each module may use those before it in this list: [`percpu`], [`counter`], [`observe`], [`settings`], [`page`],
//! [`slab`], [`sandbox`], [`rcu`], [`group`], [`upkeep`], [`heap`].
#![no_std]

#[cfg(test)]
extern crate std;

pub mod counter;
pub mod group;
pub mod heap;
pub mod observe;
pub mod page;
pub mod percpu;
pub mod rcu;
pub mod sandbox;
pub mod settings;
pub mod slab;
pub mod upkeep;

mod global;

/// What lower parts need of higher ones, put together where both are known.
pub(crate) const SERVICES: slab::Services =
    slab::Services { tend: upkeep::tend, survey: heap::statistics::survey, before_a_thread: upkeep::before_a_thread };

pub use global::Commensal;
#[doc(hidden)]
pub use machine;
