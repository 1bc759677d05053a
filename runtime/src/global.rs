//! Commensal as a Rust program's global allocator.

use crate::heap;
use core::alloc::{GlobalAlloc, Layout};

/// The allocator for `#[global_allocator]`.
///
/// ```
/// use commensal::Commensal;
///
/// #[global_allocator]
/// static GLOBAL: Commensal = Commensal;
///
/// let numbers: Vec<u32> = (0..1000).collect();
/// assert_eq!(numbers.iter().sum::<u32>(), 499_500);
/// ```
///
/// `COMMENSAL_CONF` takes effect when the program calls [`apply_environment`](heap::conf::apply_environment) at the
/// start of `main`. A preloaded library calls that itself. It then serves C code, and this allocator serves Rust code.
#[derive(Clone, Copy, Debug, Default)]
pub struct Commensal;

// SAFETY: the heap's blocks are disjoint, live until they are freed, and have the requested size and alignment.
unsafe impl GlobalAlloc for Commensal {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= heap::ALIGNMENT {
            heap::allocate(layout.size())
        } else {
            heap::allocate_aligned(layout.size(), layout.align())
        }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, _layout: Layout) {
        // SAFETY: passed on.
        unsafe { heap::free(block) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= heap::ALIGNMENT {
            return heap::allocate_zeroed(layout.size());
        }
        let block = heap::allocate_aligned(layout.size(), layout.align());
        if !block.is_null() {
            // SAFETY: the block is ours.
            unsafe { block.write_bytes(0, layout.size()) };
        }
        block
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        if layout.align() <= heap::ALIGNMENT {
            // SAFETY: passed on.
            return unsafe { heap::reallocate(block, new_size) };
        }
        let new = heap::allocate_aligned(new_size, layout.align());
        if !new.is_null() {
            // SAFETY: both are blocks of at least as many bytes.
            unsafe {
                new.copy_from_nonoverlapping(block, layout.size().min(new_size));
                heap::free(block);
            }
        }
        new
    }
}
