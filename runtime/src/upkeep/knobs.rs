//! What can be set about upkeep, also while it runs.

use crate::observe::Word;
use crate::observe::knobs::make_knobs;
pub use crate::observe::knobs::{Description, OutOfRange};

/// Something that can be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Knob {
    /// Whether there is any. Without, memory goes back to the system when somebody trims.
    Upkeep,
    /// Whether a thread of the runtime's own sees to slots where nobody comes along. Without, an embedder calls [`tick`](super::tick()), or such slots
    /// keep what they have.
    Shepherd,
    /// Milliseconds of an interval, in which each slot has one turn; the kernel's `vm.stat_interval`.
    Interval,
    /// MiB that may go back to the kernel in a second: what faulting them in again, should it have been wrong, may cost.
    Budget,
}

/// All of them, in order.
pub const KNOBS: [Description<Knob>; 4] = [
    Description { knob: Knob::Upkeep, name: Word::new("on"), usual: 1, least: 0, most: 1 },
    Description { knob: Knob::Shepherd, name: Word::new("shepherd"), usual: 1, least: 0, most: 1 },
    Description { knob: Knob::Interval, name: Word::new("interval_ms"), usual: 1000, least: 1, most: 86_400_000 },
    Description { knob: Knob::Budget, name: Word::new("budget_mib"), usual: 1024, least: 1, most: 1_000_000 },
];

make_knobs!(KNOBS);
