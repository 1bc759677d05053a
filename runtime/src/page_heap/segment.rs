//! Segments: contiguous address space that runs are cut from, and the description of each of its pages.
//!
//! ```text
//!   user memory      | large runs ──▶ …       never used yet       … ◀── spans |
//!                    start     low                              high            end
//!   descriptions     Page × pages   Span × granules   bits × granules   dirty × pages/64
//! ```
//!
//! Large runs are cut from the low end, so that the latest one can grow in place; spans from the high end, which keeps
//! them aligned without holes. Freed runs are in bins. A page is *dirty* from its first use until the kernel takes it
//! back, so clean memory need not be zeroed. A block with its own mapping (`Owner::Block`) is a segment without pages.

use super::guarded::Mapping;
use super::span::{BITS_BYTES, HintPtr, HintU8, HintUsize, Span};
use super::{GRANULE, GRANULE_PAGES, PAGE, UNIT};
use core::cell::Cell;
use core::ops::Range;
use core::ptr::null_mut;
use machine::sync::Ordering::{Acquire, Relaxed, Release};

/// Pages of a huge page. Segments begin at multiples of two huge pages.
const HUGE_PAGES: u32 = 512;
const _: () = assert!(UNIT.is_multiple_of(HUGE_PAGES as usize * PAGE));

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Owner {
    /// None: the description waits for reuse.
    Nobody = 0,
    /// The page heap cuts it into runs.
    PageHeap = 1,
    /// It is one large block.
    Block = 2,
}

/// How a purge treats huge pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Huge {
    /// It returns only whole ones, where the kernel may have made them.
    KeepWhole,
    BreakUp,
}

/// The kind of a page. Only both ends of a free run, and the first page of a run in use, have one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Inside a run, or never used.
    Inside,
    /// First or last page of a free run in a bin.
    Free,
    /// First page of a large block.
    Large,
    /// First page of a tagged block: the links of the description are the tag.
    Tagged,
    /// First page of a span.
    Slab,
    /// First page of a run whose pages are on their way back to the kernel, or of a guard.
    Purged,
}

#[derive(Debug)]
#[repr(C)]
pub struct Page {
    pub kind: Kind,
    /// Whether a large block began here and was freed, and no run in use has begun here since.
    pub was_freed: bool,
    /// Pages of the run that begins or ends here.
    pub pages: u32,
    /// The neighbours in the bin.
    pub next: u32,
    pub previous: u32,
}

/// The description of a segment, never freed, under the page heap's lock. Threads without the lock read its extent and
/// owner, for any address that they free.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Segment {
    start: HintPtr<u8>,
    /// Pages described.
    pages: Cell<u32>,
    /// Its number, the upper part of its pages' handles.
    pub number: Cell<u32>,
    /// First page never used, from below.
    pub low: Cell<u32>,
    /// First page ever used, from above.
    pub high: Cell<u32>,
    owner: HintU8,
    /// Whether the kernel may have put huge pages there by itself.
    pub may_be_huge: Cell<bool>,
    memory: Cell<*mut u8>,
    memory_bytes: Cell<usize>,
    descriptions: Cell<*mut Page>,
    spans: HintPtr<Span>,
    bits: Cell<*mut u8>,
    dirty: Cell<*mut u64>,
    bytes: HintUsize,
    /// Next description that waits for reuse.
    pub next: Cell<Option<&'static Segment>>,
    /// Bytes of a block's mapping. The rest, behind the block, is without access.
    pub mapped: Cell<usize>,
    /// The tag of a block.
    pub tag: Cell<*mut u8>,
    /// Bytes that a block's user asked for, if that was noted.
    pub length: Cell<Option<usize>>,
}

impl Segment {
    /// Bytes of descriptions for a segment of `bytes`.
    pub const fn description_bytes(bytes: usize) -> usize {
        let (pages, granules) = (bytes / PAGE, bytes / GRANULE);
        granules * (size_of::<Span>() + BITS_BYTES) + pages * size_of::<Page>() + pages.div_ceil(64) * 8
    }

    /// Describes an unused segment, in memory of an earlier use or from `cut`. False: no memory.
    pub fn begin(&self, start: *mut u8, bytes: usize, cut: impl FnOnce(usize) -> Option<*mut u8>) -> bool {
        debug_assert!((start as usize).is_multiple_of(UNIT) && bytes.is_multiple_of(GRANULE));
        let needed = Self::description_bytes(bytes);
        if self.memory_bytes.get() < needed {
            let Some(memory) = cut(needed) else { return false };
            self.memory.set(memory);
            self.memory_bytes.set(needed);
        } else {
            // SAFETY: the memory is ours, and that large.
            unsafe { self.memory.get().write_bytes(0, needed) };
        }
        let (pages, granules) = (bytes / PAGE, bytes / GRANULE);
        self.start.store(start, Relaxed);
        self.set_bytes(bytes);
        self.pages.set(pages as u32);
        self.low.set(0);
        self.high.set(pages as u32);
        self.spans.store(self.memory.get().cast(), Relaxed);
        self.descriptions.set(self.memory.get().wrapping_add(granules * size_of::<Span>()).cast());
        self.dirty.set(self.descriptions.get().wrapping_add(pages).cast());
        self.bits.set(self.dirty.get().wrapping_add(pages.div_ceil(64)).cast());
        self.set_owner(Owner::PageHeap);
        true
    }

