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
use core::fmt::{self, Write};

/// A cache, read.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// What people call it.
    pub name: Name,
    /// Objects that the program has.
    pub active_objects: u64,
    /// Objects that there is room for.
    pub objects: u64,
    /// Bytes of an object.
    pub object_bytes: usize,
    /// Objects of a span.
    pub objects_per_span: u64,
    /// Pages of a span.
    pub pages_per_span: u64,
    /// Objects that a slot keeps at most; of a cache that nobody tuned, while it is as hot as can be.
    pub limit: u64,
    /// Objects that move at once.
    pub batch: u64,
    /// Spans of which objects are in use, or in arrays.
    pub active_spans: u64,
    /// Spans.
    pub spans: u64,
}

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
    pub fn rows(self, mut show: impl FnMut(Row)) {
        // To hold a lock takes an identity, and whoever only asks may have none yet.
        sharing::enter();
        self.caches().filter_map(Handle::row_if_it_stays).filter(|row| row.spans > 0).for_each(&mut show);
    }
}

impl Handle<'_> {
    /// Whether people call it so.
    pub(super) fn is_called(self, name: &[u8]) -> bool {
        let mut own = Line::new();
        let _ = write!(own, "{}", self.name());
        own.as_bytes() == name
    }

    fn name(self) -> Name {
        let general = || Name::General(self.shape().object_bytes());
        self.object_cache().map_or_else(general, |cache| Name::Created(cache.name()))
    }

    /// None: there is no cache at the place, or another one than before; see `label`.
    fn row_if_it_stays(self) -> Option<Row> {
        let Some(cache) = self.object_cache() else { return Some(self.row(self.shape())) };
        let turn = cache.label().turn()?;
        // Looked at again: it may have gone before its turn was noted.
        let row = Some(self.shape()).filter(|shape| *shape != Shape::NONE).map(|shape| self.row(shape))?;
        cache.label().is_still(turn).then_some(row)
    }

    fn row(self, shape: Shape) -> Row {
        let pages_per_span = shape.granules() as u64 * (crate::page::GRANULE / crate::page::PAGE) as u64;
        let objects_per_span = pages_per_span * crate::page::PAGE as u64 / shape.object_bytes().max(1) as u64;
        let lingering = self.object_cache().map_or(0, |cache| cache.lingering.count(self));
        let (mut spans, mut active_spans) = (lingering as u64, 0);
        for slot in self.slots() {
            // Whoever holds it changes what we would count.
            let Some(held) = Held::try_lock(self, slot) else { continue };
            for span in held.spans.iter() {
                spans += 1;
                // SAFETY: spans in the ring belong to the shard that we hold.
                active_spans += u64::from(!unsafe { (*span).is_unused() });
            }
        }
        Row {
            name: self.name(),
            active_objects: self.alive() as u64,
            objects: spans * objects_per_span,
            object_bytes: shape.object_bytes(),
            objects_per_span,
            pages_per_span,
            limit: shape.limit() as u64,
            batch: shape.most() as u64,
            active_spans,
            spans,
        }
    }
}
