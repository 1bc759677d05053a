//! Objects set aside for allocations that would otherwise fail. Runs at the same time: any thread, under the lock; a
//! signal handler above its holder does without.

use super::magazine::{Magazine, Stack, View};
use super::tier::Depot;
use crate::central::{CacheRef, NO_SLOT};
use crate::observe::LockReport;
use machine::sync::{Acquired, Lock, Site};
use machine::{here, slot};

/// As the spare magazines' lock: its holder takes no further lock.
const RESERVE_RANK: u8 = 2;

/// Magazines with objects. Zeroes: empty. Single stores make every change, so a fork leaves it in order.
#[derive(Debug)]
#[repr(C)]
pub struct Reserve {
    lock: Lock<RESERVE_RANK>,
    magazines: Stack,
}

impl Reserve {
    /// Error: in a signal handler that must not wait.
    fn push(&self, locks: &LockReport, magazine: Magazine) -> Result<(), Magazine> {
        let mut rest = Some(magazine);
        self.locked(locks, here!(), |magazines| rest.take().map(|magazine| magazines.push(magazine)));
        rest.map_or(Ok(()), Err)
    }

    /// Takes a magazine with objects out.
    pub fn pop(&self, locks: &LockReport) -> Option<Magazine> {
        // A stale look: a thread that misses a magazine goes on as without a reserve.
        if self.magazines.is_empty() { None } else { self.locked(locks, here!(), Stack::pop)? }
    }

    /// Objects in the reserve now.
    fn objects(&self, locks: &LockReport) -> usize {
        let count = |magazines: &Stack| magazines.iter().map(View::len).sum();
        if self.magazines.is_empty() { 0 } else { self.locked(locks, here!(), count).unwrap_or(0) }
    }

    /// Shows each magazine, while no thread changes them.
    pub fn for_each(&self, show: impl FnMut(View<'_>)) {
        self.magazines.iter().for_each(show);
    }

    fn locked<R>(&self, locks: &LockReport, site: Site, work: impl FnOnce(&Stack) -> R) -> Option<R> {
        if self.lock.acquire(&locks.reserves, site) == Acquired::WouldDeadlock {
            return None;
        }
        let result = work(&self.magazines);
        // SAFETY: acquired above.
        unsafe { self.lock.release() };
        Some(result)
    }
}

impl Depot {
    /// Fills the reserve up to `objects`. False: no memory; the reserve keeps what it had.
    pub fn prefill(&self, cache: CacheRef, reserve: &Reserve, objects: usize) -> bool {
        let (slot, locks) = (self.slot_or_none(slot::current()), self.central.page_heap.locks());
        while reserve.objects(locks) < objects {
            let Some(magazine) = self.fill_by_all_means(cache, slot, cache.shape().most()) else { return false };
            // The tally counts the reserve as in the depot.
            self.central.count(cache, -(magazine.len() as isize));
            if let Err(magazine) = reserve.push(locks, magazine) {
                self.flush(cache, slot, magazine);
                return false;
            }
        }
        true
    }

    /// Takes an object from the reserve.
    pub fn take_reserved(&self, cache: CacheRef, reserve: &Reserve) -> Option<*mut u8> {
        let locks = self.central.page_heap.locks();
        let mut magazine = reserve.pop(locks)?;
        let object = magazine.pop();
        self.central.count(cache, 1);
        let rest = if magazine.is_empty() { Err(magazine) } else { reserve.push(locks, magazine) };
        if let Err(magazine) = rest {
            self.central.count(cache, magazine.len() as isize);
            self.push(cache, slot::current().unwrap_or(NO_SLOT), magazine);
        }
        object
    }

    /// Returns the reserve's objects to their spans.
    pub fn end_reserve(&self, cache: CacheRef, reserve: &Reserve) {
        while let Some(magazine) = reserve.pop(self.central.page_heap.locks()) {
            self.flush(cache, slot::current().unwrap_or(NO_SLOT), magazine);
        }
    }
}
