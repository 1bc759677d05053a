//! What there is in slots, spans and caches, looked over a part at a time: for the statistics page.
//!
//! Readings take no lock but the zone's for a moment, and stop nobody; each is as it is at some moment, exact at rest. When somebody has to come along is
//! said by one word, at which slow paths look that read the clock anyway.
//!
//! Runs at the same time: any threads.

use super::General;
use super::class::CLASSES;
use super::keep::{coarse_time, is_ahead};
use super::panel::Handle;
use super::panels::STRIDE;
use super::shape::Shape;
use super::shard;
use super::table::Name;
use crate::page::{GRANULE, PageList, Span};
use core::ops::AddAssign;
use machine::sync::{AtomicU32, Ordering};

/// Granules of the heap that are looked at in one go: 16 MiB.
const GRANULES_AT_ONCE: usize = 256;

/// When somebody should come along, in coarse time. Zero: nobody has to.
#[derive(Debug)]
#[repr(transparent)]
pub struct At(AtomicU32);

impl At {
    /// Not before so many units from now.
    pub fn in_units(&self, units: u32) {
        // Relaxed, as everywhere here: who comes too early or too late does no harm.
        self.0.store(coarse_time().wrapping_add(units).max(1), Ordering::Relaxed);
    }

    /// Nobody has to.
    pub fn never(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Whether somebody ever has to.
    pub(super) fn is_asked_for(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    #[inline]
    pub(super) fn is_due(&self, time: u32) -> bool {
        match self.0.load(Ordering::Relaxed) {
            0 => false,
            at => !is_ahead(at, time),
        }
    }
}

/// What slots have of a cache, or of all caches; of which there are sums.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Parts {
    /// Arrays in the slots' words.
    pub arrays: u64,
    /// Objects in these.
    pub in_words: u64,
    /// Objects in their parts of the depot, about: as if all arrays there had as many as the topmost one.
    pub in_depot: u64,
    /// Times that a slot's array to take from ran out.
    pub refills: u64,
}

impl Parts {
    /// Free objects.
    pub fn cached(&self) -> u64 {
        self.in_words + self.in_depot
    }
}

impl AddAssign for Parts {
    fn add_assign(&mut self, other: Self) {
        let Parts { arrays, in_words, in_depot, refills } = other;
        self.arrays += arrays;
        self.in_words += in_words;
        self.in_depot += in_depot;
        self.refills += refills;
    }
}

/// Spans of a cache.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Spans {
    /// How many.
    pub spans: u64,
    /// Those of which objects are in use, or in arrays.
    pub active: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Objects that they have room for.
    pub objects: u64,
}

impl Spans {
    /// A span.
    pub(super) fn of(span: &Span) -> Self {
        let bytes = u64::from(span.granules) * GRANULE as u64;
        let objects = bytes / span.object_bytes().max(1) as u64;
        Spans { spans: 1, active: (!span.is_unused()).into(), bytes, objects }
    }
}

impl AddAssign for Spans {
    fn add_assign(&mut self, other: Self) {
        let Spans { spans, active, bytes, objects } = other;
        self.spans += spans;
        self.active += active;
        self.bytes += bytes;
        self.objects += objects;
    }
}

/// Caches of a panel; those of the first one are the general classes.
pub const PANEL: usize = CLASSES - 1;

/// The place of a cache among all there may be.
fn index_of(number: u32) -> usize {
    (number / STRIDE) as usize * PANEL + (number % STRIDE) as usize - 1
}

/// A cache at some moment.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// What people call it.
    pub name: Name,
    /// Bytes of an object.
    pub object_bytes: usize,
    /// Objects that the program and the slots' arrays hold.
    pub counted: u64,
    /// The most of these, if that is known.
    pub peak: u64,
    /// Objects that a slot keeps at most.
    pub limit: usize,
    /// Objects that move at once.
    pub batch: usize,
}

/// A cache, with what slots have of it, and its spans.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// The cache.
    pub known: Known,
    /// What slots have of it.
    pub parts: Parts,
    /// Its spans.
    pub spans: Spans,
}

