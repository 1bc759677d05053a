//! Finds the cache that serves an allocation, on the slow path; see `class_table`.

use super::debug::Debug;
use super::heap::Heap;
use super::object_cache::ObjectCache;
use crate::central::CacheRef;
use crate::central::size_class::CLASSES;
use machine::sync::Ordering;

/// The server of a class.
#[derive(Clone, Copy, Debug)]
pub enum Server {
    /// The class's own cache.
    SizeClass(CacheRef),
    /// Another kind: a cache of the thread's group, or a debug cache.
    Other,
}

impl Heap {
    /// The server of an allocation of at most [`size_class::LARGEST`] bytes.
    #[inline]
    pub fn server_of(&self, bytes: usize) -> Server {
        match self.classes.index_for(bytes) {
            0 => Server::Other,
            index => Server::SizeClass(self.class(index / 2)),
        }
    }

    /// Makes a debug cache serve a class. A thread that has just looked up the class takes one more of its own.
    pub(super) fn watch_class(&self, class: usize, cache: &'static ObjectCache) {
        // Release pairs with the acquire in `watching`.
        self.cold.kinds.watching[class].store(cache.state_ptr(), Ordering::Release);
        self.classes.forget(class);
    }

    /// The debug cache that serves a class, if there is one.
    fn watching(&self, class: usize) -> Option<(&'static ObjectCache, &'static Debug)> {
        // SAFETY: object caches are never unmapped.
        let state = unsafe { self.cold.kinds.watching[class].load(Ordering::Acquire).as_ref() }?;
        let cache = ObjectCache::of_state(state);
        Some((cache, cache.debug()?))
    }

    /// Sends all allocations of size classes to slow paths for ever, because groups may serve them.
    pub fn begin_groups(&self) {
        (1..CLASSES).for_each(|class| self.classes.forget(class));
        self.classes.forget(0);
        self.cold.kinds.has_groups.store(true, Ordering::Release);
    }

    /// Whether groups have begun.
    #[inline]
    pub fn has_groups(&self) -> bool {
        // Acquire pairs with the release in `begin_groups`: a thread that sees it finds all of it done.
        self.cold.kinds.has_groups.load(Ordering::Acquire)
    }

    /// The fast path or an exchange of magazines, in no group, where another kind may serve the class.
    #[inline]
    pub fn take_at_hand(&self, class: usize) -> Option<*mut u8> {
        if self.watching(class).is_some() {
            return None;
        }
        let cache = self.class(class);
        self.cpu.take(cache).or_else(|| self.cpu.swap(cache))
    }

    /// An object of a class or its debug cache, for a thread in no group. `from` is the caller's address.
    pub fn refill(&self, class: usize, bytes: usize, from: usize) -> Option<*mut u8> {
        match self.watching(class) {
            Some((cache, debug)) => cache.take_watched(debug, bytes, from),
            None => self.cpu.refill(self.class(class)),
        }
    }

    /// Notes that a group has a large block: each one freed from now on may belong to a group.
    pub fn note_large_of_group(&self) {
        // Relaxed: a thread that frees a block got it from its allocator, after this store.
        self.cold.kinds.has_large_of_groups.store(true, Ordering::Relaxed);
    }

    pub(super) fn may_be_large_of_group(&self) -> bool {
        self.cold.kinds.has_large_of_groups.load(Ordering::Relaxed)
    }
}
