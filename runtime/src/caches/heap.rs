//! The heap: the one value that all of the tiers' state hangs from, at the base of the process's region. Zeroes are a
//! valid one that can give nothing.

use super::class_table::{ClassTable, Kinds};
use crate::central::{CacheRef, CacheState, Central, ChunkHead, Shape, size_class};
use crate::cpu_cache::CpuCaches;
use crate::layout::{self, AREAS_END, Region};
use crate::observe::LockReport;
use crate::page_heap::{PAGE, PageHeap};
use core::mem::offset_of;
use machine::sync::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use machine::{root, slot};

/// Caches of the runtime's own.
pub(super) const OWN: usize = 3;

/// What the process did to be shared by threads; see `sharing`.
#[derive(Debug)]
#[repr(C)]
pub struct Sharing {
    pub(super) upgraded: AtomicBool,
    /// The process in which a thread upgrades; 0: none did.
    pub(super) upgrading: AtomicU32,
    /// When, in nanoseconds of the machine's clock.
    pub(super) upgraded_at_ns: AtomicU64,
}

impl Sharing {
    /// When the process was upgraded, in nanoseconds of the machine's clock; none in solo mode.
    pub fn upgraded_at_ns(&self) -> Option<u64> {
        self.upgraded.load(Ordering::Relaxed).then(|| self.upgraded_at_ns.load(Ordering::Relaxed))
    }
}

/// The heap. The region is the chunk of the size classes.
#[derive(Debug)]
#[repr(C)]
pub struct Heap {
    head: ChunkHead,
    pub(super) classes: ClassTable,
    /// What the process did to be shared by threads.
    pub sharing: Sharing,
    pub(super) cold: Cold,
    /// The tiers below.
    pub cpu: CpuCaches,
}

/// What is used seldom.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Cold {
    /// The kinds of caches that serve classes in their places.
    pub kinds: Kinds,
    /// Caches of the runtime's own, which higher parts ask for.
    pub own: [AtomicPtr<CacheState>; OWN],
    /// Whether caches that watch are looked over at exit.
    pub checks_at_exit: AtomicBool,
}

const _: () = assert!(size_of::<Heap>() <= layout::TIERS_END);

/// The process's heap, or the stand-in before there is one.
#[inline(always)]
pub fn heap() -> &'static Heap {
    // SAFETY: the root's base is a runtime's or the stand-in; both begin with a heap.
    unsafe { &*root::base().cast::<Heap>() }
}

impl Heap {
    /// Offset of the table from steps of sizes to magazine words, for the machine's entry points.
    pub const CLASS_TABLE: usize = offset_of!(Heap, classes);
    /// Offset of the page map's mask.
    pub const MAP_MASK: usize = offset_of!(Heap, cpu)
        + offset_of!(CpuCaches, depot)
        + offset_of!(crate::depot::Depot, central)
        + offset_of!(Central, page_heap)
        + PageHeap::MAP_MASK;

    /// Begins the tiers, with a page map of so many entries, and the page heap's memory; see [`PageHeap::begin`].
    /// False: there is no memory. Nobody else runs.
    pub(super) fn begin(
        &mut self,
        (map, entries): (*mut u8, usize),
        extent: (*mut u8, *mut u8),
        segment: (*mut u8, usize),
    ) -> bool {
        self.head.begin_shapes((1..size_class::CLASSES).map(|class| Shape::of(size_class::size(class))));
        self.classes.begin();
        self.cpu.depot.central.page_heap.map.begin(entries);
        self.cpu.depot.central.begin();
        self.page_heap().metadata.begin(extent.0, extent.1);
        self.cpu.depot.central.page_heap.begin(map, segment) && self.page_heap().begin_locks()
    }

    /// The central tier.
    #[inline]
    pub fn central(&self) -> &Central {
        &self.cpu.depot.central
    }

    /// The page heap.
    #[inline]
    pub fn page_heap(&self) -> &PageHeap {
        &self.central().page_heap
    }

    /// What waiting for locks cost.
    #[inline]
    pub fn locks(&self) -> &LockReport {
        self.page_heap().locks()
    }

    #[inline(always)]
    fn region(&self) -> Region {
        // SAFETY: the heap lies at a region's base only.
        unsafe { Region::at((&raw const *self).cast_mut().cast()) }
    }

    /// The cache of a class.
    #[inline]
    pub fn class(&self, class: usize) -> CacheRef {
        CacheRef::new(self.region(), class)
    }

    // ---- the fast path ----

    /// An object of at least `bytes`, at most [`size_class::LARGEST`]; null if the slot's allocation magazine is empty.
    #[inline(always)]
    pub fn take(&self, bytes: usize) -> *mut u8 {
        debug_assert!(bytes <= size_class::LARGEST);
        // SAFETY: every slot has an area, and even words are those of allocation magazines.
        unsafe { slot::pop(self.region().base(), self.classes.index_for(bytes)) }
    }

    /// Gives an object back to the slot's free magazine; false if it is full, or if the object is none of ours.
    ///
    /// # Safety
    /// The caller owns the object, and gives it up if the answer is true.
    #[inline(always)]
    pub unsafe fn put(&self, object: *mut u8) -> bool {
        // SAFETY: every slot has an area; class 0's free magazine is always full.
        unsafe { slot::push(self.region().base(), self.class_word(object), object) }
    }

    /// What the page map says of an address: twice the class of the objects there; 0 if there are none.
    #[inline(always)]
    pub fn class_word(&self, address: *mut u8) -> usize {
        // SAFETY: the map is the region's.
        unsafe { self.page_heap().map.class_word(self.region().at_offset(AREAS_END), address as usize) }
    }

    /// The class of the objects where an address lies; 0 if there are none.
    #[inline]
    pub fn class_at(&self, address: *mut u8) -> usize {
        self.class_word(address) / 2
    }

    // ---- large blocks ----

    /// Counts large blocks that are given or taken back, and their pages.
    pub fn count_large(&self, blocks: isize, pages: isize) {
        self.central().tally().count_large(blocks, pages * PAGE as isize);
    }
}
