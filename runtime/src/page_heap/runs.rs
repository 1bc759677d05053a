//! The page heap: runs of pages, under one ranked lock.
//!
//! A run is taken from the bins of freed runs, else from a segment's pages never used, else from a new segment. A freed
//! run is joined with its free neighbours and put into a bin. Runs with dirty pages go in front, so that memory which
//! the process already has is used first. `purge` returns dirty pages to the kernel.
//!
//! Work under the lock is bounded: a search looks at few runs, joining at two neighbours, and one segment is added.
//!
//! **Fork.** A child may inherit the lock from a thread that does not exist there. The descriptions of runs in use
//! change by single stores, in an order that keeps them true at every moment: a run is in use from the store of its
//! first page's kind to the store that takes it back. So the child finds all free runs between them.
//!
//! Runs at the same time: any number of threads. A handler above the lock's holder uses [`Emergency`] and defers frees.

use super::emergency::Emergency;
use super::free_runs::FreeRuns;
use super::limit::Limits;
use super::map::PageMap;
use super::metadata::Metadata;
use super::segment::{Kind, Owner, Segment};
use super::span::Span;
use super::units::Units;
use super::{GRANULE, GRANULE_PAGES, MAX_SEGMENTS, MOST_AT_ONCE, PAGE, PAGE_HEAP_RANK, UNIT, guarded};
use crate::observe::{Events, LockReport};
use core::cell::UnsafeCell;
use core::ptr::null_mut;
use machine::sync::{Acquired, AtomicPtr, AtomicU32, AtomicU64, Lock, Ordering, Site, compiler_fence};
use machine::{here, process, vm};

/// Requests above this many pages (64 MiB) get a mapping of their own.
pub(super) const BLOCK_PAGES: usize = (64 << 20) / PAGE;
/// If the heap cannot grow by a segment, a run of this many pages (1 MiB) or more may get a mapping of its own length.
const WORTH_A_MAPPING: usize = (1 << 20) / PAGE;
/// Fewest runs between two warnings that the heap is about to grow.
const RUNS_BETWEEN_GROWTH: u64 = 64;

/// A run that a signal handler freed.
#[derive(Debug)]
#[repr(C)]
struct FreedRun {
    next: *mut FreedRun,
}

/// A run that was handed out.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    pub start: *mut u8,
    /// Whether it is known to be all zero.
    pub is_zero: bool,
}

/// Counts of the page heap, in pages if nothing else is said.
#[derive(Debug, Default)]
#[repr(C)]
pub struct PageCounts {
    /// In runs in use, including blocks with a mapping of their own.
    pub in_use: Events,
    /// The highest value of `in_use`.
    pub peak: Events,
    /// Dirty, in free runs.
    pub free_dirty: Events,
    /// In segments.
    pub reserved: Events,
    pub allocations: Events,
    /// Pages given back to the kernel.
    pub purged: Events,
    /// Clean pages cut from freed runs: the kernel got them back, and the program needed them again.
    pub refilled: Events,
    /// Bytes of blocks' mappings that the blocks do not use.
    pub excess: Events,
}

#[derive(Debug)]
#[repr(C, align(64))]
pub struct PageHeap {
    // Read by many threads and seldom written, because free reads the page map. So the lock begins a line.
    pub map: PageMap,
    pub(super) map_start: *mut u8,
    locks: AtomicPtr<LockReport>,
    /// Descriptions of segments by number, from 1, and the highest number.
    segments: AtomicPtr<AtomicPtr<Segment>>,
    pub(super) segment_count: AtomicU32,
    /// The process's generation if idle pages are returned in the background; otherwise another one's.
    pub(super) background: AtomicU32,
    /// Whether the kernel uses huge pages without advice. Read once, because a program may forbid itself to open files.
    pub(super) prefers_huge: bool,
    /// Runs that signal handlers freed, linked through their first words.
    deferred: AtomicPtr<FreedRun>,
    /// Runs handed out at the last warning that the heap is about to grow.
    growth_told_at: AtomicU64,
    lock: Lock<PAGE_HEAP_RANK>,
    /// The fewest dirty pages in free runs since the last look.
    pub(super) least_dirty: AtomicU64,
    pub(super) emergency: Emergency,
    /// The memory of descriptions.
    pub metadata: Metadata,
    pub counts: PageCounts,
    pub limits: Limits,
    pub(super) units: Units,
    pub(super) state: UnsafeCell<FreeRuns>,
}

