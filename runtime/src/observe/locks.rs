//! The runtime's locks: their classes, and the cost of waiting for each.
//!
//! A class is one field of [`LockReport`], with the name by which it is reported; both come from one list. An area, or
//! a queue of deferred objects, counts the waits for its own locks: it may exist without a heap. Readings take no lock.

use super::Word;
use machine::sync::Contention;

/// Declares the classes, in the order of the report.
macro_rules! classes {
    ($($(#[$says:meta])* $field:ident: $name:literal,)*) => {
        /// The cost of waiting for the heap's locks, by class. All-zero memory means no waits.
        #[derive(Debug)]
        #[repr(C)]
        pub struct LockReport {
            $($(#[$says])* pub $field: Contention,)*
        }

        impl LockReport {
            /// The names of the classes.
            pub const NAMES: [Word; [$($name),*].len()] = [$(Word::new($name)),*];

            /// The classes, in the order of their names.
            pub fn classes(&self) -> [&Contention; Self::NAMES.len()] {
                [$(&self.$field),*]
            }
        }
    };
}

classes! {
    /// The depot's shards, one lock for each slot and class.
    shards: "shard",
    /// The per-CPU page lists.
    page_lists: "page list",
    /// The page heap.
    page_heap: "page heap",
    /// Draining other CPUs' magazines, and walks over all caches.
    drain: "drain",
    /// Empty magazines outside of the shards.
    spare: "spare",
    /// Objects reserved for a cache.
    reserves: "reserve",
    /// The creation of caches.
    caches: "caches",
    /// Spans that wait for a grace period, one lock for each cache.
    waiting: "waiting",
    /// Freed objects of debug caches that must wait before reuse.
    quarantines: "quarantine",
    /// Large blocks of groups, one lock for each, and the list of groups.
    groups: "group",
    /// The step from one grace period to the next.
    grace_periods: "grace period",
    /// The state of upkeep.
    upkeep: "upkeep",
    /// The tables of the heap profile.
    profile: "profile",
}
