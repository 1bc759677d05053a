//! The slab: objects of a cache, cut from spans, on their way through arrays.
//!
//! Taking and giving back an object is one restartable operation on the calling thread's slot ([`General::take`],
//! [`General::put`]). A slot has two arrays for each cache, one to take from and one to give to, so that a free does not feed the
//! very next allocation through memory; they change places when one is empty and the other filled. Beyond them lies the
//! slot's shard of the depot, then the other slots' shards, then the spans.
//!
//! The general size classes are caches, whose panel is the runtime's own region (`panel`).
//!
//! Runs at the same time: any number of threads; see `array`, `shard` and `page::span` for what guards what.

mod account;
mod array;
mod aside;
mod batch;
mod cache;
mod charged;
mod check;
pub mod class;
pub mod control;
mod debug;
mod drain;
mod end;
mod fit;
mod keep;
mod label;
mod lingering;
pub mod misuse;
#[doc(hidden)]
pub mod object_cache;
mod panel;
mod panels;
mod put;
mod reclaim;
pub mod region;
mod registry;
mod reserve;
mod shape;
mod shard;
pub mod sharing;
mod spans;
mod spare;
pub mod survey;
mod table;
mod take;
mod tally;
mod tests;
mod tune;
mod uncut;

pub use account::Account;
pub use aside::{Aside, AsideWord};
pub use batch::{Batch, Batches};
pub use cache::{Box, Cache, Constructed, Kind, OutOfMemory, Values};
pub use charged::Charged;
pub use debug::Options;
pub use end::Alive;
pub use keep::{FURTHEST, Kept, Services, Watch, coarse_of, coarse_time};
pub use label::CacheName;
pub use lingering::Readers;
pub(crate) use object_cache::is_plain;
pub use object_cache::{COARSEST, Hook, LARGEST_OBJECT, NAME_BYTES, ObjectCache, Refused, Wanted};
pub use panel::Handle;
pub use shard::SHARD_RANK;
pub use table::Name;
pub use tally::Tally;
pub use tune::Untunable;

use crate::observe::LockReport;
use crate::page::{PAGE, Zone};
use crate::percpu::Region;
use core::marker::PhantomData;
use machine::slot;
use machine::sync::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use panel::{Head, take_index};
use registry::Registry;
use shape::Shape;
use sharing::Sharing;

/// The slot whose shards serve threads that have no slot.
const NO_SLOT: u32 = slot::MAX as u32 - 1;

/// An entry of the table of classes. Core's atomic, not the machine's: no order hangs on it, and every allocation reads one.
type ClassWord = core::sync::atomic::AtomicU8;

/// The one value that all state hangs from, at the region's base. Zeroes are a valid one that can give nothing.
#[derive(Debug)]
#[repr(C)]
pub struct Slab {
    /// The region is the panel of the general classes.
    head: Head,
    // What slow paths read, and hardly anybody writes.
    registry: AtomicPtr<Registry>,
    /// What the process did to be shared by threads.
    pub sharing: Sharing,
    /// Arrays of objects that signal handlers could not give back; see `put`.
    deferred: AtomicUsize,
    /// Where an operator asks; null: nobody does.
    control: AtomicPtr<control::Page>,
    /// The coarse time from which on somebody should see to the statistics page; 0: nobody has to.
    pub survey_at: survey::At,
    /// Whether the shards of [`NO_SLOT`] were ever used.
    serves_slotless: AtomicBool,
    /// Twice the class for each step of sizes; zero, which is no class, until the slab has begun, and where a cache that watches takes the
    /// class's place.
    class_words: [ClassWord; class::STEPS],
    /// Where pages come from.
    pub zone: Zone,
}

/// The general caches together, and what concerns all caches.
#[derive(Clone, Copy)]
pub struct General<'a> {
    region: Region,
    slab: &'a Slab,
}

impl Slab {
    /// Offset of the table from steps of sizes to take words, for the machine's entry points.
    pub const CLASS_TABLE: usize = core::mem::offset_of!(Slab, class_words);
    /// Offset of the page map's mask.
    pub const MAP_MASK: usize = core::mem::offset_of!(Slab, zone) + Zone::MAP_MASK;

    /// Begins to serve. The zone has begun; nobody else runs.
    fn begin(&mut self) {
        let this = &raw mut *self;
        self.head.begin(this, 0);
        self.head.begin_shapes((1..class::CLASSES).map(|class| Shape::of(class::size(class))));
        for (step, word) in self.class_words.iter_mut().enumerate() {
            *word.get_mut() = take_index(class::class_for(step * class::STEP)) as u8;
        }
    }

    /// Makes the registry. False: there is no memory for it.
    fn begin_registry(&self) -> bool {
        let place = self.zone.metadata.cut(size_of::<Registry>(), align_of::<Registry>());
        if let Some(place) = place.map(|place| place.cast::<Registry>()) {
            // SAFETY: the place is ours, for ever, and zero.
            unsafe { Registry::begin(place) };
            // Relaxed: published with the region.
            self.registry.store(place, Ordering::Relaxed);
        }
        place.is_some()
    }

    /// What concerns all caches.
    #[inline]
    pub fn registry(&self) -> &Registry {
        // SAFETY: made before the slab was published.
        unsafe { &*self.registry.load(Ordering::Relaxed) }
    }

    /// What waiting for locks cost.
    #[inline]
    pub fn locks(&self) -> &LockReport {
        &self.registry().locks.0
    }

