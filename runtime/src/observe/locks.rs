//! The runtime's locks: their classes, and what waiting for each cost.
//!
//! A class is one field of [`LockReport`], with the name by which it is reported; both come from one list. An area, and
//! a queue of deferred objects, counts the waits for its own locks, because it may exist without a heap.
//!
//! Readings take no lock and can be made in any state.

use super::Word;
use machine::sync::{AtomicU8, Contention, Ordering};

/// Declares the classes, in the order in which they are reported.
macro_rules! classes {
    ($($(#[$says:meta])* $field:ident: $name:literal,)*) => {
        /// What waiting for the heap's locks cost, by class. All-zero memory is one where nobody waited.
        #[derive(Debug)]
        #[repr(C)]
        pub struct LockReport {
            $($(#[$says])* pub $field: Contention,)*
        }

        impl LockReport {
            /// Nothing waited yet.
            pub const fn new() -> Self {
                LockReport { $($field: Contention::new(),)* }
            }

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
    /// Who takes magazines away from other CPUs, or goes over all caches.
    drain: "drain",
    /// Empty magazines that no shard keeps.
    spare: "spare",
    /// Objects that are set aside for a cache.
    reserves: "reserve",
    /// Where caches are made.
    caches: "caches",
    /// Spans that wait for a grace period, one lock for each cache.
    waiting: "waiting",
    /// Objects that watched caches keep from being used again.
    quarantines: "quarantine",
    /// Large blocks of groups, one lock for each, and the list of groups.
    groups: "group",
}

impl Default for LockReport {
    fn default() -> Self {
        Self::new()
    }
}

/// A text that rows of the report have to contain; none: all are shown. Set before it is read.
#[derive(Debug)]
pub struct Filter([AtomicU8; Filter::MOST]);

impl Filter {
    /// The longest text, in bytes.
    pub const MOST: usize = 64;

    /// All rows.
    pub const fn new() -> Self {
        Filter([const { AtomicU8::new(0) }; Self::MOST])
    }

    /// Sets the text. False: it is too long, and nothing was set.
    pub fn set(&self, text: &str) -> bool {
        let bytes = text.bytes().chain(core::iter::repeat(0));
        // Relaxed: it is set when the program starts.
        let fits = text.len() <= Self::MOST;
        if fits {
            self.0.iter().zip(bytes).for_each(|(place, byte)| place.store(byte, Ordering::Relaxed));
        }
        fits
    }

    /// Calls `show` with the text.
    pub fn with<R>(&self, show: impl FnOnce(&str) -> R) -> R {
        let bytes = self.0.each_ref().map(|byte| byte.load(Ordering::Relaxed));
        let len = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
        show(core::str::from_utf8(&bytes[..len]).unwrap_or(""))
    }
}

impl Default for Filter {
    fn default() -> Self {
        Self::new()
    }
}
