//! Memory for signal handlers that interrupt their own thread inside the page heap.
//!
//! Such a handler cannot wait for the lock, but programs that allocate in handlers expect memory. So it gets pages from
//! separate arenas, without a lock. An arena hands out its pages in order. Freed pages go back to the kernel, and when
//! the last block of an arena is freed, the arena starts over. When all arenas are used up, allocation fails.
//!
//! ```text
//!   arena   │ lengths: pages of the block that begins at page n │ guard │ block │ block │ … │ guard │
//! ```
//!
//! Runs at the same time: any number of threads and handlers, which change arenas by compare-and-swap.

use super::PAGE;
use machine::sync::{AtomicU32, AtomicUsize, Ordering};
use machine::vm;

const ARENAS: usize = 16;
const ARENA_PAGES: usize = 1024;
const LENGTH_PAGES: usize = ARENA_PAGES * size_of::<u32>() / PAGE;
/// The pages of blocks, between two guard pages.
const FIRST: usize = LENGTH_PAGES + 1;
const END: usize = ARENA_PAGES - 1;

/// One arena; no address if there is none yet.
#[derive(Debug)]
#[repr(C)]
struct Arena {
    start: AtomicUsize,
    /// Pages handed out since the arena was last empty, plus [`LIVE`] times those still in use.
    pages: AtomicUsize,
}

const LIVE: usize = 1 << 16;
const _: () = assert!(ARENA_PAGES < LIVE);

/// All arenas. All-zero memory is none.
#[derive(Debug)]
#[repr(C)]
pub struct Emergency {
    arenas: [Arena; ARENAS],
}

impl Emergency {
    /// A zeroed block of `pages`.
    #[cold]
    pub fn allocate(&self, pages: usize) -> Option<*mut u8> {
        self.arenas.iter().find_map(|arena| arena.enter()?.give(pages))
    }

    /// Pages of the block that begins at an address.
    pub fn pages(&self, start: *mut u8) -> Option<usize> {
        let (_, length) = self.find(start)?;
        Some(length.load(Ordering::Relaxed) as usize).filter(|&pages| pages > 0)
    }

    /// Whether an address begins a page of an arena.
    pub fn has_page(&self, start: *mut u8) -> bool {
        self.find(start).is_some()
    }

    /// Frees the block that begins at an address, if there is one. The caller must own it.
    pub unsafe fn free(&self, start: *mut u8) {
        let Some((arena, length)) = self.find(start) else { return };
        let pages = length.swap(0, Ordering::Relaxed) as usize;
        if pages > 0 {
            // SAFETY: passed on.
            unsafe { vm::decommit(start, pages * PAGE) };
            arena.take_back(pages);
        }
    }

    /// The arena and the length of a block.
    fn find(&self, start: *mut u8) -> Option<(&Arena, &AtomicU32)> {
        self.arenas().find_map(|arena| Some((arena, arena.length(start)?)))
    }

    fn arenas(&self) -> impl Iterator<Item = &Arena> {
        self.arenas.iter().take_while(|arena| arena.start.load(Ordering::Acquire) != 0)
    }
}

impl Arena {
    /// The arena, made if needed. None: no memory.
    fn enter(&self) -> Option<&Arena> {
        if self.start.load(Ordering::Acquire) != 0 {
            return Some(self);
        }
        let start = vm::reserve(core::ptr::null_mut(), ARENA_PAGES * PAGE, vm::Access::ReadWrite)?;
        // SAFETY: the mapping is ours.
        let guard = |page| unsafe { vm::protect(start.wrapping_add(page * PAGE), PAGE, vm::Access::None) };
        let is_guarded = guard(FIRST - 1) && guard(END);
        let publish = || self.start.compare_exchange(0, start as usize, Ordering::AcqRel, Ordering::Acquire).is_ok();
        if !(is_guarded && publish()) {
            // SAFETY: the mapping is ours; another thread was faster, or there is no memory.
            unsafe { vm::release(start, ARENA_PAGES * PAGE) };
        }
        (self.start.load(Ordering::Acquire) != 0).then_some(self)
    }

    fn give(&self, pages: usize) -> Option<*mut u8> {
        let give = |word: usize| {
            let fits = FIRST + word % LIVE + pages <= END;
            fits.then(|| word + pages + pages * LIVE)
        };
        // Acquire pairs with the release in `take_back`: a thread that gets pages again finds them empty.
        let before = self.pages.fetch_update(Ordering::Acquire, Ordering::Relaxed, give).ok()?;
        let first = FIRST + before % LIVE;
        let start = (self.start.load(Ordering::Acquire) + first * PAGE) as *mut u8;
        self.length(start)?.store(pages as u32, Ordering::Relaxed);
        Some(start)
    }

    /// Counts pages as free, after the kernel got them back.
    fn take_back(&self, pages: usize) {
        let take = |word: usize| Some(if word / LIVE == pages { 0 } else { word - pages * LIVE });
        let _ = self.pages.fetch_update(Ordering::Release, Ordering::Relaxed, take);
    }

    fn length(&self, block: *mut u8) -> Option<&AtomicU32> {
        let start = self.start.load(Ordering::Acquire);
        let page = (block as usize).checked_sub(start)? / PAGE;
        let inside = page < ARENA_PAGES && (block as usize).is_multiple_of(PAGE);
        // SAFETY: the arena begins with a length for each of its pages.
        inside.then(|| unsafe { &*(start as *const AtomicU32).add(page) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn emergency() -> Emergency {
        // SAFETY: all-zero memory is no arena.
        unsafe { core::mem::zeroed() }
    }

    #[test]
    fn emergency_arena_with_all_blocks_free_is_reused_zeroed() {
        machine::test_support::play(1, || {
            let emergency = emergency();
            for _ in 0..10 * ARENAS {
                let blocks = [100, 400, 500].map(|pages| emergency.allocate(pages).expect("nothing else is in use"));
                for (block, pages) in blocks.into_iter().zip([100, 400, 500]) {
                    assert_eq!(emergency.pages(block), Some(pages));
                    // SAFETY: the block is ours, and has that many pages.
                    unsafe {
                        assert!((0..pages).all(|page| block.add(page * PAGE).read() == 0), "a used page comes again");
                        block.write_bytes(1, pages * PAGE);
                        emergency.free(block);
                        emergency.free(block);
                    }
                    assert_eq!(emergency.pages(block), None);
                }
            }
            assert_eq!(emergency.arenas().count(), 1);
        });
    }

    #[test]
    fn emergency_heap_when_full_refuses_until_a_block_is_freed() {
        machine::test_support::play(1, || {
            let emergency = emergency();
            let blocks: [_; ARENAS] = core::array::from_fn(|_| emergency.allocate(END - FIRST));
            assert!(blocks.iter().all(Option::is_some) && emergency.allocate(1).is_none());
            // SAFETY: the block is ours.
            unsafe { emergency.free(blocks[3].expect("just looked")) };
            assert_eq!(emergency.allocate(1), blocks[3]);
        });
    }
}
