//! The page heap's invariants, as code.
//!
//! ```text
//!   segment   | run │ run │ free │ run |   never used   | span │ free │ span |
//!             0                        low              high             pages
//! ```
//!
//! Runs lie end to end on both sides of the pages never used. No two free runs are neighbours. Each free run is in the
//! bin of its length. The counts are the sums of what is there.
//!
//! For tests: no other thread may be in the heap. The check holds no lock, so that a failed check leaves none held.

use super::PAGE;
use super::runs::PageHeap;
use super::segment::{Kind, Owner, Page, Segment};
use machine::here;
use machine::sync::Ordering;

/// Sums that the check found, in pages.
#[derive(Debug, Default)]
pub struct PagesFound {
    /// In spans, including those on page lists.
    pub in_spans: u64,
    pub blocks: usize,
    in_blocks: u64,
    /// Guards.
    in_guards: u64,
    free_dirty: u64,
    reserved: u64,
    free_runs: usize,
}

impl PageHeap {
    /// Checks every segment, every bin and every count; each violation panics.
    #[doc(hidden)]
    pub fn check_valid(&self) -> PagesFound {
        // Runs that a signal handler freed wait for the next holder of the lock.
        self.locked(here!(), |_| ());
        // SAFETY: no other thread is in the heap.
        let state = unsafe { &*self.state.get() };
        let mut found = PagesFound::default();
        for number in 1..=self.segment_count.load(Ordering::Relaxed) {
            let segment = state.segment(number);
            assert_eq!(segment.number.get(), number, "the table's entry has another number");
            if segment.owner() == Owner::PageHeap {
                self.check_segment(segment, &mut found);
            }
        }
        self.units.for_each(|segment| {
            if segment.owner() == Owner::Block {
                self.check_unit(segment, segment.start());
                found.in_blocks += (segment.bytes() / PAGE) as u64;
                found.blocks += 1;
            }
        });
        assert_eq!(state.check_valid(), found.free_runs, "free runs in bins, and found in segments");
        assert_eq!(self.counts.reserved.get(), found.reserved, "pages counted as reserved, and found in segments");
        let in_use = found.in_spans + found.in_blocks;
        assert_eq!(self.counts.in_use.get(), in_use + found.in_guards, "pages counted as in use, and found");
        assert_eq!(self.counts.free_dirty.get(), found.free_dirty, "pages counted as free and dirty, and found");
        assert_eq!(self.limits.held(), in_use + found.free_dirty, "pages counted as held, and found");
        found
    }

    fn check_segment(&self, segment: &Segment, found: &mut PagesFound) {
        segment.units().for_each(|unit| self.check_unit(segment, unit));
        let (low, high, pages) = (segment.low.get(), segment.high.get(), segment.pages());
        found.reserved += u64::from(pages);
        assert!(low <= high && high <= pages);
        assert_eq!(segment.count_dirty(low, high - low), 0, "dirty pages that were never used");
        if low == high {
            // The two sides have met, and their free runs may be one.
            return check_runs(segment, 0, pages, found);
        }
        check_runs(segment, 0, low, found);
        check_runs(segment, high, pages, found);
    }

    fn check_unit(&self, segment: &Segment, address: *mut u8) {
        let entered = self.units.find(address).map(|entered| entered as *const Segment);
        assert_eq!(entered, Some(segment as *const Segment), "another segment is entered for unit {address:p}");
    }
}

fn check_runs(segment: &Segment, first: u32, end: u32, found: &mut PagesFound) {
    let (mut page, mut after_free) = (first, false);
    while page < end {
        let (&mut Page { kind, pages, was_freed, .. }, left) = (segment.page(page), end - page);
        assert!(pages > 0 && pages <= left, "a run of {pages} pages at page {page}, where {left} are left");
        let dirty = segment.count_dirty(page, pages);
        match kind {
            Kind::Free => {
                let last = segment.page(page + pages - 1);
                assert_eq!((last.kind, last.pages), (kind, pages), "the end of the free run at page {page}");
                assert!(!after_free, "two free runs meet at page {page}");
                found.free_dirty += dirty as u64;
                found.free_runs += 1;
            }
            Kind::Large | Kind::Tagged => {
                found.in_blocks += pages as u64;
                found.blocks += 1;
            }
            Kind::Purged => found.in_guards += pages as u64,
            Kind::Slab => found.in_spans += pages as u64,
            Kind::Inside => panic!("no run begins at page {page}"),
        }
        assert!(kind == Kind::Free || dirty == pages, "{dirty} of {pages} pages in use at page {page} are dirty");
        let may_be_marked = matches!(kind, Kind::Free | Kind::Purged);
        assert!(!was_freed || may_be_marked, "the run in use at page {page} is marked as freed");
        let ends = if kind == Kind::Free { 1 } else { 0 };
        let inside = (page + 1..page + pages - ends.min(pages - 1)).find(|&at| segment.page(at).kind != Kind::Inside);
        assert_eq!(inside, None, "a page inside the run at page {page} says that it begins one");
        after_free = kind == Kind::Free;
        page += pages;
    }
}
