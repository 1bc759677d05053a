//! What can be set about grace periods.

use crate::observe::Word;
use crate::observe::knobs::make_knobs;
pub use crate::observe::knobs::{Description, OutOfRange};

/// Something that can be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Knob {
    /// Microseconds from the beginning of one grace period to that of the next, at least. None, unless told: whoever waits has its reasons. With
    /// some, callers that come one after the other share grace periods, and kicks. Expedited ones do not wait for it.
    MinimumInterval,
    /// Microseconds until a sleeper looks again whether readers have ended, the first time. As long as most sections take, at most.
    FirstScan,
    /// Microseconds of later times, each twice as long as the one before, at most. Long sections are seen to be over so much later.
    LongestScan,
    /// Milliseconds after which a registered reader that holds a grace period up is told to report: once this, or twice, or three times, as the policy says.
    TillQs,
    /// Objects that wait in a slot before it asks for a grace period: what one kick of all CPUs is shared by.
    LazyLimit,
    /// The same in KiB: about what a slot keeps at hand of a size in any case.
    LazyKib,
    /// Milliseconds after which a grace period is asked for even so, and what is not worth one by itself is freed.
    LazyDelay,
    /// Objects that are gathered together at most. A slot has one such batch for each size that it defers.
    Bulk,
    /// Objects that whoever defers frees on the way at most, to the next whole batch.
    BatchLimit,
    /// And the microseconds after which no further batch is begun.
    BatchTime,
    /// Objects that wait in a slot from which on whoever defers there is held up, and frees without bounds.
    HighMark,
    /// The same in KiB.
    HighKib,
    /// Percent of the two below which that ends.
    LowMark,
    /// Milliseconds that whoever defers is held up at most, for each batch. It may have locks that readers wait for, so this cannot be for
    /// ever. 0: nobody is.
    HoldUp,
    /// Where full batches go whose time has come. 1: to the depot of the slot that deferred them, which keeps as much as waits there by then, and what
    /// [`Knob::LazyKib`] says; 0: to that of the slot where they are freed, which keeps no more than of what is freed at once.
    HandBack,
    /// Milliseconds after which a grace period that is waited for is reported on standard error, with what it waits for; again after as many. 0: never.
    Stall,
}

/// All of them, in order.
pub const KNOBS: [Description<Knob>; 16] = [
    Description {
        knob: Knob::MinimumInterval,
        name: Word::new("minimum_interval_us"),
        usual: 0,
        least: 0,
        most: 1_000_000,
    },
    Description { knob: Knob::FirstScan, name: Word::new("first_scan_us"), usual: 20, least: 1, most: 1_000_000 },
    Description { knob: Knob::LongestScan, name: Word::new("longest_scan_us"), usual: 1000, least: 1, most: 1_000_000 },
    Description { knob: Knob::TillQs, name: Word::new("till_qs_ms"), usual: 10, least: 0, most: 1_000_000 },
    Description { knob: Knob::LazyLimit, name: Word::new("lazy_limit"), usual: 4096, least: 1, most: 100_000_000 },
    Description { knob: Knob::LazyKib, name: Word::new("lazy_kib"), usual: 1024, least: 1, most: 100_000_000 },
    Description { knob: Knob::LazyDelay, name: Word::new("lazy_delay_ms"), usual: 20, least: 1, most: 1_000_000 },
    Description { knob: Knob::Bulk, name: Word::new("bulk"), usual: 125, least: 1, most: 125 },
    Description { knob: Knob::BatchLimit, name: Word::new("batch_limit"), usual: 250, least: 1, most: 100_000_000 },
    Description { knob: Knob::BatchTime, name: Word::new("batch_time_us"), usual: 100, least: 1, most: 1_000_000 },
    Description { knob: Knob::HighMark, name: Word::new("high_mark"), usual: 20_000, least: 1, most: 100_000_000 },
    Description { knob: Knob::HighKib, name: Word::new("high_kib"), usual: 4096, least: 1, most: 100_000_000 },
    Description { knob: Knob::LowMark, name: Word::new("low_percent"), usual: 50, least: 0, most: 100 },
    Description { knob: Knob::HoldUp, name: Word::new("hold_up_ms"), usual: 10, least: 0, most: 1_000_000 },
    Description { knob: Knob::HandBack, name: Word::new("hand_back"), usual: 1, least: 0, most: 1 },
    Description { knob: Knob::Stall, name: Word::new("stall_ms"), usual: 10_000, least: 0, most: 1_000_000 },
];

make_knobs!(KNOBS);
