//! Counters: a table for one, and a banquet when guests arrive.
//!
//! A [`LazyCounter`] is two words until a second thread shares it, and a per-CPU counter from then on. A [`CounterSet`]
//! is several of them that are created, upgraded and destroyed together. [`PerCpuCounter`] and [`PerCpuSet`] are
//! per-CPU from the beginning.
//!
//! | file | what |
//! |---|---|
//! | `words` | the words of a set, who adds where, the upgrade |
//! | `set` | sets as types |
//! | `slots` | counters after the upgrade: cells in the slots' rows, and how their stock is kept |
//! | `limit` | additions within a limit |
//! | `policy` | when a set is upgraded that nobody announced as shared |
//! | `percpu` | counters without a lazy beginning |
//!
//! | `account` | who is charged for memory, up to a limit |
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

/// How far a slot's part of a counter varies unshared: a reading is off by at most half of it for each slot.
pub const DEFAULT_RANGE: i32 = 1024;
const LARGEST_RANGE: i32 = 1 << 28;

/// Whether a reading takes little time: where threads own slots, it looks at the rows of all.
pub(crate) fn reads_at_once() -> bool {
    const FEW: u32 = 64;
    slot::mode() == Mode::ConcurrencyId || slot::in_use() <= FEW
}

/// An approximate value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// What was read.
    pub value: i64,
    /// How far the truth may be from it, in either direction.
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
