//! The runtime's own caches, for modules above.

use super::heap::{OWN, heap};
use super::object_cache::{ObjectCache, Wanted};
use crate::central::CacheState;
use core::ptr::null_mut;
use machine::sync::{AtomicPtr, Ordering};

/// Their kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnCache {
    /// Groups.
    Group,
    /// Tables of groups' caches.
    Table,
    /// Records of groups' large blocks.
    Large,
}

const _: () = assert!(OwnCache::Large as usize + 1 == OWN);

impl OwnCache {
    fn place(self) -> &'static AtomicPtr<CacheState> {
        &heap().cold.own[self as usize]
    }

    /// The cache, if it exists.
    #[inline]
    pub fn known(self) -> Option<&'static ObjectCache> {
        // Acquire pairs with the release below: a thread that sees the cache finds it complete.
        // SAFETY: object caches are never unmapped, and this one is never destroyed.
        unsafe { self.place().load(Ordering::Acquire).as_ref() }.map(ObjectCache::of_state)
    }

    /// The cache, which this makes if needed. None: no memory.
    pub fn made(self, wanted: &Wanted<'_>) -> Option<&'static ObjectCache> {
        self.known().or_else(|| {
            let made = ObjectCache::create(wanted).ok()?;
            let ours = made.state_ptr();
            if self.place().compare_exchange(null_mut(), ours, Ordering::AcqRel, Ordering::Acquire).is_err() {
                // SAFETY: no other thread has seen ours.
                let _ = unsafe { made.destroy() };
            }
            self.known()
        })
    }
}
