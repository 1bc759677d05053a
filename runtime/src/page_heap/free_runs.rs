//! Free runs, under the page heap's lock: the bins of freed runs, and the segments from which fresh runs are cut.
//!
//! The runs of a bin form a ring, linked through the descriptions of their first pages; those with dirty pages are in
//! front. A *handle* names a page: the segment's number, and the page's number in it.

use super::bins::{BINS, LONGEST, Occupied, bin_of};
use super::segment::{Kind, Owner, Page, Segment};
use core::ops::Range;
use machine::sync::{AtomicPtr, Ordering};

/// Most runs that a search looks at in one bin.
const GLANCES: usize = 8;

/// A run that a signal handler freed.
#[derive(Debug)]
#[repr(C)]
pub struct FreedRun {
    pub next: *mut FreedRun,
}

#[derive(Debug)]
#[repr(C)]
pub struct FreeRuns {
    bins: [u32; BINS],
    occupied: Occupied,
    /// Descriptions by number, from 1.
    pub segments: *mut AtomicPtr<Segment>,
    /// The segment that fresh runs are cut from.
    pub current: *mut Segment,
    pub spare: *mut Segment,
}

impl FreeRuns {
    pub fn handle(&self, segment: *mut Segment, page: u32) -> u32 {
        // SAFETY: the segment exists.
        unsafe { (*segment).number << LONGEST.ilog2() | page }
    }

    pub fn resolve(&self, handle: u32) -> (*mut Segment, u32) {
        // SAFETY: handles are made from segments that exist. Relaxed: the lock is held.
        let segment = unsafe { &*self.segments.add((handle >> LONGEST.ilog2()) as usize) }.load(Ordering::Relaxed);
        (segment, handle & (LONGEST - 1))
    }

    pub fn description<'a>(&self, handle: u32) -> &'a mut Page {
        let (segment, page) = self.resolve(handle);
        // SAFETY: descriptions are never freed, and the lock is held.
        unsafe { (*segment).page(page) }
    }

    pub fn link_if_any(&mut self, segment: *mut Segment, page: u32, pages: u32) {
        if pages > 0 {
            self.link(segment, page, pages);
        }
    }

    /// Puts a free run into its bin: in front if it has dirty pages, otherwise at the end.
    pub fn link(&mut self, segment: *mut Segment, page: u32, pages: u32) {
        // SAFETY: the segment exists, the lock is held.
        let segment_ref = unsafe { &*segment };
        for end in [page, page + pages - 1] {
            let description = segment_ref.page(end);
            (description.kind, description.pages) = (Kind::Free, pages);
        }
        let handle = self.handle(segment, page);
        let bin = bin_of(pages);
        let head = self.bins[bin];
        if head == 0 {
            let own = self.description(handle);
            (own.next, own.previous) = (handle, handle);
            self.bins[bin] = handle;
            self.occupied.set(bin, true);
            return;
        }
        let tail = self.description(head).previous;
        self.description(tail).next = handle;
        self.description(head).previous = handle;
        let own = self.description(handle);
        (own.next, own.previous) = (head, tail);
        if segment_ref.count_dirty(page, pages) > 0 {
            self.bins[bin] = handle;
        }
    }

    /// Takes a free run out of its bin; its ends are no longer free.
    pub fn unlink(&mut self, segment: *mut Segment, page: u32) {
        let handle = self.handle(segment, page);
        let own = self.description(handle);
        let (pages, next, previous) = (own.pages, own.next, own.previous);
        own.kind = Kind::Inside;
        self.description(handle + pages - 1).kind = Kind::Inside;
        let bin = bin_of(pages);
        if next == handle {
            self.bins[bin] = 0;
            self.occupied.set(bin, false);
            return;
        }
        self.description(previous).next = next;
        self.description(next).previous = previous;
        if self.bins[bin] == handle {
            self.bins[bin] = next;
        }
    }

