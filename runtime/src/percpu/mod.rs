//! Per-CPU memory for whoever counts: areas of blocks ([`Area`], [`Block`]). All of it is address space, committed at
//! first touch. `layout` draws the areas of the heap.

mod area;
mod block;
mod head;

pub use area::OwnedBlock;
pub use block::{Block, CELL, Cells, MARK, stock, total};
pub use head::{Area, BLOCK_RANK, LINES, Preparation};

use machine::{slot, thread};

/// Begins a slow path that takes locks: the thread has an identity of this process, and in a new child its slot.
#[inline]
pub fn enter() {
    if thread::enter() {
        slot::claim();
        thread::forked();
    }
}

/// Calls functions of the C library that may allocate memory for the process: to create the runtime's own threads, or
/// to register for exits and forks. Meanwhile the thread is inside of no group, which would be charged and take that
/// memory along when it is destroyed. And no handler of this thread runs, which would look up the thread's group.
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
