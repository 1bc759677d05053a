//! The statistics of upkeep.

use super::state::{State, UPKEEP};
use crate::page_heap::PAGE;
use crate::percpu;

/// Statistics of upkeep so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Whether upkeep is on.
    pub is_on: bool,
    /// Whether there is a shepherd.
    pub has_shepherd: bool,
    /// Turns that threads took in their own slots.
    pub own_turns: u64,
    /// Turns taken for deserted slots.
    pub deserted_turns: u64,
    /// Magazines emptied.
    pub arrays: u64,
    /// Spans moved from page lists to the page heap.
    pub spans: u64,
    /// Bytes returned to the kernel.
    pub bytes: u64,
    /// Calls that returned them.
    pub calls: u64,
    /// Calls that found no pages, or that the kernel refused.
    pub refused: u64,
    /// The longest single piece of work, including waits for locks, in nanoseconds.
    pub longest_ns: u64,
    /// Intervals that pages must be idle for before they go back.
    pub patience: u32,
}

impl Report {
    /// Reads the statistics: each figure is exact; together they are exact at rest.
    pub fn read() -> Report {
        let Some(state) = State::known() else {
            return Report { is_on: UPKEEP.is_on(), patience: 1, ..Report::default() };
        };
        // Makes a new child notice the fork.
        percpu::enter();
        let counts = &state.counts;
        Report {
            is_on: UPKEEP.is_on(),
            has_shepherd: state.shepherd.is_there(),
            own_turns: counts.own.get(),
            deserted_turns: counts.deserted.get(),
            arrays: counts.arrays.get(),
            spans: counts.spans.get(),
            bytes: counts.pages.get() * PAGE as u64,
            calls: counts.calls.get(),
            refused: counts.refused.get(),
            longest_ns: counts.longest_ns.get(),
            patience: state.patience(),
        }
    }
}
