//! What the runtime tells about itself, and lets itself be told: plain data, filled in by the parts that know.

pub mod columns;
pub mod figures;
pub mod locks;
pub mod page;
mod shown;
mod word;

pub use locks::LockReport;
pub use shown::Shown;
pub use word::{Inline, Word};

use machine::sync::{AtomicU64, Ordering};

/// Why other CPUs were kicked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Why {
    /// Memory had to go back.
    Trim,
    /// A cache was to give back what it does not need.
    Shrink,
    /// A cache's arrays were replaced by others of another size.
    Tune,
    /// A group reached its limit, and its arrays were emptied before anybody was refused.
    Limit,
    /// A slot that rested had more in its arrays than another one could make use of.
    Idle,
    /// What was deferred in slots that went on with something else was to be freed.
    Deferred,
    /// Nobody had come along in a slot for some time, and what it had cached was to go back.
    Upkeep,
}

impl Why {
    const COUNT: usize = Why::Upkeep as usize + 1;
}

/// Kicks, by reason.
#[derive(Debug)]
#[repr(C)]
pub struct Kicks([Events; Why::COUNT]);

impl Kicks {
    /// None yet.
    pub const fn new() -> Self {
        Kicks([const { Events::new() }; Why::COUNT])
    }

    /// Counts one.
    pub fn count(&self, why: Why) {
        self.0[why as usize].count();
    }

    /// So many were made for a reason.
    pub fn get(&self, why: Why) -> u64 {
        self.0[why as usize].get()
    }
}

impl Default for Kicks {
    fn default() -> Self {
        Self::new()
    }
}

/// An event counter for slow paths: one atomic addition, read at any time.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Events(AtomicU64);

impl Events {
    /// None yet.
    pub const fn new() -> Self {
        Events(AtomicU64::new(0))
    }

    /// Counts one.
    #[inline]
    pub fn count(&self) {
        self.add(1);
    }

    /// Counts `n`.
    #[inline]
    pub fn add(&self, n: u64) {
        // Relaxed here and below: a statistic, ordered with nothing.
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// Takes `n` back.
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