    /// Describes a block with a mapping of its own.
    pub fn begin_block(&self, mapping: Mapping, bytes: usize) {
        self.start.store(mapping.start, Relaxed);
        self.pages.set(0);
        self.mapped.set(mapping.bytes);
        self.set_bytes(bytes);
        self.tag.set(null_mut());
        self.length.set(None);
        self.set_owner(Owner::Block);
    }

    /// Bytes of a block's mapping that the block does not use.
    pub fn excess(&self) -> u64 {
        (self.mapped.get() - self.bytes()) as u64
    }

    pub fn owner(&self) -> Owner {
        // Acquire pairs with the release below: a segment that has an owner is described.
        match self.owner.load(Acquire) {
            1 => Owner::PageHeap,
            2 => Owner::Block,
            _ => Owner::Nobody,
        }
    }

    pub fn set_owner(&self, owner: Owner) {
        self.owner.store(owner as u8, Release);
    }

    /// Bytes of the block, or of the page heap's mapping.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    pub fn set_bytes(&self, bytes: usize) {
        self.bytes.store(bytes, Relaxed);
    }

    pub fn start(&self) -> *mut u8 {
        self.start.load(Relaxed)
    }

    /// Whether an address lies in it. Its last unit may extend beyond it.
    pub fn holds(&self, address: *mut u8) -> bool {
        (address as usize).wrapping_sub(self.start() as usize) < self.bytes()
    }

    /// The pages of a run that may go back to the kernel, and the unit in which they go: a page, or a huge page.
    pub fn purgeable(&self, run: &Range<u32>, huge: Huge) -> (Range<u32>, u32) {
        let unit = if huge == Huge::KeepWhole && self.may_be_huge.get() { HUGE_PAGES } else { 1 };
        (run.start.next_multiple_of(unit)..run.end / unit * unit, unit)
    }

    /// Addresses of the units that it lies in.
    pub fn units(&self) -> impl Iterator<Item = *mut u8> {
        (0..self.bytes().div_ceil(UNIT)).map(|unit| self.start().wrapping_add(unit * UNIT))
    }

    pub fn pages(&self) -> u32 {
        self.pages.get()
    }

    pub fn address(&self, page: u32) -> *mut u8 {
        self.start().wrapping_add(page as usize * PAGE)
    }

    pub fn page_of(&self, address: *mut u8) -> u32 {
        ((address as usize - self.start() as usize) / PAGE) as u32
    }

    /// The description of a page. The caller holds the page heap's lock, or owns the run that the page begins.
    #[expect(
        clippy::mut_from_ref,
        reason = "descriptions lie outside of the segment, and the lock or the run's owner guards them"
    )]
    pub fn page(&self, page: u32) -> &mut Page {
        debug_assert!(page < self.pages());
        // SAFETY: there are `pages` descriptions, and the caller is the only one to use this one.
        unsafe { &mut *self.descriptions.get().add(page as usize) }
    }

    /// The description of the span that holds an address. If none does, that of another or former span.
    pub fn span_of(&self, address: *mut u8) -> &'static Span {
        let granule = (address as usize - self.start() as usize) / GRANULE;
        // SAFETY: each granule has a description, which does not change its head while the span has objects.
        let span = unsafe { &*self.spans.load(Relaxed).add(granule) };
        let head = if span.granules() == 0 { span.next() } else { null_mut() };
        // SAFETY: descriptions are never freed.
        unsafe { head.as_ref() }.unwrap_or(span)
    }

    /// The descriptions of spans, one for each granule; none for a block.
    pub fn granules(&self) -> &'static [Span] {
        if self.owner() != Owner::PageHeap {
            return &[];
        }
        // SAFETY: each granule has a description, which is never freed.
        unsafe { core::slice::from_raw_parts(self.spans.load(Relaxed), self.bytes() / GRANULE) }
    }

    /// Describes the run that begins at `page` as a span.
    pub fn make_span(&self, page: u32, granules: u8) -> &'static Span {
        let first = (page / GRANULE_PAGES) as usize;
        debug_assert!(page.is_multiple_of(GRANULE_PAGES));
        // SAFETY: each granule has a description, and only the run's owner changes these.
        unsafe {
            let head = self.spans.load(Relaxed).add(first);
            (*head).describe(self.address(page), self.bits.get().add(first * BITS_BYTES).cast(), granules);
            for inside in 1..granules as usize {
                (*head.add(inside)).describe_inside(head);
            }
            &*head
        }
    }

    /// Marks pages as dirty, and returns how many were.
    pub fn mark_dirty(&self, page: u32, pages: u32) -> u32 {
        self.change_dirty(page, pages, |word, mask| *word |= mask)
    }

    /// Marks pages as clean, and returns how many were dirty.
    pub fn mark_clean(&self, page: u32, pages: u32) -> u32 {
        self.change_dirty(page, pages, |word, mask| *word &= !mask)
    }

    pub fn count_dirty(&self, page: u32, pages: u32) -> u32 {
        self.change_dirty(page, pages, |_, _| {})
    }

    fn change_dirty(&self, page: u32, pages: u32, change: impl Fn(&mut u64, u64)) -> u32 {
        let (mut at, end, mut were_dirty) = (page, page + pages, 0);
        while at < end {
            let stop = (at / 64 * 64 + 64).min(end);
            let mask = (u64::MAX >> (64 - (stop - at))) << (at % 64);
            // SAFETY: one bit for each page; the page heap's lock is held.
            let word = unsafe { &mut *self.dirty.get().add(at as usize / 64) };
            were_dirty += (*word & mask).count_ones();
            change(word, mask);
            at = stop;
        }
        were_dirty
    }
}
