//! Planted bugs: broken stand-ins for the heap, each of which a test must report, or the test is worth nothing.

use super::model::Subject;
use commensal::heap;
use std::ptr::null_mut;

/// Every so many calls the bug shows.
const NOW_AND_THEN: u32 = 16;

/// Gives the block of the allocation before once more; every `every`-th time.
pub struct SameBlockTwice {
    every: u32,
    calls: u32,
    last: *mut u8,
}

// SAFETY: the pointer is compared and given away, never followed.
unsafe impl Send for SameBlockTwice {}

impl SameBlockTwice {
    pub fn new(every: u32) -> Self {
        SameBlockTwice { every, calls: 0, last: null_mut() }
    }
}

impl Subject for SameBlockTwice {
    fn allocate(&mut self, bytes: usize) -> *mut u8 {
        self.calls += 1;
        // SAFETY: the block before may be anybody's now; `usable_bytes` only looks at its address.
        let fits = !self.last.is_null() && unsafe { heap::usable_bytes(self.last) } >= bytes;
        if self.calls >= self.every && fits {
            self.calls = 0;
            return self.last;
        }
        self.last = heap::allocate(bytes);
        self.last
    }

    /// What was freed is not given again, so that the bug shows as an overlap only.
    unsafe fn free(&mut self, block: *mut u8) {
        if block == self.last {
            self.last = null_mut();
        }
        // SAFETY: passed on.
        unsafe { heap::free(block) }
    }
}

/// Takes the memory as it comes.
pub struct ForgetsToZero;

impl Subject for ForgetsToZero {
    fn allocate_zeroed(&mut self, bytes: usize) -> *mut u8 {
        heap::allocate(bytes)
    }
}

/// Takes any block.
pub struct LosesAlignment;

impl Subject for LosesAlignment {
    fn allocate_aligned(&mut self, bytes: usize, _alignment: usize) -> *mut u8 {
        heap::allocate(bytes)
    }
}

/// Moves a block without what is in it.
pub struct MovesWithoutContents;

impl Subject for MovesWithoutContents {
    unsafe fn reallocate(&mut self, block: *mut u8, bytes: usize) -> *mut u8 {
        let new = heap::allocate(bytes);
        // SAFETY: passed on.
        unsafe { heap::free(block) };
        new
    }
}

/// Says that a block has room that is its neighbour's.
pub struct PromisesTooMuch;

impl Subject for PromisesTooMuch {
    unsafe fn usable_bytes(&mut self, block: *mut u8) -> usize {
        // SAFETY: passed on.
        let usable = unsafe { heap::usable_bytes(block) };
        if usable == 48 { usable + 16 } else { usable }
    }
}

/// Forgets to free, now and then.
#[derive(Default)]
pub struct Leaks {
    calls: u32,
    /// What was not freed, to leave the heap clean for others.
    leaked: Vec<usize>,
}

impl Subject for Leaks {
    unsafe fn free(&mut self, block: *mut u8) {
        self.calls += 1;
        if self.calls.is_multiple_of(NOW_AND_THEN) {
            self.leaked.push(block as usize);
            return;
        }
        // SAFETY: passed on.
        unsafe { heap::free(block) }
    }
}

impl Drop for Leaks {
    fn drop(&mut self) {
        for block in self.leaked.drain(..) {
            // SAFETY: it was to be freed long ago.
            unsafe { heap::free(block as *mut u8) };
        }
    }
}

/// Goes on with what there was when no more memory was to be had.
#[derive(Default)]
pub struct IgnoresFailedReserve {
    last: *mut u8,
}

// SAFETY: the pointer is given away, never followed.
unsafe impl Send for IgnoresFailedReserve {}

impl Subject for IgnoresFailedReserve {
    fn allocate(&mut self, bytes: usize) -> *mut u8 {
        let block = heap::allocate(bytes);
        if !block.is_null() {
            self.last = block;
        }
        self.last
    }
}
