//! The heap: the state of all tiers, at the base of the process's region. Zeroes are valid and give no object.
//!
//! The region is one reservation of address space for everything else; `layout` draws it. The first allocation makes
//! it. It touches the header, one slot's area, one page of the map, and the metadata in use. The first segment lies
//! between guard pages, as all objects do. A limit of address space counts all of it. Heaps up to 32 MiB never use huge
//! pages: a 2-MiB page is waste and a slow start for a program that needs 100 KiB. Later segments follow the system's
//! setting.
//!
//! The *class table* finds the cache that serves a size. The fast path looks a size up there, and takes an object of
//! that class. If another kind of cache serves the class, its entries are zero, which names an empty magazine. So the
//! allocation reaches the slow path, which finds the cache. A class with its own cache pays nothing for that.

use crate::central::size_class::{self, CLASSES, LARGEST_MIDDLE, SMALL, STEP, STEPS};
use crate::central::{CacheRef, CacheState, Central, ChunkHead, Shape};
use crate::cpu_cache::CpuCaches;
use crate::layout::{self, AREAS_END, HEADER, HeaderWord, Region};
use crate::observe::LockReport;
use crate::page_heap::guarded::{self, GUARD, Place};
use crate::page_heap::memblock;
use crate::page_heap::{PAGE, PageHeap, PageMap, Segment};
use crate::percpu::{self, Area, Preparation};
use core::cell::Cell;
use core::mem::offset_of;
use core::ptr::null_mut;
use machine::sync::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use machine::{process, root, slot, vm};

/// How the process became shared by threads; see `sharing`.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Sharing {
    pub(super) upgraded: AtomicBool,
    /// The process in which a thread upgrades; 0: none.
    pub(super) upgrading: AtomicU32,
    pub(super) upgraded_at_ns: AtomicU64,
}

impl Sharing {
    /// When the process was upgraded, in nanoseconds of the machine's clock; none in solo mode.
    pub(crate) fn upgraded_at_ns(&self) -> Option<u64> {
        self.upgraded.load(Ordering::Relaxed).then(|| self.upgraded_at_ns.load(Ordering::Relaxed))
    }
}

/// The page map's words for hardened objects begin here. As words of size classes they would name magazines of ids that
/// a hardened heap does not use, which are always full. So the fast paths leave such objects to the slow ones.
pub(super) const HARDENED: usize = 2 * (SMALL - 1);
const _: () = assert!(HARDENED + SMALL <= u8::MAX as usize + 1);

/// Blocks of middle sizes that a process may have before it gets classes for them. Most programs stay below, and pay
/// for no pages of those classes.
const FEW_MIDDLE: u32 = 64;

/// The heap. Its region is the chunk of the size classes.
#[derive(Debug)]
#[repr(C)]
pub struct Heap {
    head: ChunkHead,
    /// Not by name: see [`HeaderWord`].
    _above: [AtomicU64; layout::WORDS_ABOVE_BYTES / 8],
    pub(super) classes: ClassTable,
    pub(crate) sharing: Sharing,
    pub(super) cold: Cold,
    pub(crate) cpu: CpuCaches,
}

#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Cold {
    /// Debug and hardened caches, by the small class that they serve.
    pub watching: [AtomicPtr<CacheState>; SMALL],
    /// Whether threads may be inside groups, whose caches serve their allocations.
    pub has_groups: AtomicBool,
    pub has_tags: AtomicBool,
    pub checks_at_exit: AtomicBool,
    /// Blocks of middle sizes that were given as large blocks.
    pub middle_blocks: AtomicU32,
    /// Of a hardened heap: mixed into tails and random choices; 0: the heap is not hardened.
    pub secret: AtomicU64,
}

const _: () = assert!(size_of::<Heap>() <= layout::TIERS_END && offset_of!(Heap, _above) == layout::WORDS_ABOVE);

