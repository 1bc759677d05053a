//! Memory for signal handlers that interrupt their own thread inside the zone.
//!
//! Such a handler cannot wait for the lock, and programs that allocate in handlers get away with it elsewhere, so it gets pages of
//! their own, entered in a small table without a lock. When the table is full, it gets nothing.
//!
//! Runs at the same time: any number of threads and handlers; an entry is taken and given back by compare-and-swap.

use super::PAGE;
use machine::sync::{AtomicU32, AtomicUsize, Ordering};
use machine::vm;

const ENTRIES: usize = 16;

/// The table. An entry is the block's address, or zero; its length is beside it.
#[derive(Debug)]
#[repr(C)]
pub struct Emergency {
    used: AtomicU32,
    starts: [AtomicUsize; ENTRIES],
    pages: [AtomicUsize; ENTRIES],
}

/// An entry that is being filled or emptied.
const BUSY: usize = 1;

impl Emergency {
    /// A block of `pages` that is zero.
    #[cold]
    pub fn allocate(&self, pages: usize) -> Option<*mut u8> {
        let free = |entry: &&AtomicUsize| entry.compare_exchange(0, BUSY, Ordering::Acquire, Ordering::Relaxed).is_ok();
        let entry = self.starts.iter().position(|entry| free(&entry))?;
        let start = vm::reserve(core::ptr::null_mut(), pages * PAGE, vm::Access::ReadWrite);
        self.pages[entry].store(pages, Ordering::Relaxed);
        self.used.fetch_add(start.is_some() as u32, Ordering::Relaxed);
        // Release pairs with the acquire in `find`: who sees the block sees its length.
        self.starts[entry].store(start.map_or(0, |start| start as usize), Ordering::Release);
        start
    }

    /// Pages of the block that begins at an address.
    pub fn pages(&self, start: *mut u8) -> Option<usize> {
        self.find(start).map(|entry| self.pages[entry].load(Ordering::Relaxed))
    }

    /// Takes the block back that begins at an address. False: there is none.
    ///
    /// # Safety
    /// The caller owns the block and gives it up.
    pub unsafe fn free(&self, start: *mut u8) -> bool {
        let Some(entry) = self.find(start) else { return false };
        let pages = self.pages[entry].load(Ordering::Relaxed);
        self.starts[entry].store(BUSY, Ordering::Relaxed);
        // SAFETY: passed on.
        unsafe { vm::release(start, pages * PAGE) };
        self.used.fetch_sub(1, Ordering::Relaxed);
        self.starts[entry].store(0, Ordering::Release);
        true
    }

    fn find(&self, start: *mut u8) -> Option<usize> {
        // Relaxed: whoever has a block got it after it was counted.
        if self.used.load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.starts.iter().position(|entry| entry.load(Ordering::Acquire) == start as usize)
    }
}
