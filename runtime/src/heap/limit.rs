//! The limits of the process: the whole heap as one group.
//!
//! *Held* memory is that of spans and large blocks in use, and dirty memory of free runs: all pages that the heap has
//! from the kernel and that may be resident. It never exceeds the hard limit. Above the soft limit, the runtime returns
//! memory that is not in use. The settings `limit` and `limit.soft` set both at the start.
//!
//! Not counted: metadata, blocks of the first MiB that a process allocates before a limit is set, blocks between guard
//! pages (`guard`), up to 16 MiB of freed blocks that `harden:on` keeps, and blocks of signal handlers that interrupt
//! the page heap itself.
//!
//! A fork child has its parent's limits, for itself.

use crate::caches::{enter, heap};
pub use crate::cpu_cache::Notifier;
use crate::page_heap::PAGE;
pub use crate::page_heap::limit::Limit;
use crate::settings::Key;

const HARD: Key = Key::of("limit");
const SOFT: Key = Key::of("limit.soft");

/// Applies the settings.
pub(super) fn apply_settings() {
    for (limit, key) in [(Limit::Hard, HARD), (Limit::Soft, SOFT)] {
        if key.get() > 0 {
            set(limit, Some(key.get() << 20));
        }
    }
}

/// Sets a limit in bytes, rounded down to pages of 4 KiB, at least one. None: no limit. False: there is no memory.
///
/// If more is held than a new hard limit, the process keeps its memory. Allocations that need pages are refused until
/// enough was freed. If more is held than a new soft limit, the next thread that allocates or frees on a slow path
/// returns memory that is not in use, or the background thread does. Takes some nanoseconds; the memory of a process
/// that begins without a heap is made first. Signal handlers: yes.
///
/// ```
/// use commensal::limit::{Limit, report, set};
///
/// assert!(set(Limit::Hard, Some(1 << 30)) && set(Limit::Soft, Some(900 << 20)));
/// assert_eq!(report().limit, Some(1 << 30));
/// # set(Limit::Hard, None);
/// # set(Limit::Soft, None);
/// ```
pub fn set(limit: Limit, bytes: Option<u64>) -> bool {
    let is_there = enter();
    if is_there {
        heap().page_heap().limits.set(limit, bytes.map(|bytes| bytes / PAGE as u64));
    }
    is_there
}

/// Sets the function to call, with the word, when a limit is reached; None: no function. False: there is no memory.
///
/// The soft limit is reached if more is held after all that is not in use went back; the hard limit, if it refuses an
/// allocation. Each is reached again only after the memory in use has fallen a sixteenth below it, at most 32 MiB; or
/// if a refusal comes so much above the one before.
///
/// Calls are made one at a time, with all signals blocked, and each finds what the one before has written. A thread
/// makes them in an allocation, outside of all groups and of the runtime's locks, or the runtime's background thread
/// does. In a signal handler, a thread leaves the call to another one. After a call for the hard limit, the refused
/// allocation is tried once more.
///
/// The function may allocate and free, and must return. It must not take a lock that a thread may hold while it
/// allocates. A call that has begun may outlast this. Each call of this takes 64 bytes for ever.
pub fn notify(function: Option<(Notifier, usize)>) -> bool {
    enter() && heap().cpu.listen(function)
}

/// The limits and what happened at them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// Bytes held.
    pub held: u64,
    /// The hard limit in bytes.
    pub limit: Option<u64>,
    /// The soft limit in bytes.
    pub soft_limit: Option<u64>,
    /// Times that the hard limit was reached.
    pub reached: u64,
    /// Times that the soft limit was reached.
    pub soft_reached: u64,
    /// Allocations that the hard limit refused.
    pub refused: u64,
    /// Times that memory was returned because of the soft limit.
    pub reliefs: u64,
}

/// Reads the limits. Each number is exact; together they are exact at rest.
pub fn report() -> Report {
    if !machine::root::is_installed() {
        return Report::default();
    }
    let limits = &heap().page_heap().limits;
    let bytes = |limit| limits.get(limit).map(|pages| pages * PAGE as u64);
    Report {
        held: limits.held() * PAGE as u64,
        limit: bytes(Limit::Hard),
        soft_limit: bytes(Limit::Soft),
        reached: limits.times(Limit::Hard),
        soft_reached: limits.times(Limit::Soft),
        refused: limits.refused.get(),
        reliefs: limits.reliefs.get(),
    }
}
