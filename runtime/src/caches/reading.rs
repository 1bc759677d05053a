//! What there is in slots, spans and caches, read a part at a time: for the statistics page and the slab table.
//!
//! Readings take no lock but the page heap's for a moment, and stop nobody; each is as it is at some moment, exact at
//! rest.
//!
//! Runs at the same time: any threads.

use super::heap::Heap;
use crate::central::size_class::CLASSES;
use crate::central::{CacheName, CacheRef, STRIDE, Shape};
use crate::cpu_cache::{Side, SlotWord};
use crate::depot::{Hints, View};
use crate::page_heap::{GRANULE, Span};
use core::fmt;
use core::ops::AddAssign;

/// Granules of the heap that are looked at in one go: 16 MiB.
const GRANULES_AT_ONCE: usize = 256;

/// A cache's name: that of a size class tells its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// A size class, of objects of so many bytes.
    SizeClass(usize),
    /// A cache that somebody created.
    Created(CacheName),
}

impl fmt::Display for Name {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Name::SizeClass(bytes) => write!(out, "malloc-{bytes}"),
            Name::Created(name) => name.fmt(out),
        }
    }
}

/// What slots have of a cache, or of all caches; of which there are sums.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Parts {
    /// Magazines in the slots' words.
    pub magazines: u64,
    /// Objects in these.
    pub in_words: u64,
    /// Objects in their parts of the depot, about: as if all magazines there had as many as the topmost one.
    pub in_depot: u64,
    /// Times that a slot's allocation magazine ran out.
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
        let Parts { magazines, in_words, in_depot, refills } = other;
        self.magazines += magazines;
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
    /// Those of which objects are in use, or in magazines.
    pub active: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Objects that they have room for.
    pub objects: u64,
}

impl Spans {
    /// A span.
    pub(super) fn of(span: &Span) -> Self {
        let bytes = u64::from(span.granules()) * GRANULE as u64;
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

/// Caches of a chunk; those of the first one are the size classes.
pub const CHUNK: usize = CLASSES - 1;

/// The place of a cache among all there may be.
fn index_of(number: u32) -> usize {
    (number / STRIDE) as usize * CHUNK + (number % STRIDE) as usize - 1
}

/// A cache at some moment.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// What people call it.
    pub name: Name,
    /// Bytes of an object.
    pub object_bytes: usize,
    /// Objects that the program and the slots' magazines hold.
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

impl Heap {
    /// Shows what a slot has of each cache: the cache's place, and bytes of an object.
    pub fn read_slot(&self, slot: u32, mut show: impl FnMut(usize, u64, Parts)) {
        for cache in self.central().caches().filter(|cache| cache.is_used_in(slot)) {
            show(index_of(cache.number()), cache.object_bytes() as u64, part(cache, slot));
        }
    }

    /// Bytes on a slot's page list.
    pub fn listed_bytes_of(&self, slot: u32) -> u64 {
        self.page_heap().page_list(slot).count() as u64 * GRANULE as u64
    }

    /// Shows the spans of a part of the heap, from a place on, with the place of their cache. Returns where to go on;
    /// none: the heap ends there; the same place: not now.
    pub fn read_spans(&self, from: u64, mut show: impl FnMut(usize, Spans)) -> Option<u64> {
        // As the only drainer: so no segment is released.
        let walk = || self.page_heap().walk_spans(from, GRANULES_AT_ONCE, |span| show_span(span, &mut show));
        self.cpu.try_as_only_drainer(walk).unwrap_or(Some(from))
    }

    /// Shows all caches with what slots have of them, but for those that go meanwhile.
    pub fn read_all_caches(&self, mut show: impl FnMut(usize, Known, Parts)) {
        for cache in self.central().caches() {
            if let Some(known) = self.known(cache) {
                show(index_of(cache.number()), known, parts(cache));
            }
        }
    }

    /// A size class, with spans that somebody else has counted.
    pub fn class_reading(&self, class: usize, spans: Spans) -> Option<Reading> {
        let cache = self.class(class);
        self.known(cache).map(|known| Reading { known, parts: parts(cache), spans })
    }

    /// Shows all spans at once, without a lock.
    pub fn read_all_spans(&self, mut show: impl FnMut(usize, Spans)) {
        self.page_heap().for_each_span(|span| show_span(span, &mut show));
    }

    /// Shows so many caches from a place on, but for those that go meanwhile. The place to go on from; none: there are
    /// no more.
    pub fn read_caches(&self, from: usize, many: usize, mut show: impl FnMut(usize, Known)) -> Option<usize> {
        let mut rest = self.central().caches().filter(|cache| index_of(cache.number()) >= from);
        for cache in rest.by_ref().take(many) {
            if let Some(known) = self.known(cache) {
                show(index_of(cache.number()), known);
            }
        }
        rest.next().map(|cache| index_of(cache.number()))
    }

    /// What is known of a cache. None as in [`Self::steadily`].
    fn known(&self, cache: CacheRef) -> Option<Known> {
        self.steadily(cache, |known, _| known)
    }

    /// What `read` finds of a cache, with what is known of it and its shape. None: there is no cache at the id, or
    /// another one than before; see `central::label`.
    pub(super) fn steadily<R>(&self, cache: CacheRef, read: impl FnOnce(Known, Shape) -> R) -> Option<R> {
        let state = cache.state();
        let turn = match state {
            Some(state) => state.label().turn()?,
            None => 0,
        };
        // Read once: a cache that is being destroyed loses its shape at any moment.
        let shape = Some(cache.shape()).filter(|&shape| shape != Shape::NONE)?;
        let (name, peak) = match state {
            Some(state) => (Name::Created(state.name()), 0),
            None => (Name::SizeClass(shape.object_bytes()), self.central().tally().peak_objects(cache.id())),
        };
        let (object_bytes, limit, batch) = (shape.object_bytes(), shape.limit(), shape.most());
        let counted = self.central().counted(cache);
        let found = read(Known { name, object_bytes, counted, peak, limit, batch }, shape);
        state.is_none_or(|state| state.label().is_still(turn)).then_some(found)
    }
}

fn show_span(span: &Span, show: &mut impl FnMut(usize, Spans)) {
    if span.cache() != 0 {
        show(index_of(span.cache()), Spans::of(span));
    }
}

/// What all slots have of a cache.
pub(super) fn parts(cache: CacheRef) -> Parts {
    let mut parts = Parts::default();
    cache.slots().for_each(|slot| parts += part(cache, slot));
    parts
}

fn part(cache: CacheRef, slot: u32) -> Parts {
    let mut part = Parts { refills: cache.load(slot).refills().into(), ..Parts::default() };
    for magazine in Side::BOTH.into_iter().filter_map(|side| SlotWord::new(cache, slot, side).view()) {
        part.magazines += 1;
        part.in_words += magazine.len() as u64;
    }
    // Not all of the magazines: whoever follows their links without the lock may come anywhere.
    let hints = Hints::of(cache, slot);
    part.in_depot = hints.full_count() as u64 * hints.topmost_full().map_or(0, View::len) as u64;
    part
}
