//! The caches that groups, their tables, and the notes of their large blocks come from.

use super::core::{Block, Core};
use crate::caches::{ObjectCache, OwnCache, Wanted};
use crate::central::Charged;
use core::ptr::null_mut;

#[derive(Clone, Copy, Debug)]
pub(super) struct Own(OwnCache);

impl Own {
    pub const GROUP: Self = Own(OwnCache::Group);
    pub const TABLE: Self = Own(OwnCache::Table);
    pub const LARGE: Self = Own(OwnCache::Large);

    /// An object with any contents.
    pub fn allocate(self) -> *mut u8 {
        let (name, bytes): (&[u8], usize) = match self.0 {
            OwnCache::Group => (b"group", size_of::<Core>()),
            OwnCache::Table => (b"group/table", size_of::<Charged>()),
            OwnCache::Large => (b"group/large", Block::BYTES),
        };
        let wanted = Wanted {
            name,
            bytes,
            alignment: 64,
            constructor: None,
            destructor: None,
            argument: null_mut(),
            typesafe: false,
        };
        self.0.made(&wanted).map_or(null_mut(), ObjectCache::allocate)
    }

    /// The caller must own the object, which is from this cache.
    pub unsafe fn free(self, object: *mut u8) {
        if let Some(cache) = self.0.known() {
            // SAFETY: passed on.
            unsafe { cache.free(object) };
        }
    }
}
