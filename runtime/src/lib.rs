//! Commensal: the Linux kernel's per-CPU memory mechanisms for ordinary programs.
//!
//! A process with one thread pays next to nothing; hundreds of threads never queue at a shared cache line.
//!
//! | to | use |
//! |---|---|
//! | allocate all of a program's memory | [`Commensal`], as its global allocator |
//! | count events | [`counter::LazyCounter`], [`counter::CounterSet`] |
//! | reuse objects of one type | [`caches::Cache`] |
//! | charge, limit and free the memory of one task or tenant | [`group::Group`] |
//! | read what other threads replace, without a lock | [`rcu::Cell`], [`rcu::read`], [`rcu::TypesafeCache`] |
//! | do so in a loop, with free sections | [`rcu::qsbr::Reader`] |
//! | return idle memory in a thread of your own | [`upkeep::tick`] |
//! | apply `COMMENSAL_CONF` | [`heap::conf::apply_environment`] |
//!
//! Only [`Commensal`] needs to be the global allocator; everything else works beside any allocator. The other public
//! modules are for the drop-in library and the command.
//!
//! Types that are called like those of std, such as [`caches::Box`], [`group::Box`] and [`rcu::Cell`], are written with
//! their module. The crate's root has no such name, so a program may import all of it:
//!
//! ```
//! use commensal::*;
//!
//! let group = group::Group::new("task")?;
//! let (ours, std): (group::Box<u32>, Box<u32>) = (group.alloc(1)?, Box::new(1));
//! assert_eq!(*ours, *std);
//! # drop(ours);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! This package holds the algorithms and all of their state. It reaches the computer through `machine` alone, so the
//! same source runs on Linux and on a simulated machine.
#![no_std]
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
