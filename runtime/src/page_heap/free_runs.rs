//! Free runs, under the page heap's lock: the bins of freed runs, and the segments from which fresh runs are cut.
//!
//! | pages | bins |
//! |---|---|
//! | 1 to 15 | one for each length |
//! | 16 to 2^18 | eight for each doubling |
//!
//! The runs of a bin form a ring, linked through the descriptions of their first pages; those with dirty pages are in
//! front. A *handle* names a page: the segment's number, and the page's number in it. A search begins in the bin of the
//! wanted length, where runs may be too short. It looks at a bounded number of runs in each bin.

use super::kept::Kept;
use super::segment::{Huge, Kind, Owner, Page, Segment};
use super::unmapped::Unmapped;
use core::iter::successors;
use core::ops::Range;
use machine::sync::{AtomicPtr, Ordering};

/// Most runs that a search looks at in one bin.
const GLANCES: usize = 8;
const BINS: usize = 16 + 8 * 14 + 1;
/// The longest run that bins hold, in pages: 1 GiB.
const LONGEST: u32 = 1 << PAGE_BITS;
/// Bits of a handle that are the page's number.
const PAGE_BITS: u32 = 18;

#[derive(Debug)]
#[repr(C)]
pub struct FreeRuns {
    occupied: Occupied,
    /// Descriptions by number, from 1.
    pub segments: *mut AtomicPtr<Segment>,
    /// The segment that fresh runs are cut from.
    pub current: Option<&'static Segment>,
    pub spare: Option<&'static Segment>,
    /// The last blocks with mappings of their own that were freed.
    pub unmapped: Unmapped,
    /// Guards that may still be put between spans.
    pub guards: u32,
    /// Mappings of freed blocks that wait for reuse.
    pub kept: Kept,
    /// Last, because a small process touches only the first of them: the others lie in another page.
    bins: [u32; BINS],
}

impl FreeRuns {
    fn handle(&self, segment: &Segment, page: u32) -> u32 {
        segment.number.get() << PAGE_BITS | page
    }

