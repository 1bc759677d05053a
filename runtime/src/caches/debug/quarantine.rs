//! The quarantine: freed objects wait here before reuse, and late writes to them are found when they leave.
//!
//! A queue through records. Runs at the same time: any thread, under the lock; a handler above its holder does without.

use super::record::Record;
use crate::observe::LockReport;
use core::cell::UnsafeCell;
use core::ptr::null_mut;
use machine::here;
use machine::sync::{Acquired, Lock, Ordering, Site};

/// Most bytes in each cache's quarantine.
pub(super) const MOST_BYTES: usize = 1 << 20;
/// As the spare magazines' lock: its holder takes no further lock.
const RANK: u8 = 2;

/// The queue. All-zero memory: empty.
#[derive(Debug)]
pub(super) struct Quarantine {
    lock: Lock<RANK>,
    queue: UnsafeCell<Queue>,
}

#[derive(Debug)]
struct Queue {
    first: *mut u8,
    last: *mut u8,
    len: usize,
}

// SAFETY: the queue is used under the lock.
unsafe impl Sync for Quarantine {}

impl Quarantine {
    /// Adds a free object. False: in a signal handler that must not wait.
    pub fn push(&self, locks: &LockReport, whole: *mut u8) -> bool {
        self.locked(locks, here!(), |queue| queue.push(whole)).is_some()
    }

    /// Removes the oldest object, if objects of `bytes` take more than `most` bytes.
    pub fn pop_beyond(&self, locks: &LockReport, most: usize, bytes: usize) -> Option<*mut u8> {
        self.locked(locks, here!(), |queue| if queue.len * bytes > most { queue.pop() } else { None })?
    }

    /// Number of objects, at rest.
    pub fn len(&self) -> usize {
        // SAFETY: no other thread is here.
        unsafe { (*self.queue.get()).len }
    }

    fn locked<R>(&self, locks: &LockReport, site: Site, work: impl FnOnce(&mut Queue) -> R) -> Option<R> {
        let acquired = self.lock.acquire(&locks.quarantines, site);
        if acquired == Acquired::WouldDeadlock {
            return None;
        }
        // SAFETY: we hold the lock.
        let queue = unsafe { &mut *self.queue.get() };
        if acquired == Acquired::Abandoned {
            queue.repair();
        }
        let result = work(queue);
        // SAFETY: acquired above.
        unsafe { self.lock.release() };
        Some(result)
    }
}

impl Queue {
    fn push(&mut self, whole: *mut u8) {
        // SAFETY: the queued objects and the new one have records, whose links are ours.
        unsafe {
            Record::of(whole).next().store(null_mut(), Ordering::Relaxed);
            match self.last.is_null() {
                true => self.first = whole,
                false => Record::of(self.last).next().store(whole.cast(), Ordering::Relaxed),
            }
        }
        self.last = whole;
        self.len += 1;
    }

    fn pop(&mut self) -> Option<*mut u8> {
        let whole = self.first;
        if whole.is_null() {
            return None;
        }
        // SAFETY: as above. After an overwritten record the queue drops the rest, and the check ends the program.
        let next = unsafe { Record::of(whole).is_marked().then(|| Record::of(whole).next().load(Ordering::Relaxed)) };
        self.first = next.unwrap_or(null_mut()).cast();
        if self.first.is_null() {
            self.last = null_mut();
        }
        self.len -= 1;
        Some(whole)
    }

    /// After the lock's holder vanished in a fork: the links are right, the end and the length may not be.
    fn repair(&mut self) {
        (self.last, self.len) = (null_mut(), 0);
        let mut next = self.first;
        while !next.is_null() {
            self.last = next;
            self.len += 1;
            // SAFETY: as above.
            next = unsafe { Record::of(next).next().load(Ordering::Relaxed) }.cast();
        }
    }
}
