//! The runtime's locks: their classes, and the cost of waiting for each.
//!
//! A class is one field of [`LockReport`], with the name by which it is reported; both come from one list. An area, or
//! a queue of deferred objects, counts the waits for its own locks: it may exist without a heap. Readings take no lock.

use super::Word;
use machine::sync::{AtomicU8, Contention, Ordering};

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
}

/// A text that the shown rows of the report contain; empty: all are shown. Set before it is read. Zeroes are empty.
#[derive(Debug)]
pub struct Filter([AtomicU8; Filter::MOST]);

impl Filter {
    /// The longest text, in bytes.
    pub const MOST: usize = 64;

    /// Sets the text. False, without effect, if it is too long.
    pub fn set(&self, text: &str) -> bool {
        let fits = text.len() <= Self::MOST;
        if fits {
            let bytes = text.bytes().chain(core::iter::repeat(0));
            // Relaxed: it is set when the program starts.
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
