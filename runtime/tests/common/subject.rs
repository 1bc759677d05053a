//! What gives memory: the heap, or a broken stand-in for it, which a test must report, or the test is worth nothing.

use commensal_runtime::heap;
use std::ptr::null_mut;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bug {
    /// Every so many allocations, the block of the one before is given once more.
    SameBlockTwice(u32),
    ForgetsToZero,
    LosesAlignment,
    MovesWithoutContents,
    /// A block has room that is its neighbour's.
    PromisesTooMuch,
    /// Every so many frees, one is forgotten.
    Leaks(u32),
    /// It goes on with what there was when no more memory was to be had.
    IgnoresFailedReserve,
}

#[derive(Debug)]
pub struct Subject {
    bug: Option<Bug>,
    calls: u32,
    last: *mut u8,
}

// SAFETY: the pointer is compared and given away, never followed.
unsafe impl Send for Subject {}

impl Subject {
    pub fn new(bug: Option<Bug>) -> Self {
        Subject { bug, calls: 0, last: null_mut() }
    }

    fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    /// Counts a call, and says whether it is one of `every`.
    fn is_due(&mut self, every: u32) -> bool {
        self.calls += 1;
        self.calls >= every
    }

    pub fn allocate(&mut self, bytes: usize) -> *mut u8 {
        if let Some(Bug::SameBlockTwice(every)) = self.bug
            && self.is_due(every)
            && !self.last.is_null()
            // SAFETY: the block before may be anybody's now; `usable_bytes` only looks at its address.
            && unsafe { heap::usable_bytes(self.last) } >= bytes
        {
            self.calls = 0;
            return self.last;
        }
        let block = heap::allocate(bytes);
        if !(block.is_null() && self.has(Bug::IgnoresFailedReserve)) {
            self.last = block;
        }
        self.last
    }

    pub fn allocate_zeroed(&mut self, bytes: usize) -> *mut u8 {
        if self.has(Bug::ForgetsToZero) { heap::allocate(bytes) } else { heap::allocate_zeroed(bytes) }
    }

    pub fn allocate_aligned(&mut self, bytes: usize, alignment: usize) -> *mut u8 {
        if self.has(Bug::LosesAlignment) { heap::allocate(bytes) } else { heap::allocate_aligned(bytes, alignment) }
    }

    /// # Safety
    /// As for [`heap::reallocate`].
    pub unsafe fn reallocate(&mut self, block: *mut u8, bytes: usize) -> *mut u8 {
        if self.has(Bug::MovesWithoutContents) {
            let new = heap::allocate(bytes);
            // SAFETY: passed on.
            unsafe { heap::free(block) };
            return new;
        }
        // SAFETY: passed on.
        unsafe { heap::reallocate(block, bytes) }
    }

    /// # Safety
    /// As for [`heap::free`].
    pub unsafe fn free(&mut self, block: *mut u8) {
        let bug = self.bug;
        match bug {
            // What was freed is not given again, so that the bug shows as an overlap only.
            Some(Bug::SameBlockTwice(_)) if block == self.last => self.last = null_mut(),
            Some(Bug::Leaks(every)) if self.is_due(every) => {
                self.calls = 0;
                return;
            }
            _ => {}
        }
        // SAFETY: passed on.
        unsafe { heap::free(block) }
    }

    /// # Safety
    /// As for [`heap::usable_bytes`].
    pub unsafe fn usable_bytes(&mut self, block: *mut u8) -> usize {
        // SAFETY: passed on.
        let usable = unsafe { heap::usable_bytes(block) };
        if self.has(Bug::PromisesTooMuch) && usable == 48 { usable + 16 } else { usable }
    }
}
