//! Spans that wait for a grace period. The cache has given them up, but readers may still look at objects in them.
//!
//! A typesafe cache reuses an object at once, as an object of the same cache. Before its memory becomes anything else,
//! all open sections must end. So after its last object came back, a span waits with its constructed objects:
//!
//! ```text
//!   shard's ring ──last object came back──▶ list 0 ──sealed, with a grace period's number──▶ page list, zone
//!        ▲                                  list 1                                             destructors
//!        └──────────the cache needs a span──┘
//! ```
//!
//! The cache takes spans from here before it takes new ones, so its memory never exceeds its peak while a section stays
//! open. A span's description lies out of line, so waiting writes nothing to memory that readers look at.
//!
//! Source: the rule of the Linux kernel's slab caches with `SLAB_TYPESAFE_BY_RCU`.
//!
//! Runs at the same time: any thread, under the lock; a signal handler above its holder does without. Single stores
//! keep the lists in order for a fork, which loses a span that a thread has just taken out.

use crate::observe::LockReport;
use crate::page_heap::Span;
use machine::sync::{Acquired, AtomicPtr, AtomicU64, AtomicUsize, Lock, Ordering, Ordering::Relaxed, Site};

/// Taken under a shard's lock; its holder takes no further lock.
const WAITING_RANK: u8 = 2;

/// The waiting spans of a cache. Zeroes: none. The lock guards the fields, except in `is_empty`.
#[derive(Debug)]
#[repr(C)]
pub struct Waiting {
    lock: Lock<WAITING_RANK>,
    first: [AtomicPtr<Span>; 2],
    /// The list that spans are pushed to. The other list waits for the grace period `number`.
    open: AtomicUsize,
    number: AtomicU64,
}

impl Waiting {
    pub(super) fn locked<R>(&self, locks: &LockReport, site: Site, work: impl FnOnce(&Self) -> R) -> Option<R> {
        if self.lock.acquire(&locks.waiting, site) == Acquired::WouldDeadlock {
            return None;
        }
        let result = work(self);
        // SAFETY: acquired above.
        unsafe { self.lock.release() };
        Some(result)
    }

    /// Whether no span seems to wait. A thread that pushes a span meanwhile wakes the worker.
    pub(super) fn is_empty(&self) -> bool {
        self.first.iter().all(|first| first.load(Relaxed).is_null())
    }

    /// All spans. The caller holds the lock, or no other thread runs.
    pub(super) fn spans(&self) -> impl Iterator<Item = &'static Span> {
        // SAFETY: no thread changes the lists meanwhile.
        self.first.iter().flat_map(|first| unsafe { Span::list(first.load(Relaxed)) })
    }

    // ---- under the lock ----

    pub(super) fn push(&self, span: &Span) {
        let first = &self.first[self.open.load(Relaxed)];
        span.set_next(first.load(Relaxed));
        // For a child that is forked in between; `seal` has the same.
        machine::sync::compiler_fence(Ordering::Release);
        first.store(span.as_ptr(), Relaxed);
    }

    fn pop(&self, list: usize) -> Option<&'static Span> {
        // SAFETY: spans in the lists exist.
        let span = unsafe { self.first[list].load(Relaxed).as_ref() }?;
        self.first[list].store(span.next(), Relaxed);
        Some(span)
    }

    pub(super) fn pop_any(&self) -> Option<&'static Span> {
        let open = self.open.load(Relaxed);
        self.pop(open).or_else(|| self.pop(1 - open))
    }

    /// A span whose grace period is over.
    pub(super) fn pop_sealed(&self, is_over: impl Fn(u64) -> bool) -> Option<&'static Span> {
        let sealed = 1 - self.open.load(Relaxed);
        if is_over(self.number.load(Relaxed)) { self.pop(sealed) } else { None }
    }

    /// Seals the open list for the grace period that begins next, if the other list is empty.
    pub(super) fn seal(&self, start: fn() -> u64) {
        let open = self.open.load(Relaxed);
        if self.first[1 - open].load(Relaxed).is_null() && !self.first[open].load(Relaxed).is_null() {
            self.number.store(start(), Relaxed);
            machine::sync::compiler_fence(Ordering::Release);
            self.open.store(1 - open, Relaxed);
        }
    }
}
