//! The slab table: what each cache has, as the kernel's /proc/slabinfo tells it.
//!
//! Read on slow paths only; exact at rest.

use super::General;
use super::label::CacheName;
use super::misuse::Line;
use super::panel::Handle;
use super::shape::Shape;
use super::shard::Held;
use super::sharing;
use super::survey::{Reading, Spans};
use crate::page::GRANULE;
use core::fmt::{self, Write};

/// A cache's name: that of a general class tells its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// A general class, of objects of so many bytes.
    General(usize),
    /// A cache that somebody created.
    Created(CacheName),
}

impl fmt::Display for Name {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Name::General(bytes) => write!(out, "malloc-{bytes}"),
            Name::Created(name) => name.fmt(out),
        }
    }
}

impl General<'_> {
    /// Shows all caches that have, or had, anything, but for those that go meanwhile.
    pub fn rows(self, mut show: impl FnMut(&Reading)) {
        // To hold a lock takes an identity, and whoever only asks may have none yet.
        sharing::enter();
        self.caches().filter_map(Handle::reading).filter(|row| row.spans.spans > 0).for_each(|row| show(&row));
    }
}

impl Handle<'_> {
    /// Whether people call it so.
    pub(super) fn is_called(self, name: &[u8]) -> bool {
        let mut own = Line::new();
        let general = || Name::General(self.shape().object_bytes());
        let _ = write!(own, "{}", self.object_cache().map_or_else(general, |cache| Name::Created(cache.name())));
        own.as_bytes() == name
    }

    fn reading(self) -> Option<Reading> {
        self.steadily(|known, shape| Reading { known, parts: self.parts(), spans: self.spans(shape) })
    }

    fn spans(self, shape: Shape) -> Spans {
        let mut spans = Spans::default();
        for slot in self.slots() {
            // Whoever holds it changes what we would count.
            let Some(held) = Held::try_lock(self, slot) else { continue };
            // SAFETY: spans in the ring belong to the shard that we hold.
            held.spans.iter().for_each(|span| spans += Spans::of(unsafe { &*span }));
        }
        let lingering = self.object_cache().map_or(0, |cache| cache.lingering.count(self)) as u64;
        let bytes = shape.granules() as u64 * GRANULE as u64;
        let objects = bytes / shape.object_bytes().max(1) as u64;
        spans += Spans { spans: lingering, active: 0, bytes: lingering * bytes, objects: lingering * objects };
        spans
    }
}
