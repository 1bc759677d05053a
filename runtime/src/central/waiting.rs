//! Spans that wait for a grace period: their cache has given them up, while readers may still look at objects that lay
//! there.
//!
//! Objects of a typesafe cache are used again at once, as objects of that cache; but their memory may become nothing
//! else before all sections that were open have ended. So a span whose last object came back waits, as it is, with
//! everything that was constructed:
//!
//! ```text
//!   shard's ring ──last object came back──▶ list 0 ──sealed, with a grace period's number──▶ page list, zone
//!        ▲                                  list 1                                             destructors
//!        └──────────the cache needs a span──┘
//! ```
//!
//! The cache takes spans from here before it takes new ones, so it never has more memory than its objects took at their
//! peak, however long a section stays open. A span's description lies out of line: nothing is written to memory that
//! readers look at.
//!
//! Source: the rule is that of the Linux kernel's slab caches with `SLAB_TYPESAFE_BY_RCU`.
//!
//! Runs at the same time: any thread, under the lock; a signal handler on top of its holder does without. Everything
//! changes by single stores, so a fork leaves it in order, but for a span that another thread has just taken out: that
//! is lost in the child.

use crate::observe::LockReport;
use crate::page_heap::Span;
use machine::sync::{Acquired, AtomicPtr, AtomicU64, AtomicUsize, Lock, Ordering, Ordering::Relaxed, Site};

/// Taken under a shard's; nothing is taken while it is held.
const WAITING_RANK: u8 = 2;

/// The spans of a cache that wait. All-zero memory: there are none. The fields are used under the lock; whether there
/// are any is looked at without it.
#[derive(Debug)]
#[repr(C)]
pub struct Waiting {
    lock: Lock<WAITING_RANK>,
    first: [AtomicPtr<Span>; 2],
    /// Which list spans are put into; the other one waits for the grace period of the number.
    open: AtomicUsize,
    number: AtomicU64,
}

impl Waiting {
    /// None: a signal handler must not wait.
    pub(super) fn locked<R>(&self, locks: &LockReport, site: Site, work: impl FnOnce(&Self) -> R) -> Option<R> {
        if self.lock.acquire(&locks.waiting, site) == Acquired::WouldDeadlock {
            return None;
        }
        let result = work(self);
        // SAFETY: acquired above.
        unsafe { self.lock.release() };
        Some(result)
    }

    /// Whether there seem to be none. A thread that misses a span that is put here meanwhile is woken by whoever puts
    /// it.
    pub(super) fn is_empty(&self) -> bool {
        self.first.iter().all(|first| first.load(Relaxed).is_null())
    }

    /// Shows each span, for a thread with the lock, or where there is no other thread.
    pub(super) fn spans(&self) -> impl Iterator<Item = &'static Span> {
        // SAFETY: nobody changes the lists.
        self.first.iter().flat_map(|first| unsafe { Span::list(first.load(Relaxed)) })
    }

    // ---- under the lock ----

    pub(super) fn push(&self, span: &Span) {
        let first = &self.first[self.open.load(Relaxed)];
        span.set_next(first.load(Relaxed));
        // For a child that is forked in between, as below.
        machine::sync::compiler_fence(Ordering::Release);
        first.store(span.as_ptr(), Relaxed);
    }

    fn pop(&self, list: usize) -> Option<&'static Span> {
        // SAFETY: spans in the lists exist.
        let span = unsafe { self.first[list].load(Relaxed).as_ref() }?;
        self.first[list].store(span.next(), Relaxed);
        Some(span)
    }

    /// A span of either list.
    pub(super) fn pop_any(&self) -> Option<&'static Span> {
        let open = self.open.load(Relaxed);
        self.pop(open).or_else(|| self.pop(1 - open))
    }

    /// A span that has waited for long enough.
    pub(super) fn pop_sealed(&self, is_over: impl Fn(u64) -> bool) -> Option<&'static Span> {
        let sealed = 1 - self.open.load(Relaxed);
        if is_over(self.number.load(Relaxed)) { self.pop(sealed) } else { None }
    }

    /// What has come so far waits for the grace period that begins next, unless others wait for theirs.
    pub(super) fn seal(&self, start: fn() -> u64) {
        let open = self.open.load(Relaxed);
        if self.first[1 - open].load(Relaxed).is_null() && !self.first[open].load(Relaxed).is_null() {
            self.number.store(start(), Relaxed);
            machine::sync::compiler_fence(Ordering::Release);
            self.open.store(1 - open, Relaxed);
        }
    }
}