    /// The segment of a number, which must exist.
    pub fn segment(&self, number: u32) -> &'static Segment {
        // SAFETY: the table has an entry for the segment, whose description is never freed. Relaxed: the lock is held.
        unsafe { &*(*self.segments.add(number as usize)).load(Ordering::Relaxed) }
    }

    fn resolve(&self, handle: u32) -> (&'static Segment, u32) {
        (self.segment(handle >> PAGE_BITS), handle & (LONGEST - 1))
    }

    fn description(&self, handle: u32) -> &'static mut Page {
        let (segment, page) = self.resolve(handle);
        segment.page(page)
    }

    /// Puts a free run, if it has any pages, into its bin: in front if it has dirty pages, otherwise at the end.
    pub fn link(&mut self, segment: &'static Segment, page: u32, pages: u32) {
        if pages == 0 {
            return;
        }
        for end in [page, page + pages - 1] {
            let description = segment.page(end);
            (description.kind, description.pages) = (Kind::Free, pages);
        }
        let (handle, bin) = (self.handle(segment, page), bin_of(pages));
        let head = self.bins[bin];
        let own = segment.page(page);
        if head == 0 {
            (own.next, own.previous) = (handle, handle);
            self.bins[bin] = handle;
            self.occupied.insert(bin);
            return;
        }
        let tail = self.description(head).previous;
        self.description(tail).next = handle;
        self.description(head).previous = handle;
        (own.next, own.previous) = (head, tail);
        if segment.count_dirty(page, pages) > 0 {
            self.bins[bin] = handle;
        }
    }

    /// Takes a free run out of its bin; its ends are no longer free.
    pub fn unlink(&mut self, segment: &'static Segment, page: u32) {
        let handle = self.handle(segment, page);
        let own = self.description(handle);
        let (pages, next, previous) = (own.pages, own.next, own.previous);
        own.kind = Kind::Inside;
        self.description(handle + pages - 1).kind = Kind::Inside;
        let bin = bin_of(pages);
        if next == handle {
            self.bins[bin] = 0;
            self.occupied.remove(bin);
            return;
        }
        self.description(previous).next = next;
        self.description(next).previous = previous;
        if self.bins[bin] == handle {
            self.bins[bin] = next;
        }
    }

    /// Joins the pages, if there are any, with their free neighbours, and links them.
    pub fn join_and_link(&mut self, segment: &'static Segment, page: u32, pages: u32) {
        if pages == 0 {
            return;
        }
        segment.page(page).kind = Kind::Inside;
        let (mut first, mut end) = (page, page + pages);
        if first > 0 && segment.page(first - 1).kind == Kind::Free {
            first -= segment.page(first - 1).pages;
            self.unlink(segment, first);
        }
        if end < segment.pages() && segment.page(end).kind == Kind::Free {
            let following = segment.page(end).pages;
            self.unlink(segment, end);
            end += following;
        }
        self.link(segment, first, end - first);
    }

    /// Puts the pages that the current segment has never used into a bin.
    pub fn close_frontier(&mut self) {
        let Some(segment) = self.current else { return };
        let low = segment.low.replace(segment.high.get());
        self.join_and_link(segment, low, segment.high.get() - low);
    }

    /// Keeps a description that no other thread has any more for reuse.
    pub fn recycle(&mut self, segment: &'static Segment) {
        segment.set_owner(Owner::Nobody);
        segment.next.set(self.spare.replace(segment));
    }

    /// The first few runs of a bin: their segments and pages.
    fn glance(&self, bin: usize) -> impl Iterator<Item = (&'static Segment, Range<u32>)> {
        let head = self.bins[bin];
        let after = move |&handle: &u32| Some(self.description(handle).next).filter(|&next| next != head);
        successors((head != 0).then_some(head), after).take(GLANCES).map(|handle| {
            let (segment, first) = self.resolve(handle);
            (segment, first..first + segment.page(first).pages)
        })
    }

    /// Takes one of the longest runs with dirty pages that may go out of its bin. Returns its segment and pages.
    pub fn unlink_longest_dirty(&mut self, huge: Huge) -> Option<(&'static Segment, Range<u32>)> {
        let runs = (0..=self.occupied.last()?).rev().flat_map(|bin| self.glance(bin));
        let (segment, run) = { runs }.find(|(segment, run)| {
            let (part, _) = segment.purgeable(run, huge);
            !part.is_empty() && segment.count_dirty(part.start, part.end - part.start) > 0
        })?;
        self.unlink(segment, run.start);
        Some((segment, run))
    }

    /// Whether an aligned run of `pages` needs a new segment.
    pub fn must_grow(&self, pages: u32, alignment: u32) -> bool {
        let fresh = self.current.map_or(0, |segment| segment.high.get() - segment.low.get());
        fresh < pages && self.find(pages, alignment).is_none()
    }

    /// Links the pages between a segment's runs in use, including those never used. Returns the number of dirty ones.
    pub fn relink_segment(&mut self, segment: &'static Segment) -> u64 {
        segment.low.set(0);
        segment.high.set(0);
        let (mut page, mut start, mut dirty) = (0, 0, 0);
        loop {
            let is_end = page == segment.pages();
            if is_end || matches!(segment.page(page).kind, Kind::Large | Kind::Tagged | Kind::Slab | Kind::Purged) {
                dirty += u64::from(segment.count_dirty(start, page - start));
                self.link(segment, start, page - start);
                if is_end {
                    return dirty;
                }
                // The thread that vanished may have been about to free the run. It stays in use.
                segment.page(page).was_freed &= segment.page(page).kind == Kind::Purged;
                page += segment.page(page).pages;
                start = page;
            } else {
                segment.page(page).kind = Kind::Inside;
                page += 1;
            }
        }
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
            let &mut Page { kind, pages, next, .. } = segment.page(page);
            assert_eq!((kind, bin_of(pages)), (Kind::Free, bin), "a run of {pages} pages in bin {bin}");
            assert_eq!(self.description(next).previous, handle, "the links of bin {bin}");
            let is_clean = segment.count_dirty(page, pages) == 0;
            assert!(is_clean || !after_clean, "a dirty run behind a clean one in bin {bin}");
            (after_clean, runs) = (is_clean, runs + 1);
            if next == head {
                return runs;
            }
            handle = next;
        }
    }

    /// Forgets all free runs and spare descriptions, which the caller finds again, except those without a number.
    pub fn forget(&mut self) {
        self.bins.fill(0);
        self.occupied.0.fill(0);
        self.spare = None;
    }

    /// Cuts a run from a freed one, and puts the rest on either side into bins.
    pub fn take_from_bins(&mut self, pages: u32, alignment: u32) -> Option<(&'static Segment, u32)> {
        let (segment, run, start) = self.find(pages, alignment)?;
        self.unlink(segment, run.start);
        self.link(segment, run.start, start - run.start);
        self.link(segment, start + pages, run.end - start - pages);
        Some((segment, start))
    }

    /// A freed run that holds an aligned one of `pages`: its segment, its pages, and the aligned run's first page.
    fn find(&self, pages: u32, alignment: u32) -> Option<(&'static Segment, Range<u32>, u32)> {
        let bins = successors(self.occupied.next(bin_of(pages)), |bin| self.occupied.next(bin + 1));
        { bins }.flat_map(|bin| self.glance(bin)).find_map(|(segment, run)| {
            let start = run.start.next_multiple_of(alignment);
            (start + pages <= run.end).then_some((segment, run, start))
        })
    }

    /// Cuts a run from the pages that the current segment has never used.
    pub fn take_fresh(&mut self, pages: u32, alignment: u32, kind: Kind) -> Option<(&'static Segment, u32)> {
        let segment = self.current?;
        let (low, high) = (segment.low.get(), segment.high.get());
        let start = match kind {
            Kind::Slab => high.checked_sub(pages)? / alignment * alignment,
            _ => low.next_multiple_of(alignment),
        };
        if start < low || start + pages > high {
            return None;
        }
        if kind == Kind::Slab {
            segment.high.set(start);
        } else {
            segment.low.set(start + pages);
            self.join_and_link(segment, low, start - low);
        }
        Some((segment, start))
    }
}

