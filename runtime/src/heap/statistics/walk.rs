//! The progress of a copy of the statistics page.

use super::read::Walked;
use crate::caches::{CHUNK, Parts, Spans};

/// Most caches of a page.
pub const MOST_CACHES: usize = 4 * CHUNK;

/// The progress of the copy that is being written, and the sums so far.
#[repr(C)]
pub(super) struct Walk {
    pub stage: Stage,
    pub walked: Walked,
    /// By the number of the cache; those from `used` on are zeroes.
    pub caches: [(Parts, Spans); MOST_CACHES],
    used: usize,
}

#[derive(Clone, Copy, Debug)]
#[repr(C, u32)]
pub(super) enum Stage {
    /// Slots from this one on.
    Slots(u32) = 0,
    /// Spans from this place in the heap on.
    Spans(u64),
    /// Caches from this one on.
    Caches(u64),
    Rest,
}

impl Walk {
    pub fn start(&mut self) {
        (self.stage, self.walked) = (Stage::Slots(0), Walked::default());
        self.caches[..self.used].fill(Default::default());
        self.used = 0;
    }

    pub fn cache(&mut self, place: usize) -> Option<&mut (Parts, Spans)> {
        let cache = self.caches.get_mut(place);
        self.used = self.used.max(place + 1).min(MOST_CACHES);
        cache
    }
}
