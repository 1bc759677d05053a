//! Per-CPU page lists: ready empty spans of one granule in each slot, so that slots seldom meet at the page heap.
//!
//! A list that runs dry takes a batch, and the batch doubles. A list above its high mark returns a batch, and the batch
//! halves. `PageList::decay` returns half of the spans that the list did not need since the last decay, and shrinks
//! the batch, so the high mark also follows the load down. Each lock hold, at the list and at the page heap, moves at
//! most [`MOST_AT_ONCE`] spans, so its time is bounded.
//!
//! Source: the kernel's per-CPU page lists, whose high marks rise with use and decay in `vmstat_update`.
//!
//! Runs at the same time: mostly the threads of one slot; any thread may drain.

use super::runs::PageHeap;
use super::span::Span;
use super::{MOST_AT_ONCE, PAGE_HEAP_RANK, PAGE_LIST_RANK};
use crate::layout::{self, Region};
use core::ptr::null_mut;
use machine::here;
use machine::sync::{Acquired, AtomicPtr, AtomicU32, Lock, Ordering, Ordering::Relaxed, Site, compiler_fence};

const _: () = assert!(PAGE_LIST_RANK < PAGE_HEAP_RANK);

/// One slot's list. All-zero memory is an empty list. Relaxed throughout: the lock orders reads under it, and a number
/// that is read without it only changes how many spans move, or when.
#[derive(Debug)]
#[repr(C)]
pub struct PageList {
    lock: Lock<PAGE_LIST_RANK>,
    count: AtomicU32,
    batch: AtomicU32,
    /// The lowest count since the last decay.
    least: AtomicU32,
    head: AtomicPtr<Span>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occupancy {
    /// A thread uses it, or may soon.
    Occupied,
    /// No thread has used it for a while.
    Deserted,
}

impl PageHeap {
    pub fn page_list(&self, slot: u32) -> &PageList {
        // SAFETY: the map lies in the region, behind the areas; these bytes of the slot's area are only used here.
        unsafe { &*Region::of_map(self.map_start).in_area(slot, layout::PAGE_LIST) }
    }
}

impl PageList {
    /// Spans on the list, at some moment.
    pub fn count(&self) -> usize {
        self.count.load(Relaxed) as usize
    }

    /// Checks the list, which no other thread may use meanwhile, and counts its spans.
    #[doc(hidden)]
    pub fn check_valid(&self) -> usize {
        // SAFETY: no other thread uses the list.
        let spans = unsafe { Span::list(self.head.load(Relaxed)) };
        let is_empty = |span: &Span| (span.granules(), span.cache()) == (1, 0);
        let found = spans.inspect(|span| assert!(is_empty(span), "{span:?} is on a page list")).count();
        assert_eq!(found, self.count(), "spans on a page list, and its count");
        found
    }

    /// Takes a span of one granule, from the list or with a batch from the page heap.
    pub fn take(&self, heap: &PageHeap) -> Option<&'static Span> {
        if let Some((span, _)) = self.pop(1, heap) {
            return Some(span);
        }
        let batch = self.batch.load(Relaxed);
        let first = heap.allocate_spans(batch)?;
        self.batch.store((batch * 2 + 1).min(MOST_AT_ONCE), Relaxed);
        let rest = first.next();
        first.set_next(null_mut());
        // SAFETY: the spans are ours.
        unsafe {
            if !rest.is_null() && !self.push(rest, heap) {
                heap.free_spans(rest);
            }
        }
        Some(first)
    }

    /// Puts an empty span, which the caller owns, on the list. Above the high mark, spans go to the page heap.
    pub unsafe fn put(&self, span: &Span, heap: &PageHeap) {
        span.set_next(null_mut());
        // SAFETY: passed on.
        unsafe {
            if !self.push(span.as_ptr(), heap) {
                return heap.free_spans(span.as_ptr());
            }
        }
        let batch = self.batch.load(Relaxed);
        if self.count.load(Relaxed) > batch * 2 {
            self.batch.store(batch / 2, Relaxed);
            self.drain(batch / 2, heap);
        }
    }