/// The process's heap, or the stand-in before it exists.
#[inline(always)]
pub(crate) fn heap() -> &'static Heap {
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
        &mut self, (map, entries): (*mut u8, usize), extent: (*mut u8, *mut u8), segment: (*mut u8, usize),
    ) -> bool {
        self.head.begin_shapes((1..SMALL).map(|class| Shape::of(size_class::size(class))));
        self.classes.begin();
        self.cpu.depot.central.page_heap.map.begin(entries);
        self.cpu.depot.central.begin();
        self.page_heap().metadata.begin(extent.0, extent.1);
        self.cpu.depot.central.page_heap.begin(map, segment) && self.page_heap().begin_locks()
    }

    #[inline]
    pub(crate) fn central(&self) -> &Central {
        &self.cpu.depot.central
    }

    #[inline]
    pub(crate) fn page_heap(&self) -> &PageHeap {
        &self.central().page_heap
    }

    #[inline]
    pub(crate) fn locks(&self) -> &LockReport {
        self.page_heap().locks()
    }

    #[inline(always)]
    fn region(&self) -> Region {
        // SAFETY: a heap lies only at a region's base.
        unsafe { Region::at((&raw const *self).cast_mut().cast()) }
    }

    #[inline]
    pub(crate) fn class(&self, class: usize) -> CacheRef {
        CacheRef::new(self.region(), class)
    }

    // ---- the fast path ----

    /// An object of at least `bytes`, at most [`size_class::LARGEST`]; null if the slot's allocation magazine is empty.
    #[inline(always)]
    pub(crate) fn take(&self, bytes: usize) -> *mut u8 {
        debug_assert!(bytes <= size_class::LARGEST);
        // SAFETY: each slot has an area, and even words belong to allocation magazines.
        unsafe { slot::pop(self.region().base(), self.classes.index_for(bytes)) }
    }

    /// Frees an object to the slot's free magazine. False: the magazine is full, or the object is not ours.
    /// Safety: the caller owns the object, and gives it up if the answer is true.
    #[inline(always)]
    pub(crate) unsafe fn put(&self, object: *mut u8) -> bool {
        // SAFETY: each slot has an area; class 0's free magazine is always full.
        unsafe { slot::push(self.region().base(), self.class_word(object), object) }
    }

    /// The page map's word for an address: twice the class of the objects there, or [`HARDENED`] and it; 0: none.
    #[inline(always)]
    pub(crate) fn class_word(&self, address: *mut u8) -> usize {
        // SAFETY: the map is the region's.
        unsafe { self.page_heap().map.class_word(self.region().at_offset(AREAS_END), address as usize) }
    }

    /// The class of the objects at an address; 0: none, or hardened ones.
    #[inline]
    pub(crate) fn class_at(&self, address: *mut u8) -> usize {
        let word = self.class_word(address);
        if word >= HARDENED && self.is_hardened() { 0 } else { word / 2 }
    }

    // ---- middle classes ----

    /// The middle class for a request above [`size_class::LARGEST`], once there are such classes.
    #[inline]
    pub(crate) fn middle_class(&self, bytes: usize) -> Option<CacheRef> {
        let class = (bytes <= LARGEST_MIDDLE).then(|| self.class(size_class::class_for(bytes)))?;
        class.exists().then_some(class)
    }

    /// Counts a block that a middle class might have given. A program with many of them gets these classes, for ever.
    /// Their objects take whole granules, which a limit on address space would count.
    pub(crate) fn note_middle(&self, bytes: usize) {
        let count = &self.cold.middle_blocks;
        if bytes > LARGEST_MIDDLE || count.load(Ordering::Relaxed) >= FEW_MIDDLE || self.is_hardened() {
            return;
        }
        // Relaxed: a number on its own. Threads that reach it at the same time store the same shapes.
        if count.fetch_add(1, Ordering::Relaxed) + 1 >= FEW_MIDDLE && !process::limits_address_space() {
            self.begin_middle();
        }
    }

    pub(crate) fn has_middle(&self) -> bool {
        self.class(SMALL).exists()
    }

    /// Begins the middle classes.
    pub(crate) fn begin_middle(&self) {
        (SMALL..CLASSES).for_each(|class| self.class(class).set_shape(Shape::of_middle(size_class::size(class))));
    }

    // ---- large blocks ----

    /// Counts large blocks that were given (positive) or taken back (negative), and their pages.
    pub(crate) fn count_large(&self, blocks: isize, pages: isize) {
        self.central().tally().count_large(blocks, pages * PAGE as isize);
    }
}

