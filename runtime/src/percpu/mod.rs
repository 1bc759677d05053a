//! Per-CPU memory for counters: areas ([`Area`]) of blocks ([`Block`]), committed at first touch. See also `layout`.

mod area;
mod block;

pub use area::OwnedBlock;
pub(crate) use block::bits;
pub use block::{Area, Block, CELL, Cells, LINES, Preparation};

use machine::{slot, thread};

/// Begins a slow path that takes locks: gives the thread an identity in this process, and in a new child its slot.
#[inline]
pub fn enter() {
    if thread::enter() {
        slot::claim();
        thread::forked();
    }
}

/// Calls functions of the C library that may allocate memory for the process: to create the runtime's own threads, or
/// to register for exits and forks. Meanwhile the thread is in no group, because a group would be charged, and would
/// free that memory when it is destroyed. Signals are blocked, because a handler would look up the thread's group.
#[cold]
pub fn for_process<R>(work: impl FnOnce() -> R) -> R {
    thread::without_signals(|| {
        let inside = thread::local();
        thread::set_local(0);
        let result = work();
        thread::set_local(inside);
        result
    })
}
