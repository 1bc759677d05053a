//! What upkeep tells.

use super::state::{State, UPKEEP};
use crate::page_heap::PAGE;
use crate::percpu;

/// What upkeep did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Whether it is on.
    pub is_on: bool,
    /// Whether a shepherd is there.
    pub has_shepherd: bool,
    /// Turns that threads took in their own slots.
    pub own_turns: u64,
    /// Turns that were taken for slots where nobody came along.
    pub deserted_turns: u64,
    /// Arrays that were emptied.
    pub arrays: u64,
    /// Spans that went from page lists to the page heap.
    pub spans: u64,
    /// Bytes that went back to the kernel.
    pub bytes: u64,
    /// Calls for that.
    pub calls: u64,
    /// Calls that found no pages, or that the kernel refused.
    pub refused: u64,
    /// The longest that anything of this took at a stretch, waits for locks included, in nanoseconds.
    pub longest_ns: u64,
    /// Intervals that pages have to be idle for before they go back.
    pub patience: u32,
}

impl Report {
    /// Reads it; each figure is exact, together they are only at rest.
    pub fn read() -> Report {
        let Some(state) = State::known() else {
            return Report { is_on: UPKEEP.is_on(), patience: 1, ..Report::default() };
        };
        // A new child has to see that it is one.
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
