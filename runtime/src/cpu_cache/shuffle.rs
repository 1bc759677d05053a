//! Magazines of hardened caches: objects come from random places, and freed ones wait for a random time.
//!
//! ```text
//!   free ──▶ random place of the free magazine ──▶ what lay there ──▶ allocation magazine ──▶ random one ──▶ malloc
//! ```
//!
//! The free magazine is the slot's quarantine: it never becomes the allocation magazine. Slow paths alone use both, so
//! each operation takes a magazine out of its word and puts it back.
//!
//! Source: the random replacement of DieHard and its successors.

use super::slot_word::{Side, SlotWord};
use super::tier::CpuCaches;
use crate::central::{CacheRef, Path};
use machine::{here, slot};

impl CpuCaches {
    /// An object of the slot's allocation magazine, at the place that `random` makes of its topmost.
    pub fn take_shuffled(&self, cache: CacheRef, random: impl FnOnce(*mut u8) -> usize) -> Option<*mut u8> {
        let word = SlotWord::new(cache, slot::current_if_given()?, Side::Allocation);
        let seen = word.look();
        if seen.view()?.is_empty() {
            return None;
        }
        let mut magazine = word.take(seen)?;
        let object = magazine.pop_at(random);
        if let Err(magazine) = word.put(magazine) {
            self.depot.push(cache, word.slot, magazine);
        }
        object
    }

    /// The same of a new allocation magazine.
    pub fn refill_shuffled(&self, cache: CacheRef, random: impl FnOnce(*mut u8) -> usize) -> Option<*mut u8> {
        self.put_deferred();
        let Some(slot) = slot::current() else { return self.refill(cache) };
        self.miss(cache, slot, Path::Refill);
        let mut magazine = self.find_magazine(cache, slot)?;
        let object = magazine.pop_at(random);
        self.install(cache, slot, magazine);
        object
    }

    /// Frees an object to the slot's quarantine. If that is full, the object at the place `random` leaves it.
    pub fn put_shuffled(&self, cache: CacheRef, object: *mut u8, random: usize) {
        let Some(slot) = slot::current() else { return self.depot.put_one(cache, object) };
        let word = SlotWord::new(cache, slot, Side::Free);
        let empty = || {
            self.miss(cache, slot, Path::Overflow);
            let magazine = self.depot.find_empty(&self.depot.lock(cache, slot, here!()))?;
            Some(magazine.sized(cache.shape().most()))
        };
        let Some(mut quarantine) = word.take(word.look()).or_else(empty) else {
            return self.depot.put_one(cache, object);
        };
        let leaves = if quarantine.is_full() { Some(quarantine.exchange(random, object)) } else { None };
        if leaves.is_none() {
            quarantine.push(object);
        }
        if let Err(quarantine) = word.put(quarantine) {
            self.depot.push(cache, slot, quarantine);
        }
        if let Some(object) = leaves {
            self.put_after_quarantine(cache, slot, object);
        }
    }

    /// Puts an object into the allocation magazine, or into its span.
    fn put_after_quarantine(&self, cache: CacheRef, slot: u32, object: *mut u8) {
        let word = SlotWord::new(cache, slot, Side::Allocation);
        let seen = word.look();
        let magazine = if seen.view().is_some_and(|view| !view.is_full()) { word.take(seen) } else { None };
        let Some(mut magazine) = magazine else { return self.depot.put_one(cache, object) };
        magazine.push(object);
        if let Err(magazine) = word.put(magazine) {
            self.depot.push(cache, slot, magazine);
        }
    }
}
