//! Out-of-line metadata: memory that is cut once and never taken back. Its owner may return its pages.
//!
//! User memory holds no metadata, so a write beyond an object cannot reach it. Pieces are cut from extents of address
//! space with one atomic exchange; only a new extent needs a system call. The heap's peak bounds the total.
//!
//! Runs at the same time: any number of threads, also in signal handlers, because there is no lock.

use crate::observe::Events;
use machine::sync::{AtomicUsize, Ordering};
use machine::vm;

/// Bytes of an extent after the first, unless a larger piece is requested.
const EXTENT: usize = 1 << 20;
const ALIGNMENT: usize = 64;
/// `next` while an extent is being replaced: no piece fits behind it.
const CLOSED: usize = usize::MAX / 2;

/// Cuts pieces from the current extent.
#[derive(Debug)]
#[repr(C)]
pub struct Metadata {
    next: AtomicUsize,
    end: AtomicUsize,
    /// Bytes of address space in extents.
    pub reserved_bytes: Events,
}

impl Metadata {
    /// Begins with the zeroed extent `[start, end)`, before any other thread uses it.
    pub fn begin(&self, start: *mut u8, end: *mut u8) {
        self.reserved_bytes.add(end as u64 - start as u64);
        self.end.store(end as usize, Ordering::Relaxed);
        self.next.store(start as usize, Ordering::Relaxed);
    }

    /// Cuts `bytes` of zeroes, aligned to `alignment`, a power of two that is raised to 64.
    pub fn cut(&self, bytes: usize, alignment: usize) -> Option<*mut u8> {
        let alignment = alignment.max(ALIGNMENT);
        let bytes = bytes.next_multiple_of(ALIGNMENT);
        self.cut_from_extent(bytes, alignment).or_else(|| self.cut_from_new_extent(bytes, alignment))
    }

    fn cut_from_extent(&self, bytes: usize, alignment: usize) -> Option<*mut u8> {
        let mut next = self.next.load(Ordering::Acquire);
        loop {
            let start = next.next_multiple_of(alignment);
            // Relaxed: `end` belongs to the `next` that was published with it, or is older. An older `end` is smaller
            // or of another extent, and then the exchange below fails because `next` has changed too.
            if start + bytes > self.end.load(Ordering::Relaxed) || start == 0 {
                return None;
            }
            match self.next.compare_exchange_weak(next, start + bytes, Ordering::Acquire, Ordering::Acquire) {
                Ok(_) => return Some(start as *mut u8),
                Err(seen) => next = seen,
            }
        }
    }

    /// Cuts the piece from a new mapping, and offers the rest as the extent for later pieces.
    #[cold]
    fn cut_from_new_extent(&self, bytes: usize, alignment: usize) -> Option<*mut u8> {
        let size = (bytes + alignment).next_multiple_of(vm::PAGE);
        let wanted = size.max(EXTENT);
        let reserve = |size| vm::reserve(core::ptr::null_mut(), size, vm::Access::ReadWrite).map(|at| (at, size));
        let (extent, size) = reserve(wanted).or_else(|| reserve(size))?;
        // SAFETY: the mapping is fresh and ours.
        unsafe { vm::advise_huge(extent, size, vm::Huge::Avoid) };
        self.reserved_bytes.add(size as u64);
        let start = (extent as usize).next_multiple_of(alignment);
        self.offer_extent(start + bytes, extent as usize + size);
        Some(start as *mut u8)
    }

    /// Makes `[start, end)` the current extent if it has more room. Two threads may race: then one extent's rest is
    /// lost, but nothing is cut twice, because `next` moves to a range of another mapping first.
    fn offer_extent(&self, start: usize, end: usize) {
        let (next, limit) = (self.next.load(Ordering::Relaxed), self.end.load(Ordering::Relaxed));
        if next == CLOSED || limit.saturating_sub(next) >= end - start {
            return;
        }
        // Closes the old extent, so that no `next` is ever compared with the other extent's end.
        if self.next.compare_exchange(next, CLOSED, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            self.end.store(end, Ordering::Relaxed);
            // Release pairs with the acquire loads of `next`: a thread that sees the new start also sees the new end.
            self.next.store(start, Ordering::Release);
        }
    }
}
