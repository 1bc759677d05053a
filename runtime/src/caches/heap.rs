//! The heap: the state of all tiers, at the base of the process's region. Zeroes are valid and give no object.

use super::class_table::{ClassTable, Kinds};
use crate::central::{CacheRef, CacheState, Central, ChunkHead, Shape, size_class};
use crate::cpu_cache::CpuCaches;
use crate::layout::{self, AREAS_END, Region};
use crate::observe::LockReport;
use crate::page_heap::{PAGE, PageHeap};
use core::mem::offset_of;
use machine::sync::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use machine::{root, slot};

pub(super) const OWN: usize = 3;

/// How the process became shared by threads; see `sharing`.
#[derive(Debug)]
#[repr(C)]
pub struct Sharing {
    pub(super) upgraded: AtomicBool,
    /// The process in which a thread upgrades; 0: none.
    pub(super) upgrading: AtomicU32,
    pub(super) upgraded_at_ns: AtomicU64,
}

impl Sharing {
    /// When the process was upgraded, in nanoseconds of the machine's clock; none in solo mode.
    pub fn upgraded_at_ns(&self) -> Option<u64> {
        self.upgraded.load(Ordering::Relaxed).then(|| self.upgraded_at_ns.load(Ordering::Relaxed))
    }
}

/// The heap. Its region is the chunk of the size classes.
#[derive(Debug)]
#[repr(C)]
pub struct Heap {
    head: ChunkHead,
    pub(super) classes: ClassTable,
    /// How the process became shared by threads.
    pub sharing: Sharing,
    pub(super) cold: Cold,
    /// The tiers below.
    pub cpu: CpuCaches,
}

#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Cold {
    /// The kinds of caches that may serve a class instead of its own.
    pub kinds: Kinds,
    /// The runtime's own caches.
    pub own: [AtomicPtr<CacheState>; OWN],
    /// Whether debug caches are checked at exit.
    pub checks_at_exit: AtomicBool,
}

const _: () = assert!(size_of::<Heap>() <= layout::TIERS_END);

/// The process's heap, or the stand-in before it exists.
#[inline(always)]
pub fn heap() -> &'static Heap {
    // SAFETY: the base is that of a runtime or the stand-in; both begin with a heap.
    unsafe { &*root::base().cast::<Heap>() }
}

impl Heap {
    /// Offset of the class table, for the machine's entry points.
    pub const CLASS_TABLE: usize = offset_of!(Heap, classes);
    /// Offset of the page map's mask.
    pub const MAP_MASK: usize = offset_of!(Heap, cpu)
        + offset_of!(CpuCaches, depot)
        + offset_of!(crate::depot::Depot, central)
        + offset_of!(Central, page_heap)
        + PageHeap::MAP_MASK;

    /// Initialises the tiers while no other thread runs; see [`PageHeap::begin`]. False: no memory.
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

    /// The costs of waiting for locks.
    #[inline]
    pub fn locks(&self) -> &LockReport {
        self.page_heap().locks()
    }

    #[inline(always)]
    fn region(&self) -> Region {
        // SAFETY: a heap lies only at a region's base.
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
        // SAFETY: each slot has an area, and even words belong to allocation magazines.
        unsafe { slot::pop(self.region().base(), self.classes.index_for(bytes)) }
    }

    /// Frees an object to the slot's free magazine. False: the magazine is full, or the object is not ours.
    ///
    /// # Safety
    /// The caller owns the object, and gives it up if the answer is true.
    #[inline(always)]
    pub unsafe fn put(&self, object: *mut u8) -> bool {
        // SAFETY: each slot has an area; class 0's free magazine is always full.
        unsafe { slot::push(self.region().base(), self.class_word(object), object) }
    }

    /// The page map's word for an address: twice the class of the objects there; 0: none.
    #[inline(always)]
    pub fn class_word(&self, address: *mut u8) -> usize {
        // SAFETY: the map is the region's.
        unsafe { self.page_heap().map.class_word(self.region().at_offset(AREAS_END), address as usize) }
    }

    /// The class of the objects at an address; 0: none.
    #[inline]
    pub fn class_at(&self, address: *mut u8) -> usize {
        self.class_word(address) / 2
    }

    // ---- large blocks ----

    /// Counts large blocks that were given (positive) or taken back (negative), and their pages.
    pub fn count_large(&self, blocks: isize, pages: isize) {
        self.central().tally().count_large(blocks, pages * PAGE as isize);
    }
}
