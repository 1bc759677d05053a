//! Guarded blocks: one allocation in many lies alone in a page between closed pages, as in GWP-ASan.
//!
//! `cpu_cache::Gap` says which allocations are guarded, so the fast paths know nothing of it. The granules of the pool
//! have class 0 in the page map. So the free of a guarded block takes the slow path, which compares its address with
//! the pool's.
//!
//! A block lies at the end of its page or at its start, at random. An access that leaves the page faults, and so does
//! each one after the free. A write that stays in the page is found at the free. [`report`] tells both.
//!
//! A guarded block costs some 8 µs. So there is at most one in as many nanoseconds as the mean gap has bytes. With a
//! gap of 1 MiB, that is some 1 % of a program's time at most.
//!
//! Runs at the same time: any thread, in signal handlers and in fork children too. Nothing here takes a lock.

mod place;
mod pool;
mod report;

use crate::caches::calls::calls;
use crate::caches::heap::Heap;
use crate::cpu_cache::{Means, means};
use crate::misuse::Call;
use crate::page_heap::PAGE;
use crate::page_heap::guarded::mixed;
use core::ptr::with_exposed_provenance_mut;
use machine::sync::Ordering;
use machine::thread::{After, Fault};
use machine::{process, thread};
pub(super) use place::Place;
use place::State;
pub(crate) use pool::skipped;
use pool::{Pool, pool};

/// Alignment of each block.
const LEAST_ALIGNMENT: usize = 16;

/// The place that an address may be a block of.
#[inline]
pub(super) fn place_of(address: *mut u8) -> Option<&'static Place> {
    pool()?.place_of(address.addr())
}

impl Heap {
    /// Begins to guard blocks, with a mean of so many bytes between two of them. False: no memory, or other caches
    /// serve the size classes.
    pub(crate) fn begin_guard(&self, mean: u64) -> bool {
        let pool = if self.is_hardened() { None } else { pool().or_else(|| Self::make_pool(mean)) };
        if let Some(pool) = pool {
            pool.least_ns.store(mean, Ordering::Relaxed);
            self.cpu.begin_sampling(Means { guard: mean, ..means() });
        }
        pool.is_some()
    }

    /// Makes the pool, and looks at faults from now on.
    #[cold]
    fn make_pool(mean: u64) -> Option<&'static Pool> {
        let pool = if pool::make() { pool()? } else { return None };
        pool.least_ns.store(mean, Ordering::Relaxed);
        thread::on_fault(&(report::look as fn(Fault) -> After));
        Some(pool)
    }

    /// A guarded block. None: no place is free, or the block is too large.
    #[cold]
    #[inline(never)]
    pub(crate) fn take_guarded(&self, bytes: usize, alignment: usize, from: usize) -> Option<*mut u8> {
        if bytes > PAGE || alignment > PAGE {
            return None;
        }
        // If the settings asked for guarded blocks, this may be the first one.
        let pool = pool().or_else(|| Self::make_pool(means().guard))?;
        let (place, page) = pool.take()?;
        let number = pool.number();
        let is_at_end = mixed(process::randomness().wrapping_add(number)).is_multiple_of(2);
        let alignment = alignment.max(LEAST_ALIGNMENT);
        // A block without bytes has an address of its own, in its page.
        let last = (PAGE - bytes.max(1)) / alignment * alignment;
        let start = if is_at_end { page.wrapping_add(last) } else { page };
        calls(Some(&pool.rows), from, &mut |calls| place.begin(start, bytes, calls));
        place.change(State::InUse, number);
        Some(start)
    }

    /// Frees a guarded block, or reports that none in use begins there.
    #[cold]
    #[inline(never)]
    pub(super) fn free_guarded(&self, place: &Place, block: *mut u8, from: usize) {
        let Some(pool) = pool() else { return };
        if place.start() != block || !place.claim(State::InUse) {
            return report::report_free(pool, place, block, Call::Free, from);
        }
        if place.tag.load(Ordering::Relaxed) != 0 {
            // SAFETY: the block is the caller's, who gives it up.
            unsafe { (crate::UPCALLS.forget_large)(block) };
        }
        calls(Some(&pool.rows), from, &mut |calls| place.end(calls));
        if let Some(at) = place.damage() {
            report::report_damage(pool, place, at, from);
        }
        pool.give(place);
    }

    /// Bytes of a guarded block that is to be moved. None: none in use begins there, which was reported.
    pub(crate) fn guarded_bytes(&self, place: &Place, block: *mut u8) -> Option<usize> {
        let bytes = place.bytes_at(block);
        if let (None, Some(pool)) = (bytes, pool()) {
            report::report_free(pool, place, block, Call::Realloc, 0);
        }
        bytes
    }

    /// The tag of a large or guarded block; null if it has none.
    pub(crate) fn tag(&self, block: *mut u8) -> *mut u8 {
        match place_of(block) {
            Some(place) => with_exposed_provenance_mut(place.tag.load(Ordering::Relaxed)),
            None => self.page_heap().tag(block),
        }
    }

    /// Ties a tag to a large or guarded block. False: the block cannot have one.
    ///
    /// # Safety
    /// The caller owns the block that begins there.
    pub(crate) unsafe fn set_tag(&self, block: *mut u8, tag: *mut u8) -> bool {
        match place_of(block) {
            Some(place) => {
                place.tag.store(tag.expose_provenance(), Ordering::Relaxed);
                true
            }
            // SAFETY: passed on.
            None => unsafe { self.page_heap().set_tag(block, tag) },
        }
    }
}
