//! Magazines of hardened caches: objects come in random order, and freed ones wait.
//!
//! ```text
//!   free ──▶ free magazine, until it is full ──▶ depot ──▶ shuffled ──▶ allocation magazine ──▶ malloc
//! ```
//!
//! The free magazine is the slot's quarantine: no object leaves it before it is full.

use super::slot_word::{Side, SlotWord, push};
use super::tier::CpuCaches;
use crate::central::{CacheRef, Path};
use crate::depot::Magazine;
use machine::{here, slot};

impl CpuCaches {
    /// An object of a new allocation magazine, which is shuffled.
    #[cold]
    pub fn refill_shuffled(&self, cache: CacheRef, secret: u64) -> Option<*mut u8> {
        self.put_deferred();
        let Some(slot) = slot::current() else { return self.refill(cache) };
        self.miss(cache, slot, Path::Refill);
        let mut magazine = self.take_full_quarantine(cache, slot).or_else(|| self.find_magazine(cache, slot))?;
        magazine.shuffle(secret);
        let object = magazine.pop();
        self.install(cache, slot, magazine);
        object
    }

    fn take_full_quarantine(&self, cache: CacheRef, slot: u32) -> Option<Magazine> {
        let word = SlotWord::new(cache, slot, Side::Free);
        let seen = word.look();
        if seen.view()?.is_full() { word.take(seen) } else { None }
    }

    /// Frees an object to the slot's quarantine. False: it is full.
    #[inline(always)]
    pub fn put_quarantined(&self, cache: CacheRef, object: *mut u8) -> bool {
        // SAFETY: the caller owns the object, and gives it up.
        unsafe { push(cache, object) }
    }

    /// Frees an object to a new quarantine. The depot gets the old one.
    pub fn begin_quarantine(&self, cache: CacheRef, object: *mut u8) {
        let Some(slot) = slot::current() else { return self.depot.put_one(cache, object) };
        self.miss(cache, slot, Path::Overflow);
        self.shrink();
        let word = SlotWord::new(cache, slot, Side::Free);
        let seen = word.look();
        let is_full = seen.view().is_none_or(|old| old.is_full()) && !seen.is_draining();
        let empty = || self.depot.find_empty(&self.depot.lock(cache, slot, here!()));
        let Some(next) = is_full.then(empty).flatten() else { return self.depot.put_one(cache, object) };
        let mut next = next.sized(cache.shape().most());
        next.push(object);
        match word.swap(seen, next) {
            Ok(None) => {}
            Ok(Some(magazine)) | Err(magazine) => self.depot.push(cache, slot, magazine),
        }
    }
}
