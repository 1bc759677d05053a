//! The state of a debug cache.

use super::layout::{FREED, Layout, UNSET, ZONE};
use super::options::{Found, Options};
use super::quarantine::Quarantine;
use super::record::{Record, State};
use super::report::{self, Moment};
use crate::central::CacheState;
use core::cell::UnsafeCell;

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

    /// Whether any option is set.
    pub fn is_on(&self) -> bool {
        self.layout().options != Options::NONE
    }

    /// Bytes before an object.
    pub fn lead(&self) -> usize {
        self.layout().lead
    }

    /// Objects in quarantine, at rest.
    pub fn quarantined(&self) -> usize {
        self.quarantine.len()
    }

    /// Makes a free object of fresh memory.
    ///
    /// # Safety
    /// The caller owns `whole`, which is as large as the layout says.
    pub unsafe fn begin(&self, whole: *mut u8) {
        let layout = self.layout();
        // SAFETY: passed on.
        unsafe {
            Record::begin(whole, layout.options);
            let record = Record::of(whole);
            record.set_bytes(layout.bytes);
            layout.fill_before(whole);
            layout.fill_from(whole, 0, layout.unused_byte());
            record.settle(State::Free);
        }
    }

    /// Undoes it, so that later users of the memory find no object.
    ///
    /// # Safety
    /// As above.
    pub unsafe fn end(&self, whole: *mut u8) {
        // SAFETY: passed on.
        unsafe { Record::end(whole) };
    }

    /// Makes a free object one of `bytes` bytes in use.
    ///
    /// # Safety
    /// The caller owns it.
    pub(super) unsafe fn employ(&self, cache: &CacheState, whole: *mut u8, bytes: usize, from: usize) -> *mut u8 {
        let layout = self.layout();
        // SAFETY: passed on.
        unsafe {
            self.check_unused(cache, whole, Moment::BeforeUse);
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
        layout.object(whole)
    }

    /// Makes an object in use free. Ends the program if it is misused.
    ///
    /// # Safety
    /// An object of the cache begins there.
    pub(super) unsafe fn retire(&self, cache: &CacheState, whole: *mut u8, from: usize) {
        let layout = self.layout();
        // SAFETY: passed on.
        unsafe {
            let die = |found, moment| report::die(cache, layout, whole, found, moment);
            let Some(record) = layout.record_of(whole) else { die(Found::Record, Moment::Freed(from)) };
            if !record.become_busy(State::InUse) {
                die(Found::Twice, Moment::Freed(from));
            }
            if let Some(found) = layout.damage_around(whole, record.bytes()) {
                die(found, Moment::Freed(from));
            }
            if layout.options.has(Options::POISON) {
                layout.fill_from(whole, 0, FREED);
            }
            record.sign(layout.options, State::Free, from);
        }
    }

    /// Ends the program if the program wrote to a free object.
    ///
    /// # Safety
    /// The object is free, and the caller owns it.
    pub(super) unsafe fn check_unused(&self, cache: &CacheState, whole: *mut u8, moment: Moment) {
        // SAFETY: passed on.
        if let Some(found) = unsafe { self.damage(whole) } {
            report::die(cache, self.layout(), whole, found, moment);
        }
    }

    /// Damage to an object, in use or free.
    ///
    /// # Safety
    /// It belongs to the cache. If other threads may use it, damage may be a change under way.
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
