//! Objects of threads without a slot, which all share one shard.

use super::tier::Depot;
use crate::central::CacheRef;
use machine::here;

impl Depot {
    /// An object of the shared shard's topmost magazine. Some(none): a limit refuses it. None: there is no magazine.
    pub fn take_slotless(&self, cache: CacheRef) -> Option<Option<*mut u8>> {
        let own = self.lock(cache, self.slot_or_none(None), here!());
        let mut magazine = own.pop_full()?;
        let object = magazine.pop();
        match magazine.is_empty() {
            true => self.keep_empty(&own, magazine),
            false => own.push_full(magazine),
        }
        drop(own);
        let object = object?;
        if self.central.count_within_limit(cache, 1) == 1 {
            return Some(Some(object));
        }
        drop(self.give_back(cache, object, None));
        Some(None)
    }

    /// Frees an object to the same magazine. False: no space; the caller still owns the object.
    pub fn put_slotless(&self, cache: CacheRef, object: *mut u8) -> bool {
        let own = self.lock(cache, self.slot_or_none(None), here!());
        let Some(mut magazine) = own.pop_full() else { return false };
        let has_room = !magazine.is_full();
        if has_room {
            magazine.push(object);
        }
        own.push_full(magazine);
        drop(own);
        if has_room {
            self.central.count(cache, -1);
        }
        has_room
    }
}
