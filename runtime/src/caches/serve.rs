//! Which cache serves an allocation, on the slow path; see `class_table`.

use super::debug::Debug;
use super::heap::Heap;
use super::object_cache::ObjectCache;
use crate::central::CacheRef;
use crate::central::size_class::CLASSES;
use machine::sync::Ordering;

/// Who serves a class.
#[derive(Clone, Copy, Debug)]
pub enum Server {
    /// The class's own cache.
    SizeClass(CacheRef),
    /// Another kind of cache: the group's that the thread is inside of, if it is, or one that watches.
    Other,
}

impl Heap {
    /// Who serves allocations of so many bytes, at most [`size_class::LARGEST`].
    #[inline]
    pub fn server_of(&self, bytes: usize) -> Server {
        match self.classes.index_for(bytes) {
            0 => Server::Other,
            index => Server::SizeClass(self.class(index / 2)),
        }
    }

    /// Has a cache that watches serve a class, for all who allocate from now on. A thread that has just looked the
    /// class up takes one more of its own.
    pub(super) fn watch_class(&self, class: usize, cache: &'static ObjectCache) {
        // Release pairs with the acquire in `watching`.
        self.cold.kinds.watching[class].store(cache.state_ptr(), Ordering::Release);
        self.classes.forget(class);
    }

    /// The cache that watches in the place of a class, if one does.
    fn watching(&self, class: usize) -> Option<(&'static ObjectCache, &'static Debug)> {
        // SAFETY: object caches are never unmapped.
        let state = unsafe { self.cold.kinds.watching[class].load(Ordering::Acquire).as_ref() }?;
        let cache = ObjectCache::of_state(state);
        Some((cache, cache.debug()?))
    }

    /// From now on all allocations of size classes come to slow paths, as groups may serve them: for ever.
    pub fn begin_groups(&self) {
        (1..CLASSES).for_each(|class| self.classes.forget(class));
        self.classes.forget(0);
        self.cold.kinds.has_groups.store(true, Ordering::Release);
    }

    /// Whether that was done.
    #[inline]
    pub fn has_groups(&self) -> bool {
        // Acquire pairs with the release: who finds it done finds all of it done.
        self.cold.kinds.has_groups.load(Ordering::Acquire)
    }

    /// What the fast path would give, or the exchange of magazines, where another kind than the class's own cache may
    /// serve: for a thread in no group.
    #[inline]
    pub fn take_at_hand(&self, class: usize) -> Option<*mut u8> {
        if self.watching(class).is_some() {
            return None;
        }
        let cache = self.class(class);
        self.cpu.take(cache).or_else(|| self.cpu.swap(cache))
    }

    /// An object of at least `bytes` of a class, by whatever way is left, for a thread in no group: from the class's
    /// cache, or from the one that watches in its place. `from` is the caller's address.
    pub fn refill(&self, class: usize, bytes: usize, from: usize) -> Option<*mut u8> {
        match self.watching(class) {
            Some((cache, debug)) => cache.take_watched(debug, bytes, from),
            None => self.cpu.refill(self.class(class)),
        }
    }

    /// A group has a large block: from now on those that go may be a group's.
    pub fn note_large_of_group(&self) {
        // Relaxed: whoever frees a block got it from who allocated it, after this.
        self.cold.kinds.has_large_of_groups.store(true, Ordering::Relaxed);
    }

    /// Whether a large block may be a group's.
    pub(super) fn may_be_large_of_group(&self) -> bool {
        self.cold.kinds.has_large_of_groups.load(Ordering::Relaxed)
    }
}