const _: () = assert!(core::mem::offset_of!(PageHeap, lock).is_multiple_of(64));

// SAFETY: `state` is used under the lock only; the rest is atomic, or constant once the page heap has begun.
unsafe impl Sync for PageHeap {}

impl PageHeap {
    pub const MAP_MASK: usize = core::mem::offset_of!(PageHeap, map) + PageMap::MASK;

    /// Begins with a page map at `map_start`, a first segment, and metadata that have begun. No other thread runs yet.
    pub fn begin(&mut self, map_start: *mut u8, segment: (*mut u8, usize)) -> bool {
        self.map_start = map_start;
        self.prefers_huge = process::prefers_huge_pages();
        self.units.begin();
        let Some(table) = self.metadata.cut(MAX_SEGMENTS * size_of::<AtomicPtr<Segment>>(), 64) else { return false };
        // SAFETY: no other thread runs yet.
        let state = unsafe { &mut *self.state.get() };
        state.segments = table.cast();
        self.segments.store(state.segments, Ordering::Relaxed);
        state.current = self.adopt_segment(state, segment.0, segment.1);
        state.current.is_some()
    }

    /// Makes the lock report, whose memory stays untouched until a thread waits for a lock. Called after
    /// [`Self::begin`], and after pieces that are written at once are cut. False: no memory.
    pub fn begin_locks(&self) -> bool {
        let made = self.metadata.cut(size_of::<LockReport>(), align_of::<LockReport>());
        // Relaxed: published with the region.
        made.inspect(|made| self.locks.store(made.cast(), Ordering::Relaxed)).is_some()
    }

    /// The cost of waiting for locks, of this tier and of those above.
    #[inline]
    pub fn locks(&self) -> &LockReport {
        // SAFETY: made before the region was published.
        unsafe { &*self.locks.load(Ordering::Relaxed) }
    }

    /// A large run of `pages`, aligned to `alignment` pages (a power of two).
    pub fn allocate(&self, pages: usize, alignment: usize) -> Option<Run> {
        if pages > BLOCK_PAGES || alignment > UNIT / PAGE {
            return self.allocate_block(pages, alignment);
        }
        self.within_limit(pages, || {
            match self.locked(here!(), |state| self.take_run(state, pages as u32, alignment as u32, Kind::Large)) {
                Some(None) if pages >= WORTH_A_MAPPING => self.make_block(pages, alignment),
                Some(run) => run,
                None if alignment == 1 => self.emergency.allocate(pages).map(|start| Run { start, is_zero: true }),
                None => None,
            }
        })
    }

    /// Whether the next run of `pages`, aligned to `alignment` pages, makes the heap grow; true once in several runs.
    pub fn is_about_to_grow(&self, pages: usize, alignment: usize) -> bool {
        let (runs, told_at) = (self.counts.allocations.get(), self.growth_told_at.load(Ordering::Relaxed));
        // Relaxed: a hint; of two threads at once, one is warned.
        runs.wrapping_sub(told_at) >= RUNS_BETWEEN_GROWTH
            && pages <= BLOCK_PAGES
            && self.locked(here!(), |state| state.must_grow(pages as u32, alignment as u32)) == Some(true)
            && self.growth_told_at.compare_exchange(told_at, runs, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    pub fn allocate_span(&self, granules: u8) -> Option<&'static Span> {
        let pages = granules as u32 * GRANULE_PAGES;
        let run = self.locked(here!(), |state| self.take_run(state, pages, GRANULE_PAGES, Kind::Slab))??;
        Some(self.make_span(run.start, granules))
    }

    /// A span of one granule and, while the heap need not grow, up to `more` linked ones, at most [`MOST_AT_ONCE`].
    pub fn allocate_spans(&self, more: u32) -> Option<&'static Span> {
        let mut starts = [null_mut(); MOST_AT_ONCE as usize];
        let more = &mut starts[..more.min(MOST_AT_ONCE) as usize];
        let take = |state: &mut FreeRuns| {
            let first = self.take_run(state, GRANULE_PAGES, GRANULE_PAGES, Kind::Slab)?;
            for start in more {
                if state.must_grow(GRANULE_PAGES, GRANULE_PAGES) {
                    break;
                }
                *start =
                    self.take_run(state, GRANULE_PAGES, GRANULE_PAGES, Kind::Slab).map_or(null_mut(), |run| run.start);
            }
            Some(first.start)
        };
        let first = self.make_span(self.locked(here!(), take)??, 1);
        let mut next = null_mut();
        for start in starts.into_iter().filter(|start| !start.is_null()) {
            let span = self.make_span(start, 1);
            span.set_next(next);
            next = span.as_ptr();
        }
        first.set_next(next);
        Some(first)
    }