    /// Returns half of the spans below the lowest count since the last decay, or all of a deserted slot's. Counts them.
    pub fn decay(&self, occupancy: Occupancy, heap: &PageHeap) -> usize {
        let (count, batch) = (self.count.load(Relaxed), self.batch.load(Relaxed));
        let (surplus, shrinks_by) = match self.least.load(Relaxed).min(count) {
            _ if occupancy == Occupancy::Deserted => (count, batch),
            0 => (0, 0),
            least => (least.div_ceil(2), batch.div_ceil(4)),
        };
        self.batch.store(batch - shrinks_by, Relaxed);
        let given = self.drain(count - surplus, heap);
        self.least.store(self.count.load(Relaxed), Relaxed);
        given
    }

    /// Returns spans to the page heap until `keep` are left, and returns their number.
    pub fn drain(&self, keep: u32, heap: &PageHeap) -> usize {
        let mut given = 0;
        while let excess = self.count.load(Relaxed).saturating_sub(keep)
            && excess > 0
            && let Some((spans, count)) = self.pop(MOST_AT_ONCE.min(excess), heap)
        {
            // SAFETY: popped spans are ours.
            unsafe { heap.free_spans(spans.as_ptr()) };
            given += count as usize;
        }
        given
    }

    /// Takes at most `most` spans, linked one to the next, and returns their number.
    fn pop(&self, most: u32, heap: &PageHeap) -> Option<(&'static Span, u32)> {
        if !self.lock(heap, here!()) {
            return None;
        }
        let first = self.head.load(Relaxed);
        // SAFETY: spans on the list change under the lock only.
        let (last, taken) = unsafe { last_of(first, most) };
        if let Some(last) = last {
            // In this order, for a child that is forked in between: the list's spans are then on it as a whole.
            self.head.store(last.next(), Relaxed);
            compiler_fence(Ordering::Release);
            last.set_next(null_mut());
            let count = self.count.load(Relaxed) - taken;
            self.count.store(count, Relaxed);
            self.least.store(self.least.load(Relaxed).min(count), Relaxed);
        }
        // SAFETY: acquired above. Descriptions of spans are never freed.
        unsafe {
            self.lock.release();
            Some((first.as_ref()?, taken))
        }
    }

    /// Puts linked spans, at least one, on the list. The caller owns them, and still does if this returns false.
    unsafe fn push(&self, spans: *mut Span, heap: &PageHeap) -> bool {
        // SAFETY: passed on.
        let (last, count) = unsafe { last_of(spans, u32::MAX) };
        if !self.lock(heap, here!()) {
            return false;
        }
        last.inspect(|last| last.set_next(self.head.load(Relaxed)));
        compiler_fence(Ordering::Release);
        self.head.store(spans, Relaxed);
        self.count.store(self.count.load(Relaxed) + count, Relaxed);
        // SAFETY: acquired above.
        unsafe { self.lock.release() };
        true
    }

    /// False in a signal handler that must not wait: it works without the list.
    fn lock(&self, heap: &PageHeap, site: Site) -> bool {
        match self.lock.acquire(&heap.locks().page_lists, site) {
            Acquired::Clean => true,
            Acquired::WouldDeadlock => false,
            Acquired::Abandoned => {
                // The list changes by single stores of its head, so only the count can be wrong.
                // SAFETY: this thread holds the lock.
                let count = unsafe { Span::list(self.head.load(Relaxed)) }.count();
                self.count.store(count as u32, Relaxed);
                true
            }
        }
    }
}

/// The last of at most `most` spans, and their number. The contract is that of [`Span::list`].
unsafe fn last_of(first: *mut Span, most: u32) -> (Option<&'static Span>, u32) {
    // SAFETY: passed on.
    let spans = unsafe { Span::list(first) }.take(most as usize);
    spans.fold((None, 0), |(_, count), span| (Some(span), count + 1))
}
