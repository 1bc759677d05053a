//! Objects set aside for allocations that would fail otherwise.
//!
//! Runs at the same time: any thread, under the lock; a signal handler on top of its holder does without.

use super::array::{Array, Stack};
use super::panel::Handle;
use core::cell::UnsafeCell;
use machine::here;
use machine::sync::{Acquired, Lock, Site};

/// With the spare arrays: nothing is taken while it is held.
const RESERVE_RANK: u8 = 2;

/// Arrays of objects. All-zero memory is an empty one; it changes by single stores, so a fork leaves it in order.
#[derive(Debug)]
#[repr(C)]
pub struct Reserve {
    lock: Lock<RESERVE_RANK>,
    arrays: UnsafeCell<Stack>,
}

// SAFETY: the stack is used under the lock.
unsafe impl Sync for Reserve {}

impl Reserve {
    /// Sets the objects of an array aside. False: not here, not now.
    pub fn push(&self, cache: Handle<'_>, array: Array) -> bool {
        self.locked(cache, here!(), |arrays| arrays.push(cache.panel, array)).is_some()
    }

    /// Takes an array with objects out.
    pub fn pop(&self, cache: Handle<'_>) -> Option<Array> {
        if self.is_empty() {
            return None;
        }
        self.locked(cache, here!(), |arrays| arrays.pop(cache.panel))?
    }

    /// Whether it seemed to hold nothing.
    pub fn is_empty(&self) -> bool {
        // SAFETY: a stale look at one word; who misses an array, or finds none, goes on as without a reserve.
        unsafe { self.arrays.get().cast::<usize>().read_volatile() == 0 }
    }

    /// Objects that are set aside, at some moment.
    pub fn objects(&self, cache: Handle<'_>) -> usize {
        let count = |arrays: &mut Stack| arrays.iter(cache.panel).map(|array| array.len(cache.panel)).sum();
        if self.is_empty() { 0 } else { self.locked(cache, here!(), count).unwrap_or(0) }
    }

    /// Shows each array, which nobody changes.
    pub fn for_each(&self, cache: Handle<'_>, show: impl FnMut(Array)) {
        // SAFETY: nobody else is here.
        unsafe { &*self.arrays.get() }.iter(cache.panel).for_each(show);
    }

    fn locked<R>(&self, cache: Handle<'_>, site: Site, work: impl FnOnce(&mut Stack) -> R) -> Option<R> {
        if self.lock.acquire(&cache.slab().locks().reserves, site) == Acquired::WouldDeadlock {
            return None;
        }
        // SAFETY: we hold the lock.
        let result = work(unsafe { &mut *self.arrays.get() });
        // SAFETY: acquired above.
        unsafe { self.lock.release() };
        Some(result)
    }
}