    /// The region that it lies at the start of.
    fn region(&self) -> Region {
        // SAFETY: the slab lies there only.
        unsafe { Region::at((&raw const *self).cast_mut().cast()) }
    }
}

impl<'a> General<'a> {
    /// The slab that lies at the start of `region`.
    ///
    /// # Safety
    /// The region is a runtime's, or the zeroed stand-in, of which only [`Self::take`] and [`Self::put`] may be used.
    #[inline(always)]
    pub unsafe fn of(region: Region) -> Self {
        // SAFETY: the region begins with a slab; zeroes are a valid one.
        let slab = unsafe { &*region.base().cast::<Slab>() };
        General { region, slab }
    }

    /// The slab's shared state.
    #[inline]
    pub fn state(self) -> &'a Slab {
        self.slab
    }

    /// The cache of a class.
    #[inline]
    pub fn class(self, class: usize) -> Handle<'a> {
        Handle { panel: self.region, place: class, lives: PhantomData }
    }

    /// Has a cache serve a class in its place, for all who allocate from now on. Who has just looked the class up takes one more of its own.
    fn give_class_to(self, class: usize, cache: &'static ObjectCache) {
        self.slab.registry().rare.0.watch(class, cache);
        let steps = (0..class::STEPS).filter(|step| class::class_for(step * class::STEP) == class);
        steps.for_each(|step| self.slab.class_words[step].store(0, Ordering::Relaxed));
    }

    /// From now on all allocations of general classes come to slow paths, which find out whose they are: for ever.
    pub fn redirect_all(self) {
        self.slab.class_words.iter().for_each(|word| word.store(0, Ordering::Relaxed));
        self.slab.registry().rare.0.redirected.store(true, Ordering::Release);
    }

    /// Whether that was done.
    #[inline]
    pub fn is_all_redirected(self) -> bool {
        // Acquire pairs with the release: who finds it done finds all of it done.
        self.slab.registry().rare.0.redirected.load(Ordering::Acquire)
    }

    /// What the fast path would give, where all allocations come to slow paths; for who is in no group.
    #[inline]
    pub fn take_redirected(self, class: usize) -> Option<*mut u8> {
        if self.watched_class(class).is_some() {
            return None;
        }
        self.class(class).take().or_else(|| self.class(class).take_changed())
    }

    /// Takes a large block back.
    ///
    /// # Safety
    /// One begins there, and it is the caller's to give up.
    pub unsafe fn free_large(self, start: *mut u8) {
        self.look_after_own(false);
        let pages = self.slab.zone.large_pages(start).unwrap_or(0);
        self.slab.registry().tally.count_large(-1, -((pages * PAGE) as isize));
        // SAFETY: passed on.
        unsafe { self.slab.zone.free(self.slab.locks(), start) };
    }

    /// Whether allocations of a size come to slow paths first.
    #[inline]
    pub fn is_redirected(self, bytes: usize) -> bool {
        self.index_for(bytes) == 0
    }

    /// The cache that watches in the place of a class, if one does.
    fn watched_class(self, class: usize) -> Option<&'static ObjectCache> {
        let step = class::size(class).div_ceil(class::STEP);
        let is_served = self.slab.class_words[step].load(Ordering::Relaxed) != 0;
        if is_served { None } else { self.slab.registry().rare.0.watched(class) }
    }

    /// The cache that gives objects of so many bytes, at most [`class::LARGEST`].
    #[inline]
    pub fn for_bytes(self, bytes: usize) -> Handle<'a> {
        self.class(self.index_for(bytes) / 2)
    }

    /// The cache that has the span where an address lies, if one has.
    pub fn cache_at(self, address: *mut u8) -> Option<Handle<'a>> {
        match self.class_at(address) {
            // SAFETY: descriptions of spans are never freed.
            0 => self.slab.zone.span_of(address).map(|span| self.cache(unsafe { (*span).cache })),
            class => Some(self.class(class)),
        }
    }

    fn page_map(self) -> *mut u8 {
        self.region.at_offset(crate::percpu::AREAS_END)
    }

    // ---- the fast path ----

    /// An object of at least `bytes`, at most [`class::LARGEST`]; null if the slot's array is empty.
    #[inline(always)]
    pub fn take(self, bytes: usize) -> *mut u8 {
        debug_assert!(bytes <= class::LARGEST);
        // SAFETY: every slot has an area, and even words are take words.
        unsafe { slot::pop(self.region.base(), self.index_for(bytes)) }
    }

    #[inline(always)]
    fn index_for(self, bytes: usize) -> usize {
        // SAFETY: the table has an entry for each step up to LARGEST.
        unsafe { self.slab.class_words.get_unchecked(bytes.div_ceil(class::STEP)) }.load(Ordering::Relaxed).into()
    }

    /// Gives an object back to the slot's array; false if it is full, or if the object is none of ours.
    ///
    /// # Safety
    /// The caller owns the object, and gives it up if the answer is true.
    #[inline(always)]
    pub unsafe fn put(self, object: *mut u8) -> bool {
        // SAFETY: every slot has an area; the word behind a take word is its give word; class 0's is always full.
        unsafe {
            let index = self.slab.zone.map.class_word(self.page_map(), object as usize);
            slot::push(self.region.base(), index, object)
        }
    }

    /// The class of the objects where an address lies; 0 if there are none.
    #[inline]
    pub fn class_at(self, address: *mut u8) -> usize {
        // SAFETY: the map is the region's.
        unsafe { self.slab.zone.map.class_word(self.page_map(), address as usize) / 2 }
    }
}
