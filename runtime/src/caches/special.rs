//! Special blocks: those that are of no size class. Their granule's entry in the page map is class 0, so their free is
//! the slow path, and here it is found out of line what they are: by the span that they lie in, or by the segment.

use super::debug::Debug;
use super::heap::Heap;
use super::object_cache::ObjectCache;
use crate::central::CacheRef;
use crate::misuse::{self, Found};
use crate::page_heap::PAGE;
use crate::upcalls::From;

/// What a special block is.
#[derive(Clone, Copy, Debug)]
pub enum Special {
    /// An object of a cache that watches its users.
    Watched(&'static ObjectCache, &'static Debug),
    /// An object of another cache that somebody made.
    Object(CacheRef),
    /// A large block, or none at all.
    Large,
}

impl Heap {
    /// What lies at an address that is of no size class.
    pub fn special_at(&self, block: *mut u8) -> Special {
        let Some(cache) = self.central().cache_at(block) else { return Special::Large };
        match ObjectCache::watching(cache) {
            Some((cache, debug)) => Special::Watched(cache, debug),
            None => Special::Object(cache),
        }
    }

    /// Bytes that the owner of a block may use, whatever it is; 0: there is none.
    pub fn usable_bytes(&self, block: *mut u8) -> usize {
        match self.special_at(block) {
            Special::Watched(cache, debug) => cache.watched_bytes(debug, block, 0),
            Special::Object(cache) => cache.object_bytes(),
            Special::Large => self.page_heap().large_pages(block).map_or(0, |pages| pages * PAGE),
        }
    }

    /// Frees a block, whatever it is.
    ///
    /// # Safety
    /// It is the caller's to give up.
    pub unsafe fn free_any(&self, block: *mut u8) {
        // SAFETY: passed on.
        unsafe {
            match self.class_at(block) {
                0 => self.free_special(block, 0),
                class => self.cpu.put(self.class(class), block),
            }
        }
    }

    /// Frees a block that is of no size class. `from` is the caller's address.
    ///
    /// # Safety
    /// It is the caller's to give up, if it is one.
    pub unsafe fn free_special(&self, block: *mut u8, from: usize) {
        // SAFETY: passed on.
        unsafe {
            match self.special_at(block) {
                Special::Watched(cache, debug) => cache.put_watched(debug, block, from),
                Special::Object(cache) => self.cpu.put(cache, block),
                Special::Large => self.free_large_of_any(block),
            }
        }
    }

    /// Takes a large block back, whoever is charged for it.
    ///
    /// # Safety
    /// It is the caller's to give up, if it is one.
    pub unsafe fn free_large_of_any(&self, block: *mut u8) {
        self.demand_large(block);
        // SAFETY: passed on.
        unsafe {
            if self.may_be_large_of_group() {
                (crate::UPCALLS.forget_large)(block);
            }
            self.free_large(block);
        }
    }

    /// Takes a large block back.
    ///
    /// # Safety
    /// One begins there, and it is the caller's to give up.
    pub unsafe fn free_large(&self, start: *mut u8) {
        self.cpu.visit_own(From::Release);
        let pages = self.page_heap().large_pages(start).unwrap_or(0);
        self.count_large(-1, -(pages as isize));
        // SAFETY: passed on.
        unsafe { self.page_heap().free(start) };
    }

    /// Ends the program if no large block begins at an address.
    pub fn demand_large(&self, block: *mut u8) {
        let heap = self.page_heap();
        if heap.large_pages(block).is_none() {
            misuse::die(if heap.holds(block) { Found::Interior } else { Found::Foreign }, block);
        }
    }
}