fn bin_of(pages: u32) -> usize {
    debug_assert!((1..=LONGEST).contains(&pages));
    if pages < 16 {
        return pages as usize;
    }
    let doubling = pages.ilog2() - 4;
    16 + 8 * doubling as usize + ((pages >> (doubling + 1)) & 7) as usize
}

/// The bins that hold any runs.
#[derive(Debug)]
#[repr(C)]
struct Occupied([u64; BINS.div_ceil(64)]);

impl Occupied {
    fn insert(&mut self, bin: usize) {
        self.0[bin / 64] |= 1 << (bin % 64);
    }

    fn remove(&mut self, bin: usize) {
        self.0[bin / 64] &= !(1 << (bin % 64));
    }

    /// The first bin from `bin` on that holds something.
    fn next(&self, bin: usize) -> Option<usize> {
        let mut word = bin / 64;
        let mut bits = self.0.get(word)? & (u64::MAX << (bin % 64));
        while bits == 0 {
            word += 1;
            bits = *self.0.get(word)?;
        }
        Some(word * 64 + bits.trailing_zeros() as usize)
    }

    /// The last bin that holds something: the longest runs.
    fn last(&self) -> Option<usize> {
        let word = self.0.iter().rposition(|&bits| bits != 0)?;
        Some(word * 64 + 63 - self.0[word].leading_zeros() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longer_runs_are_in_later_bins() {
        let bins: std::vec::Vec<usize> = (1..=LONGEST).map(bin_of).collect();
        assert!(bins.windows(2).all(|pair| pair[0] == pair[1] || pair[0] + 1 == pair[1]));
        assert_eq!((bins[0], bins[LONGEST as usize - 1]), (1, BINS - 1));
    }

    #[test]
    fn occupied_bins_are_found_in_order() {
        let mut occupied = Occupied([0; BINS.div_ceil(64)]);
        assert_eq!((occupied.next(0), occupied.last()), (None, None));
        for bin in [3, 63, 64, BINS - 1] {
            occupied.insert(bin);
        }
        assert_eq!([0, 4, 64, 65].map(|bin| occupied.next(bin)), [Some(3), Some(63), Some(64), Some(BINS - 1)]);
        occupied.remove(BINS - 1);
        assert_eq!(occupied.last(), Some(64));
        assert_eq!(occupied.next(BINS + 63), None);
    }
}