/// The state of a module above the tiers, which is never unmapped. None before its first use.
pub(crate) fn known_at<T>(place: &HeaderWord<AtomicPtr<T>>) -> Option<&'static T> {
    // Acquire pairs with the release in `made_at`: a thread that finds the state finds it complete.
    // SAFETY: null, or stored there, and never unmapped.
    unsafe { place.get()?.load(Ordering::Acquire).as_ref() }
}

/// [`known_at`], made of zeroes at its first use. None: no memory.
pub(crate) fn made_at<T>(place: &HeaderWord<AtomicPtr<T>>) -> Option<&'static T> {
    known_at(place).or_else(|| {
        let made = heap().page_heap().metadata.cut(size_of::<T>(), align_of::<T>())?;
        // A thread that loses the race has cut some address space in vain.
        let _ = place.get()?.compare_exchange(null_mut(), made.cast(), Ordering::AcqRel, Ordering::Relaxed);
        known_at(place)
    })
}

// ---- the class table ----

/// An entry. Core's atomic, not the machine's: it orders nothing, and each allocation reads one.
type ClassWord = core::sync::atomic::AtomicU8;

/// Twice the class for each step of sizes. Zero before the heap begins, and if another kind of cache serves the class.
#[derive(Debug)]
#[repr(transparent)]
pub(super) struct ClassTable([ClassWord; STEPS]);

impl ClassTable {
    pub(super) fn begin(&self) {
        for (step, word) in self.0.iter().enumerate() {
            word.store(size_class::class_for(step * STEP) as u8 * 2, Ordering::Relaxed);
        }
    }

    #[inline(always)]
    pub(super) fn index_for(&self, bytes: usize) -> usize {
        // SAFETY: the table has an entry for each step up to LARGEST.
        unsafe { self.0.get_unchecked(bytes.div_ceil(STEP)) }.load(Ordering::Relaxed).into()
    }

    pub(super) fn forget(&self, class: usize) {
        let steps = (0..STEPS).filter(|step| size_class::class_for(step * STEP) == class);
        steps.for_each(|step| self.0[step].store(0, Ordering::Relaxed));
    }

    pub(super) fn forget_all(&self) {
        self.0.iter().for_each(|word| word.store(0, Ordering::Relaxed));
    }
}

// ---- the region ----

const UNIT: usize = 4 << 20;
const FIRST_SEGMENT: usize = UNIT;
/// Segment table, the first segment's descriptions, and magazines.
const FIRST_METADATA: usize = (512 << 10) - GUARD;
/// The region lies at random within so many bytes below the place that the kernel would choose.
const RANGE: usize = 64 << 30;
/// Bytes between the first segment's start and the base.
const BEFORE_BASE: usize = FIRST_SEGMENT + GUARD + FIRST_METADATA;

const _: () = assert!(Segment::description_bytes(FIRST_SEGMENT) + (256 << 10) <= FIRST_METADATA);

/// Reads what the heap needs to know of the machine and of this thread, when the library starts. A filter may forbid
/// these system calls at the program's first allocation. `begin` makes only system calls about mappings.
pub(crate) fn prepare() {
    percpu::enter();
    slot::initialise();
    slot::current();
    process::memory();
    process::prefers_huge_pages();
    process::limits_address_space();
}

