//! Plain means, for targets that the runtime does not know: what programs use on all of them, by the standard library.
//!
//! The signatures are the runtime's, and `tests/portable.rs` tests both. Nothing here is per CPU, and nothing may run in
//! signal handlers, except for counters. `--cfg commensal_plain` chooses these means where the runtime would do.

pub mod caches;
pub mod counter;
pub mod rcu;

use std::alloc::{GlobalAlloc, Layout, System};

/// The allocator for `#[global_allocator]`. On this target it hands over to [`System`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Commensal;

// SAFETY: the system's allocator keeps the contract.
unsafe impl GlobalAlloc for Commensal {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: passed on.
        unsafe { System.alloc(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: passed on.
        unsafe { System.dealloc(block, layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: passed on.
        unsafe { System.realloc(block, layout, new_size) }
    }
}

pub mod heap {
    pub mod conf {
        /// Applies the settings of `COMMENSAL_CONF`. There are none on this target, so this has no effect.
        pub fn apply_environment() {}
    }
}
