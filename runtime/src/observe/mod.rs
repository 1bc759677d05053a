//! The runtime's statistics: plain data, filled in by the modules that know the values.

pub mod columns;
pub mod figures;
pub mod locks;
pub mod page;
mod resident;
mod shown;
pub mod slabs;
mod text;

pub use locks::LockReport;
pub use resident::Resident;
pub use shown::Shown;
pub use text::{Inline, Word};

use machine::sync::{AtomicU64, Ordering};

/// The reason of a kick of other CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Why {
    /// A trim.
    Trim,
    /// A cache returns memory that it does not need.
    Shrink,
    /// Magazines of a cache are replaced by others of another size.
    Tune,
    /// A group reached its limit, so its magazines are drained before a refusal.
    Limit,
    /// An idle slot has more in its magazines than another slot needs.
    Idle,
    /// Deferred objects in slots whose threads do other work are due to be freed.
    Deferred,
    /// No thread ran in a slot for some time, so its caches are returned.
    Upkeep,
    /// An object seems to be freed twice.
    Misuse,
}

impl Why {
    const COUNT: usize = Why::Misuse as usize + 1;
}

/// Kicks, by reason.
#[derive(Debug)]
#[repr(C)]
pub struct Kicks([Events; Why::COUNT]);

impl Kicks {
    /// Counts a kick.
    pub fn count(&self, why: Why) {
        self.0[why as usize].count();
    }

    /// The number of kicks for a reason.
    pub fn get(&self, why: Why) -> u64 {
        self.0[why as usize].get()
    }
}

/// An event counter for slow paths: one atomic addition, read at any time.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Events(AtomicU64);

impl Events {
    /// Zero.
    pub const fn new() -> Self {
        Events(AtomicU64::new(0))
    }

    /// Counts one event.
    #[inline]
    pub fn count(&self) {
        self.add(1);
    }

    /// Counts `n` events.
    #[inline]
    pub fn add(&self, n: u64) {
        // Relaxed here and below: a statistic orders nothing.
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// Subtracts `n`.
    #[inline]
    pub fn subtract(&self, n: u64) {
        self.0.fetch_sub(n, Ordering::Relaxed);
    }

    /// Raises the value to `n` if it is lower.
    #[inline]
    pub fn raise(&self, n: u64) {
        if self.0.load(Ordering::Relaxed) < n {
            self.0.fetch_max(n, Ordering::Relaxed);
        }
    }

    /// Sets the value.
    #[inline]
    pub fn set(&self, n: u64) {
        self.0.store(n, Ordering::Relaxed);
    }

    /// The value at some moment.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
