//! The state of a debug cache, and its quarantine. Freed objects wait there before reuse, and late writes to them are
//! found when they leave. The quarantine is a queue through records, under a lock; a handler above its holder does
//! without.

use super::layout::{FREED, Found, Layout, Options, Record, State, UNSET, ZONE};
use super::report::{self, Moment};
use crate::central::CacheState;
use crate::observe::LockReport;
use core::cell::UnsafeCell;
use core::ptr::null_mut;
use machine::here;
use machine::sync::{Acquired, Lock, Ordering, Site};

/// Most bytes in each cache's quarantine.
pub(super) const MOST_BYTES: usize = 1 << 20;
/// As the spare magazines' lock: its holder takes no further lock.
const RANK: u8 = 2;

/// A cache's debug state. All-zero memory: debugging is off.
#[derive(Debug)]
pub struct Debug {
    /// Does not change while the cache is known.
    pub(super) layout: UnsafeCell<Layout>,
    pub(super) quarantine: Quarantine,
}

// SAFETY: see the fields.
unsafe impl Sync for Debug {}

impl Debug {
    pub(super) fn layout(&self) -> Layout {
        // SAFETY: it does not change while the cache is known.
        unsafe { *self.layout.get() }
    }

    pub fn is_on(&self) -> bool {
        self.layout().options != Options::NONE
    }

    pub fn quarantined(&self) -> usize {
        self.quarantine.len()
    }

    /// Makes a free object one of `bytes` bytes in use. None: it is damaged, and was reported.
    /// Safety: the caller owns it.
    pub(super) unsafe fn employ(
        &self, cache: &CacheState, whole: *mut u8, bytes: usize, from: usize,
    ) -> Option<*mut u8> {
        let layout = self.layout();
        // SAFETY: passed on.
        unsafe {
            if !self.check_unused(cache, whole, Moment::BeforeUse) {
                return None;
            }
            let record = Record::of(whole);
            record.become_busy(State::Free);
            record.set_bytes(bytes);
            if layout.options.has(Options::POISON) {
                layout.fill_from(whole, 0, UNSET);
            }
            if layout.options.has(Options::REDZONE) {
                layout.fill_from(whole, bytes, ZONE);
            }
            record.sign(layout.options, State::InUse, from);
        }
        Some(layout.object(whole))
    }

    /// Makes an object in use free. False: it is misused, and was reported.
    /// Safety: an object of the cache begins there.
    pub(super) unsafe fn retire(&self, cache: &CacheState, whole: *mut u8, from: usize) -> bool {
        let layout = self.layout();
        // SAFETY: passed on.
        unsafe {
            let refuse = |found| {
                report::report(cache, layout, whole, found, Moment::Freed(from));
                false
            };
            let Some(record) = layout.record_of(whole) else { return refuse(Found::Record) };
            if !record.become_busy(State::InUse) {
                return refuse(Found::Twice);
            }
            if let Some(found) = layout.damage_around(whole, record.bytes()) {
                // It stays busy, and so is not told again when the program exits.
                return refuse(found);
            }
            if layout.options.has(Options::POISON) {
                layout.fill_from(whole, 0, FREED);
            }
            record.sign(layout.options, State::Free, from);
        }
        true
    }

    /// Whether a free object is as it should be. If the program wrote to it, reports that; the object stays busy, so
    /// that it is not told again.
    /// Safety: the object is free, and the caller owns it.
    pub(super) unsafe fn check_unused(&self, cache: &CacheState, whole: *mut u8, moment: Moment) -> bool {
        // SAFETY: passed on.
        let Some(found) = (unsafe { self.damage(whole) }) else { return true };
        report::report(cache, self.layout(), whole, found, moment);
        // SAFETY: passed on.
        if let Some(record) = unsafe { self.layout().record_of(whole) } {
            record.become_busy(State::Free);
        }
        false
    }

    /// Damage to an object, in use or free.
    /// Safety: it belongs to the cache. If other threads may use it, damage may be a change under way.
    pub(super) unsafe fn damage(&self, whole: *mut u8) -> Option<Found> {
        let layout = self.layout();
        // SAFETY: passed on.
        unsafe {
            let Some(record) = layout.record_of(whole) else { return Some(Found::Record) };
            match record.state() {
                State::Free if layout.options.has(Options::POISON) => layout.damage_within(whole),
                State::Free | State::InUse => layout.damage_around(whole, record.bytes()),
                State::Busy => None,
            }
        }
    }
}

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
            Record::of(whole).next.store(null_mut(), Ordering::Relaxed);
            match self.last.is_null() {
                true => self.first = whole,
                false => Record::of(self.last).next.store(whole.cast(), Ordering::Relaxed),
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
        let next = unsafe { Record::of(whole).is_marked().then(|| Record::of(whole).next.load(Ordering::Relaxed)) };
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
            next = unsafe { Record::of(next).next.load(Ordering::Relaxed) }.cast();
        }
    }
}
