//! What is done to a cache as a whole while it is in use: setting memory aside, giving it back, and changing how much slots keep.
//!
//! Changing that means to replace the arrays of all slots: the new shape is published, so that arrays which are put to use from now on have
//! it; then the old ones are taken away as `drain` does it, which restarts whatever is in flight on other CPUs; and then they are emptied. In
//! another order, an operation in flight could put an object into an array that is somebody else's already.

use super::drain::Which;
use super::panel::Handle;
use super::reserve::Reserve;
use super::{General, NO_SLOT};
use crate::observe::Why;
use core::fmt;
use machine::{here, slot};

/// Why a cache could not be tuned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Untunable {
    /// A batch has 1 to 125 objects, and a limit is at least a batch and at most 256 of them.
    Numbers,
    /// The machine refused to restart other CPUs: their arrays stay as they are until they are retired by themselves. All others are
    /// as they should be.
    Refused,
    /// A signal handler interrupted somebody who does such things. Nothing happened.
    Interrupting,
    /// There is no memory for the cache, which does not exist yet.
    NoMemory,
}

impl fmt::Display for Untunable {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Untunable::Numbers => "a batch has 1 to 125 objects, and a limit is at least one batch and at most 256",
            Untunable::Refused => "the kernel refused membarrier, so arrays of other CPUs stay as they are for a while",
            Untunable::NoMemory => "no memory for the cache, which does not exist yet",
            Untunable::Interrupting => "a cache cannot be tuned by a signal handler that interrupted a drain",
        })
    }
}

impl core::error::Error for Untunable {}

impl Handle<'_> {
    /// See [`ObjectCache::tune`](super::ObjectCache::tune).
    pub(super) fn tune(self, limit: usize, batch: usize) -> Result<(), Untunable> {
        let shape = self.shape().tuned(limit, batch).ok_or(Untunable::Numbers)?;
        if !self.exists() {
            // A general class serves it.
            return Ok(());
        }
        let replace = |general: General<'_>| {
            self.set_shape(shape);
            general.drain_arrays(Which::One(self), Why::Tune)
        };
        let drained = self.general().as_only_drainer(here!(), replace).ok_or(Untunable::Interrupting)?;
        if drained.refused { Err(Untunable::Refused) } else { Ok(()) }
    }

    /// See [`ObjectCache::shrink`](super::ObjectCache::shrink).
    pub(super) fn shrink(self) -> usize {
        if !self.exists() {
            return 0;
        }
        let shrink = |general: General<'_>| general.drain(Which::One(self), Why::Shrink);
        self.general().as_only_drainer(here!(), shrink).unwrap_or(0)
    }

    /// See [`ObjectCache::prefill`](super::ObjectCache::prefill).
    pub(super) fn prefill(self, reserve: &Reserve, objects: usize) -> bool {
        let slot = self.slot_for_spans(slot::current());
        while reserve.objects(self) < objects {
            let Some(array) = self.fill_by_all_means(slot, self.shape().most()) else { return false };
            // What is set aside counts as in the depot.
            self.count(-(array.len(self.panel) as isize));
            if !reserve.push(self, array) {
                self.flush(slot, array);
                return false;
            }
        }
        true
    }

    /// An object that was set aside.
    pub(super) fn take_reserved(self, reserve: &Reserve) -> Option<*mut u8> {
        let mut array = reserve.pop(self)?;
        let object = array.pop(self.panel);
        self.count(1);
        if array.is_empty(self.panel) || !reserve.push(self, array) {
            self.count(array.len(self.panel) as isize);
            self.stow(slot::current().unwrap_or(NO_SLOT), array);
        }
        object
    }

    /// Gives what was set aside back to its spans.
    pub(super) fn end_reserve(self, reserve: &Reserve) {
        while let Some(array) = reserve.pop(self) {
            self.flush(slot::current().unwrap_or(NO_SLOT), array);
        }
    }
}
