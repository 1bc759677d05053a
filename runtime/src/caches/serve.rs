//! Finds the cache that serves an allocation or a free, on the slow path.
//!
//! Blocks of no size class are *special*. Their granules have class 0 in the page map, so their free takes the slow
//! path. It finds their kind by their span or segment. A batch has objects that wait for a grace period.

use super::debug::Debug;
use super::guard::{self, Place};
use super::harden::TAIL;
use super::heap::Heap;
use super::object_cache::ObjectCache;
use crate::central::size_class::{self, LARGEST, class_for_aligned};
use crate::central::{CacheRef, MOST_POINTERS};
use crate::depot::{Batch, View};
use crate::misuse::{self, Call, Found};
use crate::page_heap::memblock;
use crate::page_heap::{Misuse, PAGE, Span};
use crate::upcalls::From;
use machine::sync::Ordering;
use machine::{here, slot};

#[derive(Clone, Copy, Debug)]
pub(crate) enum Special {
    /// One of the first blocks of the process, or among them.
    First,
    Watched(&'static ObjectCache, &'static Debug),
    Hardened(&'static Span),
    /// A guarded block, or an address beside one.
    Guarded(&'static Place),
    /// An object of another cache that a program made.
    Object(CacheRef),
    /// A large block, or no block.
    Large,
}

/// The cache that serves a size class.
enum Server {
    Watching(&'static ObjectCache, &'static Debug),
    Hardened(CacheRef),
    Class(CacheRef),
}

/// The depot that gets a batch's objects.
#[derive(Clone, Copy, Debug)]
pub struct Home {
    /// Its slot.
    pub slot: u32,
    /// Bytes of the class that the depot keeps at least.
    pub kept_bytes: usize,
}

impl Heap {
    // ---- allocations ----

    /// The size class that serves an allocation of at most [`size_class::LARGEST`] bytes. None: another kind does, a
    /// cache of the thread's group or a debug cache.
    #[inline]
    pub(crate) fn server_of(&self, bytes: usize) -> Option<CacheRef> {
        match self.classes.index_for(bytes) {
            0 => None,
            index => Some(self.class(index / 2)),
        }
    }

    /// Makes a debug cache serve a class. A thread that has just looked up the class takes one more of its own.
    pub(super) fn watch_class(&self, class: usize, cache: &'static ObjectCache) {
        self.serve_class_by(class, cache);
        self.classes.forget(class);
    }

    fn serve_class_by(&self, class: usize, cache: &'static ObjectCache) {
        // Release pairs with the acquire in `in_place_of`.
        self.cold.watching[class].store((&raw const cache.state).cast_mut(), Ordering::Release);
    }

    /// Makes hardened caches serve all classes.
    pub(super) fn serve_classes_by(&self, caches: impl Iterator<Item = (usize, &'static ObjectCache)>) {
        caches.for_each(|(class, cache)| self.serve_class_by(class, cache));
        self.classes.forget_all();
    }

    /// The object cache that serves a class, for threads in no group.
    #[inline]
    pub(super) fn in_place_of(&self, class: usize) -> Option<&'static ObjectCache> {
        // SAFETY: object caches are never unmapped.
        unsafe { self.cold.watching[class].load(Ordering::Acquire).as_ref() }.map(ObjectCache::of_state)
    }

    /// The cache whose magazines serve a request of a size class, for threads in no group.
    pub(crate) fn cache_of(&self, bytes: usize, alignment: usize) -> Option<CacheRef> {
        let class = self.class_of(bytes, alignment)?;
        Some(self.in_place_of(class).map_or_else(|| self.class(class), ObjectCache::cache))
    }

    fn server(&self, class: usize) -> Server {
        match self.in_place_of(class).map(|cache| (cache, cache.debug())) {
            Some((cache, Some(debug))) => Server::Watching(cache, debug),
            Some((cache, None)) if cache.is_hardened() => Server::Hardened(cache.cache()),
            _ => Server::Class(self.class(class)),
        }
    }

    /// Sends all allocations of size classes to slow paths for ever, because groups may serve them.
    pub(crate) fn begin_groups(&self) {
        self.classes.forget_all();
        self.cold.has_groups.store(true, Ordering::Release);
    }

    #[inline]
    pub(crate) fn has_groups(&self) -> bool {
        // Acquire pairs with the release in `begin_groups`: a thread that sees it finds all of it done.
        self.cold.has_groups.load(Ordering::Acquire)
    }

    /// The class of a request, for threads in no group. None: a large block serves it.
    #[inline]
    fn class_of(&self, bytes: usize, alignment: usize) -> Option<usize> {
        class_for_aligned(self.with_tail(bytes), alignment)
    }

    /// A hardened block of the slot's magazine, in no group.
    #[inline(always)]
    pub(crate) fn take_hardened_at_hand(&self, bytes: usize) -> Option<*mut u8> {
        let bytes_with_tail = Some(bytes + TAIL).filter(|&bytes| bytes <= LARGEST)?;
        let class = size_class::class_for(bytes_with_tail);
        let cache = self.in_place_of(class).filter(|cache| cache.is_hardened())?;
        self.take_hardened(cache.cache(), size_class::size(class), bytes)
    }

    /// The fast path or an exchange of magazines, in no group, where another kind may serve the class.
    #[inline]
    pub(crate) fn take_at_hand(&self, bytes: usize, alignment: usize) -> Option<*mut u8> {
        match self.server(self.class_of(bytes, alignment)?) {
            Server::Watching(..) => None,
            Server::Hardened(cache) => self.take_hardened(cache, cache.object_bytes(), bytes),
            Server::Class(cache) => self.cpu.take(cache).or_else(|| self.cpu.swap(cache)),
        }
    }

    /// An object of a class or of the cache in its place, for a thread in no group. `from` is the caller's address.
    pub(crate) fn refill(&self, bytes: usize, alignment: usize, from: usize) -> Option<*mut u8> {
        match self.server(self.class_of(bytes, alignment)?) {
            Server::Watching(cache, debug) => cache.take_watched(debug, bytes, from),
            Server::Hardened(cache) => self.refill_hardened(cache, bytes),
            Server::Class(cache) => self.cpu.refill(cache),
        }
    }

    /// Notes that a large block has a tag: each one freed from now on may belong to a group, or be sampled.
    pub(crate) fn note_tags(&self) {
        // Relaxed: a thread that frees a block got it from its allocator, after this store.
        self.cold.has_tags.store(true, Ordering::Relaxed);
    }

    // ---- special blocks ----

    pub(crate) fn special_at(&self, block: *mut u8) -> Special {
        if memblock::holds(block) {
            return Special::First;
        }
        if let Some(place) = guard::place_of(block) {
            return Special::Guarded(place);
        }
        let Some(span) = self.page_heap().span_of(block) else { return Special::Large };
        let cache = self.central().cache(span.cache());
        let Some(object_cache) = ObjectCache::of(cache) else { return Special::Object(cache) };
        match object_cache.debug() {
            Some(debug) => Special::Watched(object_cache, debug),
            None if object_cache.is_hardened() => Special::Hardened(span),
            None => Special::Object(cache),
        }
    }

    /// Usable bytes of a special block; 0: there is none.
    pub(crate) fn usable_bytes(&self, block: *mut u8) -> usize {
        match self.special_at(block) {
            Special::Watched(cache, debug) => cache.watched_bytes(debug, block, 0).unwrap_or(0),
            Special::Hardened(span) => self.hardened_bytes(span, block).unwrap_or(0),
            Special::Guarded(place) => place.bytes_at(block).unwrap_or(0),
            Special::First | Special::Object(_) | Special::Large => self.bytes_of_special(block),
        }
    }

    /// Frees a block of any kind.
    /// Safety: the caller owns it and gives it up.
    pub(crate) unsafe fn free_any(&self, block: *mut u8) {
        // SAFETY: passed on.
        unsafe {
            match self.class_at(block) {
                0 => self.free_special(block, 0),
                class => self.cpu.put(self.class(class), block),
            }
        }
    }

    /// Frees a block of no size class. `from` is the caller's address.
    /// Safety: if it is a block, the caller owns it and gives it up.
    pub(crate) unsafe fn free_special(&self, block: *mut u8, from: usize) {
        // SAFETY: passed on.
        unsafe {
            match self.special_at(block) {
                Special::Watched(cache, debug) => cache.put_watched(debug, block, from),
                Special::Hardened(_) => _ = self.free_hardened(block),
                Special::Guarded(place) => self.free_guarded(place, block, from),
                Special::First => Self::free_first(block),
                Special::Object(cache) => self.cpu.put(cache, block),
                Special::Large => self.free_large_of_any(block),
            }
        }
    }

    /// Frees one of the first blocks of the process.
    #[cold]
    #[unsafe(link_section = ".text.first")]
    pub(crate) fn free_first(block: *mut u8) {
        if let Err(wrong) = memblock::free(block) {
            let found = if wrong == Misuse::DoubleFree { Found::DoubleFree(None) } else { Found::Interior(None) };
            misuse::report(found, Call::Free, block);
        }
    }

    /// Frees a large block, charged to a group or not.
    /// Safety: if it is a block, the caller owns it and gives it up.
    #[inline(never)]
    pub(crate) unsafe fn free_large_of_any(&self, block: *mut u8) {
        let Some(pages) = self.demand_large(block, Call::Free) else { return };
        self.unseal_large(block);
        // SAFETY: passed on.
        unsafe {
            if self.cold.has_tags.load(Ordering::Relaxed) {
                (crate::UPCALLS.forget_large)(block);
            }
            self.free_large(block, pages);
        }
    }

    /// Frees a large block.
    /// Safety: one of so many pages begins there, and the caller owns it and gives it up.
    pub(crate) unsafe fn free_large(&self, start: *mut u8, pages: usize) {
        self.cpu.visit_own(From::Release);
        self.count_large(-1, -(pages as isize));
        // SAFETY: passed on.
        unsafe { self.page_heap().free(start) };
    }

    /// Pages of the large block that begins at an address. If none does, reports that.
    pub(crate) fn demand_large(&self, block: *mut u8, call: Call) -> Option<usize> {
        let heap = self.page_heap();
        let pages = heap.large_pages(block);
        if pages.is_none() {
            misuse::report(heap.found_at(block), call, block);
        }
        pages
    }

    // ---- batches ----

    /// An empty batch for at most `most` objects of a class; class 0: of no class. None: no memory.
    pub(crate) fn begin_batch(&self, class: usize, most: usize) -> Option<Batch> {
        let (cache, depot) = (self.class(class.max(1)), &self.cpu.depot);
        let capacity = if class == 0 { MOST_POINTERS } else { cache.shape().most() };
        let magazine = depot.find_empty(&depot.lock(cache, depot.slot_or_none(slot::current()), here!()))?;
        Some(Batch(magazine.sized(capacity.min(most).max(1))))
    }

    pub(crate) fn batch_bytes(&self, batch: View<'_>) -> usize {
        let mut objects = batch.objects();
        let Some(first) = objects.next() else { return 0 };
        match self.class_at(first) {
            0 => self.bytes_of_special(first) + objects.map(|object| self.bytes_of_special(object)).sum::<usize>(),
            class => size_class::size(class) * batch.len(),
        }
    }

    pub(crate) fn bytes_of_special(&self, object: *mut u8) -> usize {
        if memblock::holds(object) {
            return memblock::bytes_of(object);
        }
        if let Some(place) = guard::place_of(object) {
            return place.bytes_at(object).unwrap_or(0);
        }
        self.central().cache_at(object).map_or_else(
            || {
                let noted = self.page_heap().length(object).map(|(bytes, _)| bytes);
                noted.or_else(|| Some(self.page_heap().large_pages(object)? * PAGE)).unwrap_or(0)
            },
            |cache| cache.object_bytes(),
        )
    }

    /// Frees a batch's objects, to the depot of `home`, if given and the thread has a slot.
    ///
    /// # Safety
    /// The caller owns the objects and gives them up.
    pub unsafe fn free_batch(&self, batch: Batch, home: Option<Home>) {
        let (depot, mut magazine) = (&self.cpu.depot, batch.0);
        let class = magazine.view().objects().next().map_or(0, |first| self.class_at(first));
        let (cache, current) = (self.class(class.max(1)), slot::current());
        let anywhere = || Home { slot: depot.slot_or_none(current), kept_bytes: 0 };
        let Home { slot, kept_bytes } = current.and(home).unwrap_or_else(anywhere);
        if class != 0 {
            return depot.push_keeping(cache, slot, magazine, kept_bytes);
        }
        while let Some(object) = magazine.pop() {
            // SAFETY: passed on.
            unsafe { self.free_any(object) };
        }
        depot.keep_empty(&depot.lock(cache, slot, here!()), magazine);
    }
}