/// Makes the region and installs it, unless another thread or a handler was faster. False: no address space.
#[cold]
pub(super) fn begin() -> bool {
    slot::initialise();
    let usual = Cell::new(0);
    let fits = |bytes| {
        let probe = vm::reserve(null_mut(), bytes, vm::Access::None);
        usual.set(probe.map_or(usual.get(), |probe| probe as usize + bytes));
        // SAFETY: the mapping is fresh and ours.
        probe.is_some_and(|probe| unsafe { vm::release(probe, bytes) })
    };
    let entries = PageMap::entries_for(process::memory(), fits);
    let bytes = BEFORE_BASE + AREAS_END + PageMap::bytes(entries);
    let place = Place { near: usual.get(), range: RANGE, turn: 0 };
    let Some(segment) = reserve_region(place, bytes, PageMap::window_of(entries)) else { return root::is_installed() };
    let metadata = segment.wrapping_add(FIRST_SEGMENT + GUARD);
    let base = segment.wrapping_add(BEFORE_BASE);
    // The last magazine's worth of metadata stays unused, because a draining slot word names it.
    let extent = (metadata, base.wrapping_sub(2 * slot::ARRAY));
    // SAFETY: the mapping is fresh and ours until it is installed; zeroes are a valid heap.
    unsafe {
        // While the region is one mapping.
        vm::advise_huge(segment, bytes, vm::Huge::Avoid);
        let map = base.wrapping_add(AREAS_END);
        let is_made = vm::protect(segment, FIRST_SEGMENT, vm::Access::ReadWrite)
            && vm::protect(metadata, bytes - FIRST_SEGMENT - GUARD, vm::Access::ReadWrite)
            && (*base.cast::<Heap>()).begin((map, entries), extent, (segment, FIRST_SEGMENT));
        if is_made {
            crate::cpu_cache::begin_in(Region::at(base));
        }
        if !(is_made && root::install(base)) {
            guarded::release(segment, bytes);
        }
    }
    root::is_installed()
}

/// Reserves the region where the first segment leaves the page map's entries of null and of the first blocks alone.
fn reserve_region(at: Place, bytes: usize, window: usize) -> Option<*mut u8> {
    let place = guarded::reserve(at, bytes, UNIT)?;
    let meets = |taken: *mut u8| (taken as usize).wrapping_sub(place as usize) % window < FIRST_SEGMENT;
    if !meets(null_mut()) && !memblock::granules().any(meets) {
        return Some(place);
    }
    let other = reserve_region(Place { turn: at.turn + 1, ..at }, bytes, window);
    // SAFETY: the mapping is fresh and ours.
    unsafe { guarded::release(place, bytes) };
    other
}

/// Names the region's mapping, at the start and before the second thread; later the process may forbid the call.
pub(crate) fn name() {
    if root::is_installed() {
        let start = root::base().wrapping_sub(BEFORE_BASE);
        // SAFETY: `begin` mapped it, and it is ours.
        let _ = unsafe { vm::name(start, BEFORE_BASE + AREAS_END, c"commensal") };
    }
}

/// Prepares per-CPU memory for so many CPUs, like eager allocators: touches all lines of the slots' areas, and the
/// counters' rows. False: out of memory.
#[cold]
pub(crate) fn lay_out(cpus: usize) -> bool {
    const LINE: usize = 64;
    let region = Region::of_process();
    for line in 0..cpus * slot::AREA / LINE {
        let word: *mut AtomicU64 = region.at_offset(HEADER + line * LINE).cast();
        // A write, to make the page resident. Compilers turn other operations without effect into loads.
        // SAFETY: the areas are committed; the word keeps its value.
        let _ = unsafe { (*word).compare_exchange(0, 0, Ordering::Relaxed, Ordering::Relaxed) };
    }
    Area::new(cpus, Preparation::ForAll { cpus }).is_some_and(|area| heap().central().tally().share_in(area))
}