    pub fn join_and_link(&mut self, segment: *mut Segment, page: u32, pages: u32) {
        // SAFETY: the segment exists, the lock is held.
        let segment_ref = unsafe { &*segment };
        segment_ref.page(page).kind = Kind::Inside;
        let (mut first, mut end) = (page, page + pages);
        if first > 0 && segment_ref.page(first - 1).kind == Kind::Free {
            first -= segment_ref.page(first - 1).pages;
            self.unlink(segment, first);
        }
        if end < segment_ref.pages() && segment_ref.page(end).kind == Kind::Free {
            let following = segment_ref.page(end).pages;
            self.unlink(segment, end);
            end += following;
        }
        self.link(segment, first, end - first);
    }

    /// Puts the pages that the current segment has never used into a bin.
    pub fn close_frontier(&mut self) {
        let segment = self.current;
        // SAFETY: the segment exists, the lock is held.
        let (low, high) = unsafe {
            let gap = ((*segment).low, (*segment).high);
            (*segment).low = gap.1;
            gap
        };
        if low < high {
            self.join_and_link(segment, low, high - low);
        }
    }

    pub fn recycle(&mut self, segment: *mut Segment) {
        // SAFETY: no other thread has the description any more.
        unsafe {
            (*segment).set_owner(Owner::Nobody);
            (*segment).next = self.spare;
        }
        self.spare = segment;
    }

    /// Takes one of the longest runs with dirty pages out of its bin, and returns its segment and pages. With
    /// `keeps_huge_whole`, where the kernel may have made huge pages, the run must hold dirty pages in a whole one.
    pub fn unlink_longest_dirty(&mut self, keeps_huge_whole: bool) -> Option<(*mut Segment, Range<u32>)> {
        let mut bin = self.occupied.last()?;
        loop {
            if self.bins[bin] != 0
                && let Some((segment, run)) = self.find_dirty(bin, keeps_huge_whole)
            {
                self.unlink(segment, run.start);
                return Some((segment, run));
            }
            bin = bin.checked_sub(1)?;
        }
    }

    fn find_dirty(&self, bin: usize, keeps_huge_whole: bool) -> Option<(*mut Segment, Range<u32>)> {
        let mut handle = self.bins[bin];
        for _ in 0..GLANCES {
            let (segment, first) = self.resolve(handle);
            // SAFETY: the segment exists.
            let segment_ref = unsafe { &*segment };
            let (pages, next) = (segment_ref.page(first).pages, segment_ref.page(first).next);
            let unit = if keeps_huge_whole { segment_ref.unit_of_contents() } else { 1 };
            let (start, end) = (first.next_multiple_of(unit), (first + pages) / unit * unit);
            if start < end && segment_ref.count_dirty(start, end - start) > 0 {
                return Some((segment, first..first + pages));
            }
            if next == self.bins[bin] {
                break;
            }
            handle = next;
        }
        None
    }

    /// Whether a segment is one free run.
    pub fn is_free(&self, segment: *mut Segment) -> bool {
        // SAFETY: the segment exists, the lock is held.
        let segment = unsafe { &*segment };
        segment.owner() == Owner::PageHeap
            && segment.page(0).kind == Kind::Free
            && segment.page(0).pages == segment.pages()
    }

    /// Whether an aligned run of `pages` needs a new segment.
    pub fn must_grow(&self, pages: u32, alignment: u32) -> bool {
        // SAFETY: the current segment exists, the lock is held.
        let fresh = unsafe { (*self.current).high - (*self.current).low };
        fresh < pages && self.find(pages, alignment).is_none()
    }

    /// Links the pages between a segment's runs in use, including those never used. Returns the number of dirty ones.
    pub fn relink_segment(&mut self, segment: *mut Segment) -> u64 {
        // SAFETY: the segment exists, the lock is held.
        let segment_ref = unsafe { &mut *segment };
        (segment_ref.low, segment_ref.high) = (0, 0);
        let (mut page, mut start, mut dirty) = (0, 0, 0);
        while page < segment_ref.pages() {
            let description = segment_ref.page(page);
            let in_use = matches!(description.kind, Kind::Large | Kind::Tagged | Kind::Slab);
            let step = if in_use { description.pages } else { 1 };
            if in_use {
                dirty += segment_ref.count_dirty(start, page - start) as u64;
                self.link_if_any(segment, start, page - start);
                start = page + step;
            } else {
                description.kind = Kind::Inside;
            }
            page += step;
        }
        dirty += segment_ref.count_dirty(start, page - start) as u64;
        self.link_if_any(segment, start, page - start);
        dirty
    }