    fn make_span(&self, start: *mut u8, granules: u8) -> &'static Span {
        let segment = self.segment(start);
        segment.make_span(segment.page_of(start), granules)
    }

    /// Takes linked spans without objects in use back, in one lock hold.
    ///
    /// # Safety
    /// The caller owns the spans, which are in no cache, and so is the page map's class for them.
    pub unsafe fn free_spans(&self, spans: *mut Span) {
        // SAFETY: the caller owns the spans. Their links change only when they are handed out again, under the lock.
        let all = || unsafe { Span::list(spans) };
        if self.locked(here!(), |state| all().for_each(|span| self.put_run(state, span.start()))).is_none() {
            all().for_each(|span| self.defer(span.start()));
        }
        self.give_excess_back();
    }

    /// Enters a span's class into the page map.
    ///
    /// # Safety
    /// The caller owns the span.
    pub unsafe fn enter_class(&self, span: &Span, class_word: u8) {
        // SAFETY: the granules' entries were committed with their segment.
        unsafe { self.map.set(self.map_start, span.start(), span.granules() as usize, class_word) };
    }

    /// Pages of the large block that begins at an address, if there is one.
    pub fn large_pages(&self, start: *mut u8) -> Option<usize> {
        let Some(segment) = self.find(start) else { return self.emergency.pages(start) };
        match segment.owner() {
            Owner::Block => (segment.start() == start).then_some(segment.bytes() / PAGE),
            Owner::PageHeap if (start as usize).is_multiple_of(PAGE) => {
                let page = segment.page(segment.page_of(start));
                matches!(page.kind, Kind::Large | Kind::Tagged).then_some(page.pages as usize)
            }
            _ => None,
        }
    }

    /// Whether the kernel may have put a huge page at an address of ours.
    pub fn may_be_huge(&self, address: *mut u8) -> bool {
        self.find(address).is_some_and(|segment| segment.may_be_huge.get())
    }

    /// The span that holds an address, if a cache has it.
    pub fn span_of(&self, address: *mut u8) -> Option<&'static Span> {
        let segment = self.find(address)?;
        if segment.owner() != Owner::PageHeap {
            return None;
        }
        // Granules outside of spans may still have their old descriptions.
        Some(segment.span_of(address)).filter(|span| span.cache() != 0 && span.covers(address))
    }

    /// Takes a run back.
    ///
    /// # Safety
    /// The caller owns the run that begins at `start`, and gives it up.
    pub unsafe fn free(&self, start: *mut u8) {
        let Some(segment) = self.find(start) else {
            // SAFETY: passed on.
            unsafe { self.emergency.free(start) };
            return;
        };
        if segment.owner() == Owner::Block {
            return self.free_block(start);
        }
        if self.locked(here!(), |state| self.put_run(state, start)).is_none() {
            self.defer(start);
        }
        self.give_excess_back();
    }

    /// Shows the spans of caches among `granules` granules from `from` on: 0, or the result of the last call. None:
    /// there are no more. Each span is as it is at some moment. No segment may be released meanwhile.
    pub fn walk_spans(&self, from: u64, granules: usize, show: impl FnMut(&'static Span, u32)) -> Option<u64> {
        let (number, granule) = ((from >> 32).max(1), from as u32 as usize);
        // Under the lock, because blocks become segments. A segment stays one until it is released.
        let granules_of = self.locked(here!(), |state| {
            let exists = number <= u64::from(self.segment_count.load(Ordering::Relaxed));
            exists.then(|| state.segment(number as u32).granules())
        });
        let Some(all) = granules_of else { return Some(from) };
        let (all, end) = (all?, granule + granules);
        show_spans(all.iter().take(end).skip(granule), show);
        Some(if end < all.len() { number << 32 | end as u64 } else { (number + 1) << 32 })
    }

    /// Shows every span of a cache, each as it is at some moment: exact only at rest.
    pub fn for_each_span(&self, mut show: impl FnMut(&'static Span, u32)) {
        // Acquire pairs with the release in `new_segment`.
        let count = self.segment_count.load(Ordering::Acquire) as usize;
        let table = self.segments.load(Ordering::Relaxed);
        for number in 1..=count {
            // SAFETY: the table only grows, and descriptions are never freed.
            let segment = unsafe { &*(*table.add(number)).load(Ordering::Relaxed) };
            show_spans(segment.granules().iter(), &mut show);
        }
    }

    /// Runs `work` under the lock. None in a signal handler that must not wait for it.
    pub(super) fn locked<R>(&self, site: Site, work: impl FnOnce(&mut FreeRuns) -> R) -> Option<R> {
        let acquired = self.lock.acquire(&self.locks().page_heap, site);
        if acquired == Acquired::WouldDeadlock {
            return None;
        }
        // SAFETY: this thread holds the lock.
        let state = unsafe { &mut *self.state.get() };
        if acquired == Acquired::Abandoned {
            self.rebuild(state);
        }
        if !self.deferred.load(Ordering::Relaxed).is_null() {
            self.put_deferred(state);
        }
        let result = work(state);
        // SAFETY: acquired above.
        unsafe { self.lock.release() };
        Some(result)
    }

    fn take_run(&self, state: &mut FreeRuns, pages: u32, alignment: u32, kind: Kind) -> Option<Run> {
        let freed = state.take_from_bins(pages, alignment);
        let clean = pages - freed.map_or(0, |(segment, page)| segment.count_dirty(page, pages));
        if !self.hold(clean.into()) {
            freed.inspect(|&(segment, page)| state.join_and_link(segment, page, pages));
            return None;
        }
        let found = freed.or_else(|| self.take_fresh(state, pages, alignment, kind)).or_else(|| {
            self.add_segment(state, pages, alignment)?;
            self.take_fresh(state, pages, alignment, kind)
        });
        let Some((segment, page)) = found else {
            self.limits.release(clean.into());
            return None;
        };
        let description = segment.page(page);
        // In this order, for a child that is forked in between; see the module's documentation.
        description.pages = pages;
        description.was_freed = false;
        compiler_fence(Ordering::Release);
        description.kind = kind;
        let was_dirty = self.use_pages(segment, page, pages, freed.is_some());
        self.count_taken(pages as u64);
        Some(Run { start: segment.address(page), is_zero: was_dirty == 0 })
    }

    /// A fresh run; a guard may come before a span.
    fn take_fresh(
        &self, state: &mut FreeRuns, pages: u32, alignment: u32, kind: Kind,
    ) -> Option<(&'static Segment, u32)> {
        if kind == Kind::Slab && state.guards > 0 {
            self.put_guard(state);
        }
        state.take_fresh(pages, alignment, kind)
    }

    /// Makes the next fresh granule a guard, at random one in sixteen. It stays for ever.
    #[cold]
    fn put_guard(&self, state: &mut FreeRuns) {
        const ONE_IN: u64 = 16;
        let next = state.current.map_or(0, |segment| segment.address(segment.high.get()) as u64);
        if !guarded::mixed(process::randomness() ^ next).is_multiple_of(ONE_IN) {
            return;
        }
        let Some((segment, page)) = state.take_fresh(GRANULE_PAGES, GRANULE_PAGES, Kind::Slab) else { return };
        let description = segment.page(page);
        description.pages = GRANULE_PAGES;
        compiler_fence(Ordering::Release);
        description.kind = Kind::Purged;
        self.use_pages(segment, page, GRANULE_PAGES, false);
        self.count_taken(u64::from(GRANULE_PAGES));
        // SAFETY: the run is ours.
        let is_protected = unsafe { vm::protect(segment.address(page), GRANULE, vm::Access::None) };
        // The kernel may have too many mappings.
        state.guards = if is_protected { state.guards - 1 } else { 0 };
    }

    /// From now on, guards lie between some spans. Each makes two mappings more; the kernel allows some 65,000.
    pub fn guard_spans(&self) {
        const MOST: u32 = 4096;
        self.locked(here!(), |state| state.guards = MOST);
    }

    /// Marks free or fresh pages as in use, and returns how many were dirty.
    pub(super) fn use_pages(&self, segment: &Segment, page: u32, pages: u32, was_freed: bool) -> u32 {
        let were_dirty = segment.mark_dirty(page, pages);
        self.fewer_dirty(u64::from(were_dirty));
        if was_freed && were_dirty < pages {
            self.counts.refilled.add(u64::from(pages - were_dirty));
        }
        were_dirty
    }

    /// Subtracts dirty pages from those of free runs.
    pub(super) fn fewer_dirty(&self, pages: u64) {
        self.counts.free_dirty.subtract(pages);
        self.least_dirty.fetch_min(self.counts.free_dirty.get(), Ordering::Relaxed);
    }

    pub(super) fn count_taken(&self, pages: u64) {
        self.counts.allocations.count();
        self.counts.in_use.add(pages);
        self.counts.peak.raise(self.counts.in_use.get());
    }

    pub(super) fn put_run(&self, state: &mut FreeRuns, start: *mut u8) {
        let segment = self.segment(start);
        let page = segment.page_of(start);
        let description = segment.page(page);
        let pages = description.pages;
        description.was_freed |= matches!(description.kind, Kind::Large | Kind::Tagged);
        self.counts.in_use.subtract(pages as u64);
        self.counts.free_dirty.add(segment.count_dirty(page, pages) as u64);
        state.join_and_link(segment, page, pages);
    }

    /// Our segment that holds an address, if any.
    pub(super) fn find(&self, address: *mut u8) -> Option<&'static Segment> {
        self.units.find(address).filter(|segment| segment.holds(address))
    }

    pub(super) fn segment(&self, start: *mut u8) -> &'static Segment {
        self.find(start).expect("a run of ours lies in a segment of ours")
    }

    /// Keeps a run that a signal handler frees inside the page heap, until a thread takes the lock.
    pub(super) fn defer(&self, start: *mut u8) {
        let mut head = self.deferred.load(Ordering::Relaxed);
        loop {
            // SAFETY: the run is free and at least a page.
            unsafe { start.cast::<FreedRun>().write(FreedRun { next: head }) };
            // Release pairs with the acquire in `put_deferred`: a thread that sees the run also sees its link.
            match self.deferred.compare_exchange_weak(head, start.cast(), Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(seen) => head = seen,
            }
        }
    }

    #[cold]
    fn put_deferred(&self, state: &mut FreeRuns) {
        let mut run = self.deferred.swap(null_mut(), Ordering::Acquire);
        // SAFETY: written by `defer`.
        while let Some(FreedRun { next }) = unsafe { run.as_ref() } {
            let (start, next) = (run.cast::<u8>(), *next);
            match self.segment(start).owner() {
                Owner::Block => self.give_block_back(state, start),
                _ => self.put_run(state, start),
            }
            run = next;
        }
    }
}

/// Shows spans with their caches. A cache's number is read once, because others may take the span out meanwhile.
fn show_spans(granules: impl Iterator<Item = &'static Span>, mut show: impl FnMut(&'static Span, u32)) {
    granules.for_each(|span| span.begins_in_cache().into_iter().for_each(|number| show(span, number)));
}
