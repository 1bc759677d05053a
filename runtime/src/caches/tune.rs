//! What is done to a cache as a whole while it is in use: giving memory back, and changing how much slots keep.
//!
//! Changing that means to replace the magazines of all slots: the new shape is published, so that magazines which are
//! put to use from now on have it; then the old ones are taken away as `drain` does it, which restarts whatever is in
//! flight on other CPUs; and then they are emptied. In another order, an operation in flight could put an object into a
//! magazine that is somebody else's already.

use super::errors::Untunable;
use super::heap::Heap;
use crate::central::CacheRef;
use crate::cpu_cache::Which;
use crate::observe::Why;
use machine::here;

impl Heap {
    /// See [`ObjectCache::tune`](super::ObjectCache::tune).
    pub(crate) fn tune(&self, cache: CacheRef, limit: usize, batch: usize) -> Result<(), Untunable> {
        let shape = cache.shape().tuned(limit, batch).ok_or(Untunable::Numbers)?;
        if !cache.exists() {
            // A size class serves it.
            return Ok(());
        }
        let replace = || {
            cache.set_shape(shape);
            self.cpu.drain_magazines(Which::One(cache), Why::Tune)
        };
        let drained = self.cpu.as_only_drainer(here!(), replace).ok_or(Untunable::Interrupting)?;
        if drained.refused { Err(Untunable::Refused) } else { Ok(()) }
    }

    /// See [`ObjectCache::shrink`](super::ObjectCache::shrink).
    pub(super) fn shrink(&self, cache: CacheRef) -> usize {
        if !cache.exists() {
            return 0;
        }
        self.cpu.as_only_drainer(here!(), || self.cpu.drain(Which::One(cache), Why::Shrink)).unwrap_or(0)
    }
}