impl General<'_> {
    /// Shows what a slot has of each cache: the cache's place, and bytes of an object.
    pub fn survey_slot(self, slot: u32, mut show: impl FnMut(usize, u64, Parts)) {
        for cache in self.caches().filter(|cache| cache.is_used_in(slot)) {
            show(index_of(cache.number()), cache.object_bytes() as u64, cache.part(slot));
        }
    }

    /// Bytes on a slot's page list.
    pub fn listed_bytes_of(self, slot: u32) -> u64 {
        // SAFETY: the slot's page list.
        unsafe { PageList::count(shard::page_list(self.region, slot)) as u64 * GRANULE as u64 }
    }

    /// Shows the spans of a part of the heap, from a place on, with the place of their cache. Returns where to go on;
    /// none: the heap ends there; the same place: not now.
    pub fn survey_spans(self, from: u64, mut show: impl FnMut(usize, Spans)) -> Option<u64> {
        let walk = |general: Self| {
            general
                .slab
                .zone
                .walk_spans(general.slab.locks(), from, GRANULES_AT_ONCE, |span| show_span(span, &mut show))
        };
        // As the only drainer: so no segment is released.
        self.try_as_only_drainer(walk).unwrap_or(Some(from))
    }

    /// Shows all caches with what slots have of them, but for those that go meanwhile.
    pub fn survey_all_caches(self, mut show: impl FnMut(usize, Known, Parts)) {
        for cache in self.caches() {
            if let Some(known) = cache.known() {
                show(index_of(cache.number()), known, cache.parts());
            }
        }
    }

    /// A general size class, with spans that somebody else has counted.
    pub fn class_reading(self, class: usize, spans: Spans) -> Option<Reading> {
        let cache = self.class(class);
        cache.known().map(|known| Reading { known, parts: cache.parts(), spans })
    }

    /// Shows all spans at once, without a lock.
    pub fn survey_all_spans(self, mut show: impl FnMut(usize, Spans)) {
        self.slab.zone.for_each_span(|span| show_span(span, &mut show));
    }

    /// Shows so many caches from a place on, but for those that go meanwhile. The place to go on from; none: there are no more.
    pub fn survey_caches(self, from: usize, many: usize, mut show: impl FnMut(usize, Known)) -> Option<usize> {
        let mut rest = self.caches().filter(|cache| index_of(cache.number()) >= from);
        for cache in rest.by_ref().take(many) {
            if let Some(known) = cache.known() {
                show(index_of(cache.number()), known);
            }
        }
        rest.next().map(|cache| index_of(cache.number()))
    }
}

fn show_span(span: *mut Span, show: &mut impl FnMut(usize, Spans)) {
    // SAFETY: descriptions are never freed; a reading may be stale.
    let span = unsafe { &*span };
    if span.cache != 0 {
        show(index_of(span.cache), Spans::of(span));
    }
}

impl Handle<'_> {
    /// What all slots have of the cache.
    pub(super) fn parts(self) -> Parts {
        let mut parts = Parts::default();
        self.slots().for_each(|slot| parts += self.part(slot));
        parts
    }

    fn part(self, slot: u32) -> Parts {
        let array = |takes| Handle::array_of(self.word(slot, takes), takes);
        let mut part = Parts { refills: shard::refills(self.shard(slot)).into(), ..Parts::default() };
        for array in [true, false].into_iter().filter_map(array) {
            part.arrays += 1;
            part.in_words += array.len(self.panel) as u64;
        }
        // Not all of the arrays: whoever follows their links without the lock may come anywhere.
        let topmost = shard::topmost_full(self.shard(slot)).map_or(0, |array| array.len(self.panel) as u64);
        part.in_depot = u64::from(shard::full_count(self.shard(slot))) * topmost;
        part
    }

    /// What is known of the cache. None as in [`Self::steadily`].
    pub(super) fn known(self) -> Option<Known> {
        self.steadily(|known, _| known)
    }

    /// What `read` finds of the cache, with what is known of it and its shape. None: there is no cache at the place, or another one than before; see
    /// `label`.
    pub(super) fn steadily<R>(self, read: impl FnOnce(Known, Shape) -> R) -> Option<R> {
        let cache = self.object_cache();
        let turn = match cache {
            Some(cache) => cache.label().turn()?,
            None => 0,
        };
        // Read once: a cache that is being destroyed loses its shape at any moment.
        let shape = Some(self.shape()).filter(|&shape| shape != Shape::NONE)?;
        let (name, peak) = match cache {
            Some(cache) => (Name::Created(cache.name()), 0),
            None => {
                (Name::General(shape.object_bytes()), self.slab().registry().tally.peak_objects(self.number() as usize))
            }
        };
        let (object_bytes, limit, batch) = (shape.object_bytes(), shape.limit(), shape.most());
        let found = read(Known { name, object_bytes, counted: self.counted(), peak, limit, batch }, shape);
        cache.is_none_or(|cache| cache.label().is_still(turn)).then_some(found)
    }
}
