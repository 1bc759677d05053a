//! Magazines of hardened caches: objects come in random order, and freed ones wait.
//!
//! ```text
//!   free ──▶ free magazine ──▶ older half, when it is full ──▶ depot ──▶ shuffled ──▶ allocation magazine ──▶ malloc
//! ```
//!
//! The free magazine is the slot's quarantine: no object leaves it before half as many others were freed as it holds.

use super::slot_word::{Side, SlotWord, push};
use super::tier::CpuCaches;
use crate::central::{CacheRef, Path};
use machine::{here, slot};

/// Objects of any size that a quarantine holds at least, and as many of small ones, within so many bytes.
const LEAST: usize = 8;
const MOST_OF_LEAST: usize = 32;
const LEAST_BYTES: usize = 128 << 10;

impl CpuCaches {
    /// An object of a new allocation magazine, which is shuffled.
    #[cold]
    pub fn refill_shuffled(&self, cache: CacheRef, secret: u64) -> Option<*mut u8> {
        self.put_deferred();
        let Some(slot) = slot::current() else { return self.refill(cache) };
        self.miss(cache, slot, Path::Refill);
        let mut magazine = self.find_magazine(cache, slot, &mut None)?;
        magazine.shuffle(secret);
        let object = magazine.pop();
        self.install(cache, slot, magazine);
        object
    }

    /// Frees an object to the slot's quarantine. False: it is full.
    ///
    /// # Safety
    /// The caller owns the object, which is one of the cache's, and gives it up if the answer is true.
    #[inline(always)]
    pub unsafe fn put_quarantined(&self, cache: CacheRef, object: *mut u8) -> bool {
        // SAFETY: passed on.
        unsafe { push(cache, object) }
    }

    /// Frees an object to a quarantine with space. The depot gets the older half of a full one.
    pub fn begin_quarantine(&self, cache: CacheRef, object: *mut u8) {
        let Some(slot) = slot::current() else { return self.depot.put_one(cache, object) };
        self.miss(cache, slot, Path::Overflow);
        self.shrink();
        let word = SlotWord::new(cache, slot, Side::Free);
        let seen = word.look();
        let is_full = seen.view().is_none_or(|old| old.is_full()) && !seen.is_draining();
        let empty = || self.depot.find_empty(&self.depot.lock(cache, slot, here!()));
        let Some(next) = is_full.then(empty).flatten() else { return self.depot.put_one(cache, object) };
        let least = (LEAST_BYTES / cache.object_bytes()).clamp(LEAST, MOST_OF_LEAST);
        let mut next = next.sized(cache.shape().most().max(least));
        let mut old = word.take(seen);
        if let Some(old) = &mut old {
            // Less of one that is longer, as before the cache was tuned.
            let newer = (old.len() / 2).min(next.view().room() - 1);
            (0..newer).filter_map(|_| old.pop()).for_each(|newer| next.push(newer));
        }
        next.push(object);
        let rest = [old, word.put(next).err()];
        rest.into_iter().flatten().for_each(|magazine| self.depot.push(cache, slot, magazine));
    }
}
