//! Changes to a whole cache in use: returning memory, and setting how much slots keep.
//!
//! Tuning replaces the magazines of all slots, in this order. It publishes the new shape, so that new magazines have
//! it. It takes the old magazines away as `drain` does, which restarts operations on other CPUs. Then it empties them.
//! In another order, an operation in flight could put an object into a magazine that has a new owner.

use super::errors::Untunable;
use super::heap::Heap;
use crate::central::CacheRef;
use crate::cpu_cache::Which;
use crate::observe::Why;
use machine::here;

impl Heap {
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

    pub(super) fn shrink(&self, cache: CacheRef) -> usize {
        if !cache.exists() {
            return 0;
        }
        self.cpu.as_only_drainer(here!(), || self.cpu.drain(Which::One(cache), Why::Shrink)).unwrap_or(0)
    }
}
