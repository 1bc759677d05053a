//! The C functions of `commensal.h` for upkeep: names for `commensal::upkeep`.
//!
//! What `counter.rs` says of itself holds here too.

use crate::cache::failed;
use commensal::heap::Error;
use commensal::upkeep::{self, Report};
use core::ffi::{CStr, c_char, c_int};

/// What upkeep did so far.
#[repr(C)]
pub struct UpkeepFigures {
    /// Bytes that went back to the system, and the calls for that.
    pub bytes: u64,
    pub calls: u64,
    /// Calls that the system refused, or that found nothing.
    pub refused: u64,
    /// Turns that threads took in their own slots, and that were taken for slots where nobody came along.
    pub own_turns: u64,
    pub deserted_turns: u64,
    /// Arrays of objects that were emptied, and spans that went from per-CPU lists to the zone.
    pub arrays: u64,
    pub spans: u64,
    /// The longest that anything of this took at a stretch.
    pub longest_ns: u64,
    /// Intervals that pages have to be idle for before they go back; 0: could not be told now.
    pub patience: u32,
    /// Whether there is upkeep, and whether a thread of the library's sees to it.
    pub is_on: bool,
    pub has_shepherd: bool,
}

/// Says what upkeep did so far; each figure is exact, together they are only at rest.
///
/// errno: kept. Threads: any. Signal handlers: yes. After fork: yes.
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

/// Sets what can be set about upkeep, by the name behind "upkeep." in COMMENSAL_CONF: cm_upkeep_set("interval_ms", 250). `commensal conf` has the names.
/// "on", for upkeep itself, and "shepherd" are 0 or 1.
///
/// Returns 0, or -1 if there is no such setting, or the value is out of its range: then it stays as it is.
///
/// errno: kept, EINVAL. Threads: any. Signal handlers: yes. After fork: yes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_upkeep_set(name: *const c_char, value: u32) -> c_int {
    // SAFETY: passed on: a string.
    let name = unsafe { CStr::from_ptr(name) };
    if matches!(name.to_str().map(|name| upkeep::set_knob(name, value)), Ok(Ok(()))) {
        0
    } else {
        failed(Error::Invalid)
    }
}

/// Does the upkeep that is due now: for programs that have a thread of their own for such things, with "upkeep.shepherd:off". Takes some microseconds for each array that is
/// emptied, and up to a millisecond for each MiB that goes back to the system.
///
/// Returns in how many nanoseconds it should be called again; -1: not before other threads have allocated or released memory.
///
/// errno: kept. Threads: any, several at once share the work. Signal handlers: no. After fork: yes.
#[unsafe(no_mangle)]
pub extern "C" fn cm_upkeep_tick() -> i64 {
    upkeep::tick().map_or(-1, |ns| ns.min(i64::MAX as u64) as i64)
}
