//! The C functions of `commensal.h` for upkeep: names for `commensal_runtime::upkeep`.

use commensal_runtime::upkeep::{self, Report};

/// Statistics of upkeep since the program started.
#[repr(C)]
pub struct UpkeepFigures {
    /// Bytes that went back to the kernel.
    pub bytes: u64,
    /// System calls that returned them.
    pub calls: u64,
    /// System calls that the kernel refused, or that returned nothing.
    pub refused: u64,
    /// Turns that threads took in their own slots.
    pub own_turns: u64,
    /// Turns that the background thread, or cm_upkeep_tick, took for slots that no thread uses.
    pub deserted_turns: u64,
    /// Magazines that were emptied.
    pub arrays: u64,
    /// Spans that went from the page lists of slots to the page heap.
    pub spans: u64,
    /// The longest step in nanoseconds.
    pub longest_ns: u64,
    /// Intervals for which pages must be idle before they go back. 0: unknown at the moment.
    pub patience: u32,
    /// Whether upkeep is on.
    pub is_on: bool,
    /// Whether a background thread of the library does it.
    pub has_shepherd: bool,
}

/// Reads the statistics of upkeep into `report`. Each figure is exact; together they are consistent only at rest.
/// cbindgen:postfix=CM_NOTHROW CM_NONNULL
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_upkeep_report(report: *mut UpkeepFigures) {
    let read = Report::read();
    let told = UpkeepFigures {
        bytes: read.bytes,
        calls: read.calls,
        refused: read.refused,
        own_turns: read.own_turns,
        deserted_turns: read.deserted_turns,
        arrays: read.arrays,
        spans: read.spans,
        longest_ns: read.longest_ns,
        patience: read.patience,
        is_on: read.is_on,
        has_shepherd: read.has_shepherd,
    };
    // SAFETY: passed on.
    unsafe { report.write(told) };
}

/// Does the upkeep that is due now. It is for programs that run upkeep in a thread of their own, with
/// "upkeep.shepherd:off".
///
/// Returns the nanoseconds until the next call is due, or -1: none is before another thread allocates or frees.
///
/// Time: some microseconds for each magazine that it empties, and up to a millisecond for each MiB that it returns to
/// the kernel. Threads: any thread; calls at the same time share the work. Signal handlers: no.
#[unsafe(no_mangle)]
pub extern "C" fn cm_upkeep_tick() -> i64 {
    upkeep::tick().map_or(-1, |ns| ns.min(i64::MAX as u64) as i64)
}
