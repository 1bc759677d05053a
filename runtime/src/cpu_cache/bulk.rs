//! Bulk operations on objects of one cache.

use super::slot_word::{Side, SlotWord};
use super::tier::CpuCaches;
use crate::central::{CacheRef, Path};
use machine::{here, slot};

/// From so many objects on, it pays to take a magazine out of its word.
const WORTH_A_MAGAZINE: usize = 8;

impl CpuCaches {
    /// Takes objects from magazines and spans; returns how many it got.
    pub fn take_many(&self, cache: CacheRef, objects: &mut [*mut u8]) -> usize {
        let mut taken = 0;
        while objects.len() - taken >= WORTH_A_MAGAZINE
            && let Some(slot) = slot::current()
        {
            self.miss(cache, slot, Path::Refill);
            let word = SlotWord::new(cache, slot, Side::Allocation);
            let seen = word.look();
            let own = if seen.view().is_some_and(|view| !view.is_empty()) { word.take(seen) } else { None };
            let Some(mut magazine) = own.or_else(|| self.find_magazine(cache, slot)) else { break };
            while taken < objects.len()
                && let Some(object) = magazine.pop()
            {
                objects[taken] = object;
                taken += 1;
            }
            match magazine.is_empty() {
                true => self.depot.push(cache, slot, magazine),
                false => self.install(cache, slot, magazine),
            }
        }
        taken
    }

    /// Frees many objects.
    ///
    /// # Safety
    /// As for [`Self::overflow`], for each object.
    pub unsafe fn put_many(&self, cache: CacheRef, mut objects: &[*mut u8]) {
        while objects.len() >= WORTH_A_MAGAZINE
            && let Some(slot) = slot::current()
        {
            self.miss(cache, slot, Path::Overflow);
            let word = SlotWord::new(cache, slot, Side::Free);
            let seen = word.look();
            let own = if seen.view().is_some_and(|view| !view.is_full()) { word.take(seen) } else { None };
            let empty = || {
                let magazine = self.depot.find_empty(&self.depot.lock(cache, slot, here!()))?;
                Some(magazine.sized(self.depot.central.capacity(cache, slot)))
            };
            let Some(mut magazine) = own.or_else(empty) else { break };
            let (fitting, rest) = objects.split_at(objects.len().min(magazine.view().room()));
            fitting.iter().for_each(|&object| magazine.push(object));
            objects = rest;
            let full = if magazine.is_full() { Err(magazine) } else { word.put(magazine) };
            if let Err(magazine) = full {
                self.depot.push(cache, slot, magazine);
            }
        }
        for &object in objects {
            // SAFETY: passed on.
            unsafe { self.put(cache, object) };
        }
    }
}