    /// Checks that each bin is a doubly linked ring of free runs of its lengths, dirty ones in front. Counts the runs.
    pub fn check_valid(&self) -> usize {
        let runs_in = |bin: usize| {
            let head = self.bins[bin];
            assert_eq!(head != 0, self.occupied.next(bin) == Some(bin), "whether bin {bin} is occupied");
            if head == 0 { 0 } else { self.check_circle(bin, head) }
        };
        (0..BINS).map(runs_in).sum()
    }

    fn check_circle(&self, bin: usize, head: u32) -> usize {
        let (mut handle, mut runs, mut after_clean) = (head, 0, false);
        loop {
            let (segment, page) = self.resolve(handle);
            let (kind, pages, next) =
                (self.description(handle).kind, self.description(handle).pages, self.description(handle).next);
            assert_eq!((kind, bin_of(pages)), (Kind::Free, bin), "a run of {pages} pages in bin {bin}");
            assert_eq!(self.description(next).previous, handle, "the links of bin {bin}");
            // SAFETY: the segment exists.
            let is_clean = unsafe { (*segment).count_dirty(page, pages) } == 0;
            assert!(is_clean || !after_clean, "a dirty run behind a clean one in bin {bin}");
            after_clean = is_clean;
            runs += 1;
            if next == head {
                return runs;
            }
            handle = next;
        }
    }

    /// Forgets all free runs and spare descriptions, which the caller finds again, except those without a number.
    pub fn forget(&mut self) {
        self.bins.fill(0);
        self.occupied.clear();
        self.spare = core::ptr::null_mut();
    }

    /// Cuts a run from a freed one, and puts the rest on either side into bins.
    pub fn take_from_bins(&mut self, pages: u32, alignment: u32) -> Option<(*mut Segment, u32)> {
        let (segment, first, start) = self.find(pages, alignment)?;
        // SAFETY: the segment exists, the lock is held.
        let end = first + unsafe { (*segment).page(first) }.pages;
        self.unlink(segment, first);
        self.link_if_any(segment, first, start - first);
        self.link_if_any(segment, start + pages, end - start - pages);
        Some((segment, start))
    }

    /// A freed run that holds an aligned one of `pages`: its segment, its first page, and the aligned run's first page.
    fn find(&self, pages: u32, alignment: u32) -> Option<(*mut Segment, u32, u32)> {
        let mut bin = self.occupied.next(bin_of(pages))?;
        loop {
            let mut handle = self.bins[bin];
            for _ in 0..GLANCES {
                let (segment, first) = self.resolve(handle);
                let description = self.description(handle);
                let start = first.next_multiple_of(alignment);
                if start + pages <= first + description.pages {
                    return Some((segment, first, start));
                }
                handle = description.next;
                if handle == self.bins[bin] {
                    break;
                }
            }
            bin = self.occupied.next(bin + 1)?;
        }
    }

    /// Cuts a run from the pages that the current segment has never used.
    pub fn take_fresh(&mut self, pages: u32, alignment: u32, kind: Kind) -> Option<(*mut Segment, u32)> {
        let pointer = self.current;
        // SAFETY: the current segment exists, and the lock is held.
        let segment = unsafe { &mut *pointer };
        if segment.high < pages {
            return None;
        }
        if kind == Kind::Slab {
            let start = (segment.high - pages) / alignment * alignment;
            if start < segment.low {
                return None;
            }
            segment.high = start;
            return Some((pointer, start));
        }
        let start = segment.low.next_multiple_of(alignment);
        if start + pages > segment.high {
            return None;
        }
        let gap = (segment.low, start - segment.low);
        segment.low = start + pages;
        if gap.1 > 0 {
            self.join_and_link(pointer, gap.0, gap.1);
        }
        Some((pointer, start))
    }
}
