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
use crate::page::{GRANULE, PageList};
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

/// A slot's part of a cache.
#[derive(Clone, Copy, Debug, Default)]
pub struct Part {
    /// Arrays in the slot's words.
    pub arrays: u64,
    /// Objects in these.
    pub in_words: u64,
    /// Objects in its part of the depot, about: as if all arrays there had as many as the topmost one.
    pub in_depot: u64,
    /// Times that the slot's array to take from ran out.
    pub refills: u64,
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

impl General<'_> {
    /// Shows what a slot has of each cache: the cache's place, and bytes of an object.
    pub fn survey_slot(self, slot: u32, mut show: impl FnMut(usize, u64, Part)) {
        for cache in self.caches().filter(|cache| cache.is_used_in(slot)) {
            show(index_of(cache.number()), cache.object_bytes() as u64, cache.part(slot));
        }
    }

    /// Bytes on a slot's page list.
    pub fn listed_bytes_of(self, slot: u32) -> u64 {
        // SAFETY: the slot's page list.
        unsafe { PageList::count(shard::page_list(self.region, slot)) as u64 * GRANULE as u64 }
    }

    /// Shows the spans of a part of the heap, from a place on, as the place of their cache, their bytes, and objects that they have room for. Where to go on; none: the
    /// heap ends there. The same place: not now.
    pub fn survey_spans(self, from: u64, mut show: impl FnMut(usize, u64, u64)) -> Option<u64> {
        let walk = |general: Self| {
            general.slab.zone.walk_spans(general.slab.locks(), from, GRANULES_AT_ONCE, |span| {
                // SAFETY: descriptions are never freed; a reading may be stale.
                let span = unsafe { &*span };
                let bytes = span.granules as u64 * GRANULE as u64;
                if span.cache != 0 {
                    show(index_of(span.cache), bytes, bytes / span.object_bytes().max(1) as u64);
                }
            })
        };
        // As the only drainer: so no segment is released.
        self.try_as_only_drainer(walk).unwrap_or(Some(from))
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

impl Handle<'_> {
    fn part(self, slot: u32) -> Part {
        let array = |takes| Handle::array_of(self.word(slot, takes), takes);
        let mut part = Part { refills: shard::refills(self.shard(slot)).into(), ..Part::default() };
        for array in [true, false].into_iter().filter_map(array) {
            part.arrays += 1;
            part.in_words += array.len(self.panel) as u64;
        }
        // Not all of the arrays: whoever follows their links without the lock may come anywhere.
        let topmost = shard::topmost_full(self.shard(slot)).map_or(0, |array| array.len(self.panel) as u64);
        part.in_depot = u64::from(shard::full_count(self.shard(slot))) * topmost;
        part
    }

    /// None: there is no cache at the place, or another one than before; see `label`.
    fn known(self) -> Option<Known> {
        let Some(cache) = self.object_cache() else {
            let peak = self.slab().registry().tally.peak_objects(self.number() as usize);
            return Some(self.known_as(Name::General(self.object_bytes()), peak));
        };
        let turn = cache.label().turn()?;
        let known = (self.shape() != Shape::NONE).then(|| self.known_as(Name::Created(cache.name()), 0))?;
        cache.label().is_still(turn).then_some(known)
    }

    fn known_as(self, name: Name, peak: u64) -> Known {
        let shape = self.shape();
        let (limit, batch) = (shape.limit(), shape.most());
        Known { name, object_bytes: self.object_bytes(), counted: self.counted(), peak, limit, batch }
    }
}
