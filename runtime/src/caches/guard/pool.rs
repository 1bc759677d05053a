//! The pool of places for guarded blocks, and their memory.
//!
//! ```text
//!   │ guard │ page of place 0 │ guard │ page of place 1 │ … │ guard │
//! ```
//!
//! All pages are closed but those of blocks in use. The place that was freed first is used again first, so a freed page
//! stays closed as long as possible.

use super::place::{Place, State};
use crate::caches::heap::{heap, known_at};
use crate::layout::{HeaderWord, header};
use crate::page_heap::{PAGE, guarded};
use core::ptr::null_mut;
use machine::clock;
use machine::stack::Rows;
use machine::sync::{AtomicPtr, AtomicU64, Ordering};
use machine::vm::{self, Closed};

/// At most half a MiB of blocks, and 96 KiB of this.
const PLACES: usize = 128;
/// From the first page to the last one.
const BYTES: usize = (2 * PLACES - 1) * PAGE;
/// Tries to get a place, because other threads may be faster.
const TRIES: usize = 4;

// SAFETY: zeroes are valid, and no other user has this part of the header.
const POOL: HeaderWord<AtomicPtr<Pool>> = unsafe { HeaderWord::at(header::GUARD) };

/// All-zero memory, but for the pages.
#[derive(Debug)]
#[repr(C)]
pub struct Pool {
    pages: AtomicPtr<Page>,
    turn: AtomicU64,
    /// Least time between two guarded blocks, and when the last one came.
    pub least_ns: AtomicU64,
    last_ns: AtomicU64,
    /// Allocations that could have no place.
    skipped: AtomicU64,
    pub rows: Rows,
    places: [Place; PLACES],
}

/// A page of the pool, or a guard.
#[repr(C, align(4096))]
pub struct Page([u8; PAGE]);

/// The pool. None: no blocks are guarded.
#[inline]
pub fn pool() -> Option<&'static Pool> {
    known_at(&POOL)
}

/// Allocations that were chosen to be guarded, and are not.
pub fn skipped() -> u64 {
    pool().map_or(0, |pool| pool.skipped.load(Ordering::Relaxed))
}

/// Makes the pool. False: no memory. If two threads make one at the same time, one of them stays closed and unused.
pub fn make() -> bool {
    let page_heap = heap().page_heap();
    let bytes = size_of::<Pool>().next_multiple_of(PAGE);
    let Some(pool) = guarded::map(page_heap.place(bytes), bytes, PAGE).map(<*mut u8>::cast::<Pool>) else {
        return false;
    };
    // SAFETY: a fresh mapping, and zeroes are valid.
    let made = unsafe { &*pool };
    let pages = page_heap.claim_mapping(BYTES).unwrap_or(null_mut());
    // SAFETY: fresh pages of ours.
    let closed = if pages.is_null() { None } else { unsafe { vm::close(pages, BYTES) } };
    let Some(closed) = closed else { return false };
    made.places.iter().for_each(|place| place.set_closed(closed));
    made.pages.store(pages.cast(), Ordering::Relaxed);
    // Release pairs with the acquire in `known_at`.
    let store = |place: &AtomicPtr<Pool>| {
        let _ = place.compare_exchange(null_mut(), pool, Ordering::Release, Ordering::Relaxed);
    };
    POOL.get().map(store).is_some()
}

impl Pool {
    /// The next number of a change.
    pub fn number(&self) -> u64 {
        self.turn.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn start(&self) -> usize {
        self.pages.load(Ordering::Relaxed).addr()
    }

    fn page(&self, place: usize) -> *mut u8 {
        self.pages.load(Ordering::Relaxed).wrapping_add(2 * place).cast()
    }

    /// A place with an open page, which is the caller's. None: not so soon, all are in use, or the kernel refuses.
    pub fn take(&self) -> Option<(&Place, *mut u8)> {
        let taken = self.try_take();
        if taken.is_none() {
            self.skipped.fetch_add(1, Ordering::Relaxed);
        }
        taken
    }

    fn try_take(&self) -> Option<(&Place, *mut u8)> {
        let (now, last) = (clock::now_ns(), self.last_ns.load(Ordering::Relaxed));
        let is_time = now.saturating_sub(last) >= self.least_ns.load(Ordering::Relaxed);
        if !is_time || self.last_ns.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            return None;
        }
        let longest_free = || {
            let free = self.places.iter().enumerate();
            free.filter_map(|(index, place)| Some((place.free_since()?, index))).min().map(|(_, index)| index)
        };
        let index = (0..TRIES).find_map(|_| longest_free().filter(|&index| self.places[index].claim(State::Free)))?;
        let (place, page) = (&self.places[index], self.page(index));
        // SAFETY: the place is ours, and its page closed.
        if unsafe { vm::open(page, PAGE, place.closed()) } {
            return Some((place, page));
        }
        place.change(State::Free, self.number());
        None
    }

    /// Closes the page of a place that is the caller's, and gives the place back. If the kernel refuses, its next block
    /// finds an open page, and until then no access faults.
    pub fn give(&self, place: &Place) {
        let page = place.start().map_addr(|start| start / PAGE * PAGE);
        // SAFETY: the block was given up.
        if let Some(closed) = unsafe { vm::close(page, PAGE) } {
            place.set_closed(closed);
        }
        place.change(State::Free, self.number());
    }

    /// The place of an address in the pool, its outer guards included. In a guard, of the two beside it, the one whose
    /// block is nearer.
    #[inline]
    pub fn place_of(&self, address: usize) -> Option<&Place> {
        let offset = address.wrapping_sub(self.start().wrapping_sub(PAGE));
        if offset < BYTES + 2 * PAGE { Some(self.nearest(address, offset / PAGE)) } else { None }
    }

    /// Pages are counted from the first guard on.
    #[cold]
    fn nearest(&self, address: usize, page: usize) -> &Place {
        let is_guard = page.is_multiple_of(2);
        let before = &self.places[(page / 2).saturating_sub(usize::from(is_guard))];
        let behind = &self.places[(page / 2).min(PLACES - 1)];
        let rank = |place: &Place| {
            let range = place.range();
            let distance = range.start.saturating_sub(address).max(address.saturating_sub(range.end));
            (!place.was_used(), distance, place.state() != State::InUse)
        };
        if rank(behind) < rank(before) { behind } else { before }
    }
}

const _: () = assert!(size_of::<Pool>() <= 96 << 10 && Closed::Marked as u32 == 0);
