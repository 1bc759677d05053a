//! Spans that a cache has given up, while readers may still look at objects that lay there.
//!
//! Objects of a cache with [`Readers`] are used again at once, as objects of that cache; but their memory may become nothing else before all sections that
//! were open have ended. So a span whose last object came back lingers, as it is, with everything that was constructed:
//!
//! ```text
//!   shard's ring ──last object came back──▶ list 0 ──sealed, with a grace period's number──▶ page list, zone
//!        ▲                                  list 1                                             destructors
//!        └──────────the cache needs a span──┘
//! ```
//!
//! The cache takes spans from here before it takes new ones, so it never has more memory than its objects took at their peak, however long a section stays
//! open. A span's description lies out of line: nothing is written to memory that readers look at.
//!
//! Source: the rule is that of the Linux kernel's slab caches with `SLAB_TYPESAFE_BY_RCU`.
//!
//! Runs at the same time: any thread, under the lock; a signal handler on top of its holder does without. Everything changes by single stores, so a fork leaves it in
//! order, but for a span that another thread has just taken out: that is lost in the child.

use super::object_cache::ObjectCache;
use super::panel::Handle;
use super::shard::Held;
use super::{General, NO_SLOT};
use crate::page::Span;
use core::cell::UnsafeCell;
use machine::sync::{Acquired, AtomicBool, AtomicPtr, Lock, Ordering, Site};
use machine::{here, slot};

/// Who owns a span that is in no ring, as it lingers or is about to be freed: no slot does, so that none takes it for its own when it puts itself in order after
/// a fork.
pub(super) const NOBODY: u32 = u32::MAX;

/// Taken under a shard's; nothing is taken while it is held.
const LINGERING_RANK: u8 = 2;
/// Spans that are freed in one go, while nobody else can go over all caches.
const AT_ONCE: usize = 16;

/// What a cache asks whoever knows who may look at its objects.
#[derive(Debug)]
pub struct Readers {
    /// Whether nobody can be looking.
    pub are_absent: fn() -> bool,
    /// Called after a span began to linger, with none of the slab's locks held but that of whoever drains; and when the cache is created, so that
    /// whoever is to be roused is there.
    pub rouse: fn(),
    /// Waits until whoever may be looking is not any more.
    pub wait: fn(),
}

/// The spans of a cache that linger. All-zero memory: there are none.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Lingering {
    lock: Lock<LINGERING_RANK>,
    lists: UnsafeCell<Lists>,
    /// The next cache that ever had any; never changes once it is set.
    next: AtomicPtr<ObjectCache>,
    is_listed: AtomicBool,
}

// SAFETY: the lists are used under the lock.
unsafe impl Sync for Lingering {}

#[derive(Debug)]
#[repr(C)]
struct Lists {
    first: [*mut Span; 2],
    /// Which one spans are put into; the other one waits for the grace period.
    open: usize,
    number: u64,
}

impl Lingering {
    /// None: a signal handler must not wait.
    fn locked<R>(&self, cache: Handle<'_>, site: Site, work: impl FnOnce(&mut Lists) -> R) -> Option<R> {
        if self.lock.acquire(&cache.slab().locks().lingering, site) == Acquired::WouldDeadlock {
            return None;
        }
        // SAFETY: we hold the lock.
        let result = work(unsafe { &mut *self.lists.get() });
        // SAFETY: acquired above.
        unsafe { self.lock.release() };
        Some(result)
    }

    /// Whether there seem to be none.
    fn is_empty(&self) -> bool {
        // SAFETY: a stale look at two words. Who misses a span that is put here meanwhile is woken by whoever puts it.
        unsafe { (&raw const (*self.lists.get()).first).read_volatile().iter().all(|first| first.is_null()) }
    }

    /// A span of either list: the cache needs one, or nobody can be looking any more.
    pub(super) fn take(&self, cache: Handle<'_>) -> Option<*mut Span> {
        if self.is_empty() {
            return None;
        }
        self.locked(cache, here!(), |lists| lists.pop(lists.open).or_else(|| lists.pop(1 - lists.open)))?
    }

    /// Shows each span. Without the lock: nobody else is here.
    pub(super) fn iter(&self) -> impl Iterator<Item = *mut Span> + use<> {
        // SAFETY: as above.
        unsafe { &*self.lists.get() }.first.into_iter().flat_map(Lists::following)
    }

    /// How many there are, at some moment.
    pub(super) fn count(&self, cache: Handle<'_>) -> usize {
        let count = |lists: &mut Lists| lists.first.into_iter().flat_map(Lists::following).count();
        if self.is_empty() { 0 } else { self.locked(cache, here!(), count).unwrap_or(0) }
    }
}

impl Lists {
    fn push(&mut self, span: *mut Span) {
        let first = &mut self.first[self.open];
        // SAFETY: the span is ours.
        unsafe { (*span).next = *first };
        machine::sync::compiler_fence(Ordering::Release);
        *first = span;
    }

