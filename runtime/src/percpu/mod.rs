//! Per-CPU memory: the heap's areas, one page for each possible slot, and blocks for per-CPU counts ([`Area`],
//! [`Block`]). All of it is address space, committed at first touch.
//!
//! ```text
//!   area of a slot   ┌ word 2c     take word of class c ┐
//!                    │ word 2c + 1 give word of class c │ 128 words at most: restartable operations only
//!                    ├ SHARDS ─────────────────────────┤
//!                    │ what the slot's lock holders use │ one shard of the depot for each class
//!                    └─────────────────────────────────┘ one page in all
//! ```
//!
//! A zeroed area is a valid one: every array reads as "empty and full", every shard is free and holds nothing. So areas
//! need no initialisation, and a slot's page costs nothing until a thread first runs there.

mod area;
mod block;

pub use area::{Area, LINES, Preparation};
pub use block::{BLOCK_RANK, Block, CELL, Cells, MARK, stock, total};

use core::ptr::NonNull;
use machine::{slot, thread};

/// A region of address space that holds a runtime: header, slot areas, page map. See `slab::region` for the whole.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Region(NonNull<u8>);

/// Bytes of the header before the first area.
pub const HEADER: usize = slot::AREAS;
/// The areas end here, and the page map begins.
pub const AREAS_END: usize = slot::AREAS + slot::MAX * slot::AREA;

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

impl Region {
    /// The region at `base`.
    ///
    /// # Safety
    /// `base` is a runtime's base, or the machine's zeroed stand-in for one.
    #[inline(always)]
    pub unsafe fn at(base: *mut u8) -> Self {
        // SAFETY: neither is null.
        Region(unsafe { NonNull::new_unchecked(base) })
    }

    /// The region's address.
    #[inline(always)]
    pub fn base(self) -> *mut u8 {
        self.0.as_ptr()
    }

    /// The part of a slot's area that begins `offset` bytes into it, as a `T`.
    #[inline]
    pub fn in_area<T>(self, slot: u32, offset: usize) -> *mut T {
        debug_assert!((slot as usize) < slot::MAX && offset + size_of::<T>() <= slot::AREA);
        self.base().wrapping_add(slot::AREAS + slot as usize * slot::AREA + offset).cast()
    }

    /// The array at an offset from the base, as the slot words name it.
    #[inline(always)]
    pub fn at_offset(self, offset: usize) -> *mut u8 {
        self.base().wrapping_add(offset)
    }

    /// The offset that names an address.
    #[inline(always)]
    pub fn offset_of(self, address: *mut u8) -> usize {
        (address as usize).wrapping_sub(self.base() as usize)
    }
}
