//! The slab table: each cache's figures, like the kernel's /proc/slabinfo. Only slow paths read it; exact at rest.

use super::heap::Heap;
use super::reading::{Name, Reading, Spans, parts};
use super::sharing::enter;
use crate::central::{CacheRef, Shape};
use crate::misuse::Line;
use crate::page_heap::GRANULE;
use core::fmt::Write;

impl Heap {
    /// Shows all caches that have, or had, spans, except caches that end meanwhile.
    pub fn rows(&self, mut show: impl FnMut(&Reading)) {
        // Holding a lock takes an identity, which a thread that only reads may lack.
        enter();
        let rows = self.central().caches().filter_map(|cache| self.reading(cache));
        rows.filter(|row| row.spans.spans > 0).for_each(|row| show(&row));
    }

    /// The caches of a name.
    pub fn caches_called(&self, name: &[u8]) -> impl Iterator<Item = CacheRef> {
        self.central().caches().filter(move |&cache| {
            let mut own = Line::new();
            let size_class = || Name::SizeClass(cache.object_bytes());
            let _ = write!(own, "{}", cache.state().map_or_else(size_class, |state| Name::Created(state.name())));
            own.as_bytes() == name
        })
    }

    fn reading(&self, cache: CacheRef) -> Option<Reading> {
        self.steadily(cache, |known, shape| Reading { known, parts: parts(cache), spans: self.spans(cache, shape) })
    }

    fn spans(&self, cache: CacheRef, shape: Shape) -> Spans {
        let mut spans = Spans::default();
        for slot in cache.slots() {
            // Skip a held shard: its holder is changing the counts.
            let Some(held) = self.central().try_lock(cache, slot) else { continue };
            held.ring().iter().for_each(|span| spans += Spans::of(span));
        }
        let waiting = cache.state().map_or(0, |state| self.central().count_waiting(state)) as u64;
        let bytes = shape.granules() as u64 * GRANULE as u64;
        let objects = bytes / shape.object_bytes().max(1) as u64;
        spans += Spans { spans: waiting, active: 0, bytes: waiting * bytes, objects: waiting * objects };
        spans
    }
}
