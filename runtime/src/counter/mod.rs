//! Counters: a table for one, and a banquet when guests arrive.
//!
//! A [`LazyCounter`] is two words until a second thread shares it, and a per-CPU counter from then on. A [`CounterSet`]
//! is several of them with one life. [`PerCpuCounter`] and [`PerCpuSet`] are per-CPU from the beginning.
//!
//! | file | contents |
//! |---|---|
//! | `words` | the words of a set, which thread adds where, the upgrade |
//! | `set` | sets as types |
//! | `slots` | counters after the upgrade: cells in the slots' rows, and their stock |
//! | `limit` | additions within a limit |
//! | `policy` | when a set is upgraded without an announcement |
//! | `percpu` | counters without a lazy beginning |
//! | `account` | charges for memory, up to a limit |
//!
//! Uses `percpu`, `observe` and the machine.

mod account;
mod lazy;
mod limit;
mod percpu;
mod policy;
mod set;
mod slots;
mod words;

pub use account::Account;
pub use lazy::LazyCounter;
pub use percpu::{PerCpuCounter, PerCpuSet};
pub use set::CounterSet;
pub use words::Counters;

use core::fmt;
use machine::slot::{self, Mode};

/// Range of a slot's unshared part of a counter. A reading is off by at most half of it for each slot.
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

/// There is no memory to upgrade a counter, or to make a per-CPU one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoMemory;

impl fmt::Display for NoMemory {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("no memory for per-CPU counters")
    }
}

impl core::error::Error for NoMemory {}
