//! Special blocks: those of no size class. Their granules have class 0 in the page map, so their free takes the slow
//! path. It finds their kind by their span or segment.

use super::debug::Debug;
use super::heap::Heap;
use super::object_cache::ObjectCache;
use crate::central::CacheRef;
use crate::misuse::{self, Found};
use crate::page_heap::PAGE;
use crate::upcalls::From;

/// The kinds of special blocks.
#[derive(Clone, Copy, Debug)]
pub enum Special {
    /// An object of a debug cache.
    Watched(&'static ObjectCache, &'static Debug),
    /// An object of another cache that a program made.
    Object(CacheRef),
    /// A large block, or no block.
    Large,
}

impl Heap {
    /// The kind of block at an address of no size class.
    pub fn special_at(&self, block: *mut u8) -> Special {
        let Some(cache) = self.central().cache_at(block) else { return Special::Large };
        match ObjectCache::watching(cache) {
            Some((cache, debug)) => Special::Watched(cache, debug),
            None => Special::Object(cache),
        }
    }

    /// Usable bytes of a special block; 0: there is none.
    pub fn usable_bytes(&self, block: *mut u8) -> usize {
        match self.special_at(block) {
            Special::Watched(cache, debug) => cache.watched_bytes(debug, block, 0),
            Special::Object(cache) => cache.object_bytes(),
            Special::Large => self.page_heap().large_pages(block).map_or(0, |pages| pages * PAGE),
        }
    }

    /// Frees a block of any kind.
    ///
    /// # Safety
    /// The caller owns it and gives it up.
    pub unsafe fn free_any(&self, block: *mut u8) {
        // SAFETY: passed on.
        unsafe {
            match self.class_at(block) {
                0 => self.free_special(block, 0),
                class => self.cpu.put(self.class(class), block),
            }
        }
    }

    /// Frees a block of no size class. `from` is the caller's address.
    ///
    /// # Safety
    /// If it is a block, the caller owns it and gives it up.
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

    /// Frees a large block, charged to a group or not.
    ///
    /// # Safety
    /// If it is a block, the caller owns it and gives it up.
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

    /// Frees a large block.
    ///
    /// # Safety
    /// One begins there, and the caller owns it and gives it up.
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