    fn pop(&mut self, list: usize) -> Option<*mut Span> {
        let span = self.first[list];
        // SAFETY: spans in the lists exist.
        self.first[list] = unsafe { span.as_ref() }?.next;
        Some(span)
    }

    /// What has come so far waits for the grace period that begins next, unless others wait for theirs.
    fn seal(&mut self, start: fn() -> u64) {
        if self.first[1 - self.open].is_null() && !self.first[self.open].is_null() {
            self.number = start();
            machine::sync::compiler_fence(Ordering::Release);
            self.open = 1 - self.open;
        }
    }

    fn following(first: *mut Span) -> impl Iterator<Item = *mut Span> {
        let there = |span: *mut Span| (!span.is_null()).then_some(span);
        // SAFETY: spans in the lists exist.
        core::iter::successors(there(first), move |&span| there(unsafe { (*span).next }))
    }
}

/// What became of a span without objects in use.
pub(super) enum GivenUp {
    /// It is the caller's, to be freed.
    Ours,
    /// It lingers; the caller says so, once he has no lock.
    Lingers(&'static Readers),
    /// It stays where it is.
    Not,
}

impl Handle<'_> {
    /// Takes a span without objects in use out of the ring of the shard that is held.
    ///
    /// # Safety
    /// It is in that ring.
    pub(super) unsafe fn give_up(self, held: &mut Held, span: *mut Span) -> GivenUp {
        // SAFETY: passed on.
        unsafe {
            held.spans.remove(span);
            let owner = (*span).owner();
            (*span).set_owner(NOBODY);
            let watched = self.object_cache().and_then(|cache| Some((cache, cache.readers()?)));
            let Some((cache, readers)) = watched.filter(|(_, readers)| !(readers.are_absent)()) else {
                return GivenUp::Ours;
            };
            if cache.lingering.locked(self, here!(), |lists| lists.push(span)).is_none() {
                (*span).set_owner(owner);
                held.spans.insert(span);
                return GivenUp::Not;
            }
            GivenUp::Lingers(readers)
        }
    }

    /// A span that lingers, which is the owner's from now on.
    pub(super) fn take_lingering(self, owner: u32) -> Option<*mut Span> {
        let span = self.object_cache()?.lingering.take(self)?;
        // SAFETY: it is in no list any more, and none of its objects is in use, so nobody else looks who owns it.
        unsafe { (*span).set_owner(owner) };
        Some(span)
    }
}

impl General<'_> {
    /// From now on the cache is among those whose spans may linger.
    pub(super) fn list_lingering(self, cache: &ObjectCache) {
        if cache.lingering.is_listed.swap(true, Ordering::Relaxed) {
            return;
        }
        let ours = (&raw const *cache).cast_mut();
        let link = |first| {
            cache.lingering.next.store(first, Ordering::Relaxed);
            Some(ours)
        };
        // Release pairs with the acquire below: who finds the cache finds its link.
        let _ = self.slab.registry().rare.0.lingering.fetch_update(Ordering::Release, Ordering::Relaxed, link);
    }

    fn listed(self) -> impl Iterator<Item = &'static ObjectCache> {
        // SAFETY: object caches are never unmapped; null ends the list.
        let at = |cache: *mut ObjectCache| unsafe { cache.as_ref() };
        let first = at(self.slab.registry().rare.0.lingering.load(Ordering::Acquire));
        core::iter::successors(first, move |cache| at(cache.lingering.next.load(Ordering::Relaxed)))
    }

    /// Whether any span lingers.
    pub fn has_lingering(self) -> bool {
        self.listed().any(|cache| !cache.lingering.is_empty())
    }

    /// Has what lingers wait for the grace period whose number `start` says.
    pub fn seal_lingering(self, start: fn() -> u64) {
        for cache in self.listed().filter(|cache| !cache.lingering.is_empty()) {
            cache.lingering.locked(cache.as_handle(), here!(), |lists| lists.seal(start));
        }
    }

    /// Frees what has lingered for long enough, and does not return before others have who are at it.
    pub fn free_lingering(self, is_over: impl Fn(u64) -> bool) {
        for cache in self.listed() {
            let take = |lists: &mut Lists| if is_over(lists.number) { lists.pop(1 - lists.open) } else { None };
            let free = |_| {
                let (handle, slot) = (cache.as_handle(), slot::current().unwrap_or(NO_SLOT));
                let spans = core::iter::from_fn(|| cache.lingering.locked(handle, here!(), take)?);
                // SAFETY: taken out by us; the cache does not end, as only a drainer could end it.
                spans.take(AT_ONCE).map(|span| unsafe { handle.free_span(slot, span) }).count()
            };
            while self.as_only_drainer(here!(), free) == Some(AT_ONCE) {}
        }
    }
}
