//! Counters that start as a plain word and become per-CPU counters when threads share them.
//!
//! A [`LazyCounter`] is two words until a second thread shares it, and a per-CPU counter from then on. A [`CounterSet`]
//! is several of them that are created, upgraded and dropped together. A [`PerCpuSet`] is per-CPU from the beginning.
//!
//! `words` has the words of a set, and decides which thread adds where. `slots` has what differs after the upgrade.

mod account;
mod lazy;
mod limit;
mod percpu;
mod policy;
mod slots;
mod words;

pub use account::Account;
pub use lazy::{CounterSet, LazyCounter};
pub use percpu::PerCpuSet;
#[doc(hidden)]
pub use slots::SHARE;
pub use words::Counters;

use core::fmt;
use machine::slot::{self, Mode};

/// Range of a slot's unshared part of a counter. A reading is off by at most half of it for each slot, or by 0.1 %.
pub const DEFAULT_RANGE: i32 = 1024;
const LARGEST_RANGE: i32 = 1 << 28;

/// Whether a reading is fast: where threads own slots, it looks at every row.
pub(crate) fn reads_at_once() -> bool {
    const FEW: u32 = 64;
    slot::mode() == Mode::ConcurrencyId || slot::in_use() <= FEW
}

/// An approximate value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The value read.
    pub value: i64,
    /// The largest difference from the true value, in either direction.
    pub error: u64,
}

impl Reading {
    fn positive(self) -> Self {
        Reading { value: self.value.max(0), ..self }
    }
}

/// There is no memory: for a counter's upgrade, a per-CPU counter, a cache's reserve, or a registered reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoMemory;

impl fmt::Display for NoMemory {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("there is no memory")
    }
}

impl core::error::Error for NoMemory {}
