//! Empty arrays that no shard keeps: an array that one class has no use for serves another, in any slot.
//!
//! Runs at the same time: any thread, under the lock, also while it holds a shard's. A handler that interrupted this very thread
//! in here does without.

use super::array::{Array, Stack};
use crate::observe::LockReport;
use crate::percpu::Region;
use core::cell::UnsafeCell;
use machine::here;
use machine::sync::{Acquired, Lock, Site};

/// Behind the shards' rank.
const SPARE_RANK: u8 = 2;

/// The stack of spare arrays; it changes by single stores, so a fork leaves it in order.
#[derive(Debug)]
#[repr(C)]
pub struct Spare {
    lock: Lock<SPARE_RANK>,
    arrays: UnsafeCell<Stack>,
}

// SAFETY: the stack is used under the lock.
unsafe impl Sync for Spare {}

impl Spare {
    /// None.
    pub const fn new() -> Self {
        Spare { lock: Lock::new(), arrays: UnsafeCell::new(Stack::new()) }
    }

    /// Puts an empty array on top. False: not here, not now.
    pub fn push(&self, region: Region, locks: &LockReport, array: Array) -> bool {
        self.locked(locks, here!(), |arrays| arrays.push(region, array)).is_some()
    }

    /// Takes an empty array.
    pub fn pop(&self, region: Region, locks: &LockReport) -> Option<Array> {
        // SAFETY: a stale look at one word; who misses an array makes a new one.
        if unsafe { self.arrays.get().cast::<usize>().read_volatile() } == 0 {
            return None;
        }
        self.locked(locks, here!(), |arrays| arrays.pop(region))?
    }

    /// Checks that all are empty, which nobody uses meanwhile; returns how many there are.
    pub fn check_valid(&self, region: Region) -> usize {
        // SAFETY: nobody else is in here.
        let arrays = unsafe { &*self.arrays.get() };
        arrays.iter(region).inspect(|array| assert_eq!(array.len(region), 0, "a spare array holds objects")).count()
    }

    fn locked<R>(&self, locks: &LockReport, site: Site, work: impl FnOnce(&mut Stack) -> R) -> Option<R> {
        if self.lock.acquire(&locks.spare, site) == Acquired::WouldDeadlock {
            return None;
        }
        // SAFETY: we hold the lock.
        let result = work(unsafe { &mut *self.arrays.get() });
        // SAFETY: acquired above.
        unsafe { self.lock.release() };
        Some(result)
    }
}
