//! Memory for signal handlers that interrupt their own thread inside the zone.
//!
//! Such a handler cannot wait for the lock, and programs that allocate in handlers get away with it elsewhere, so it gets pages
//! from arenas of their own, without a lock. Pages are given once: what is freed goes back to the kernel, not to the arena,
//! since a program seldom comes here. When all arenas are used up, there is nothing more.
//!
//! ```text
//!   arena   │ lengths: pages of the block that begins at page n │ block │ block │ … │
//! ```
//!
//! Runs at the same time: any number of threads and handlers. An arena is entered by compare-and-swap, its pages are given
//! by one addition.

use super::PAGE;
use machine::sync::{AtomicU32, AtomicUsize, Ordering};
use machine::vm;

const ARENAS: usize = 16;
const ARENA_PAGES: usize = 1024;
/// Pages that the lengths take.
const LENGTH_PAGES: usize = ARENA_PAGES * size_of::<u32>() / PAGE;

/// One arena; no address if there is none yet.
#[derive(Debug)]
#[repr(C)]
struct Arena {
    start: AtomicUsize,
    given: AtomicUsize,
}

/// All arenas. All-zero memory is none.
#[derive(Debug)]
#[repr(C)]
pub struct Emergency {
    arenas: [Arena; ARENAS],
}

impl Emergency {
    /// A block of `pages` that is zero.
    #[cold]
    pub fn allocate(&self, pages: usize) -> Option<*mut u8> {
        self.arenas.iter().find_map(|arena| arena.enter()?.give(pages))
    }

    /// Pages of the block that begins at an address.
    pub fn pages(&self, start: *mut u8) -> Option<usize> {
        let length = self.length_of(start)?.load(Ordering::Relaxed) as usize;
        (length > 0).then_some(length)
    }

    /// Takes the block back that begins at an address, if there is one.
    ///
    /// # Safety
    /// The caller owns the block and gives it up.
    pub unsafe fn free(&self, start: *mut u8) {
        if let Some(length) = self.length_of(start) {
            let pages = length.swap(0, Ordering::Relaxed) as usize;
            // SAFETY: passed on.
            unsafe { vm::decommit(start, pages * PAGE) };
        }
    }

    fn length_of(&self, start: *mut u8) -> Option<&AtomicU32> {
        self.arenas
            .iter()
            .take_while(|arena| arena.start.load(Ordering::Acquire) != 0)
            .find_map(|arena| arena.length(start))
    }
}

impl Arena {
    /// The arena, made now if there is none; none if there is no memory.
    fn enter(&self) -> Option<&Arena> {
        if self.start.load(Ordering::Acquire) != 0 {
            return Some(self);
        }
        let start = vm::reserve(core::ptr::null_mut(), ARENA_PAGES * PAGE, vm::Access::ReadWrite)?;
        if self.start.compare_exchange(0, start as usize, Ordering::AcqRel, Ordering::Acquire).is_err() {
            // SAFETY: the mapping is ours; another one was faster.
            unsafe { vm::release(start, ARENA_PAGES * PAGE) };
        }
        Some(self)
    }

    fn give(&self, pages: usize) -> Option<*mut u8> {
        let fits = |given: usize| (LENGTH_PAGES + given + pages <= ARENA_PAGES).then_some(given + pages);
        let first = LENGTH_PAGES + self.given.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).ok()?;
        let start = (self.start.load(Ordering::Acquire) + first * PAGE) as *mut u8;
        self.length(start)?.store(pages as u32, Ordering::Relaxed);
        Some(start)
    }

    /// The length of the block that begins at an address in the arena.
    fn length(&self, block: *mut u8) -> Option<&AtomicU32> {
        let start = self.start.load(Ordering::Acquire);
        let page = (block as usize).checked_sub(start)? / PAGE;
        let inside = page < ARENA_PAGES && (block as usize).is_multiple_of(PAGE);
        // SAFETY: the arena begins with a length for each of its pages.
        inside.then(|| unsafe { &*(start as *const AtomicU32).add(page) })
    }
}
