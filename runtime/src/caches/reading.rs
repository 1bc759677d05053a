//! Reads the contents of slots, spans and caches in parts, for the statistics page and the slab table.
//!
//! Readings take no lock, except the page heap's for a moment; exact at rest. Any thread may read at any time.

use super::heap::Heap;
use super::sharing::enter;
use crate::central::size_class::CLASSES;
use crate::central::{CacheName, CacheRef, STRIDE, Shape};
use crate::cpu_cache::{Side, SlotWord};
use crate::depot::{Hints, View};
use crate::misuse::Line;
use crate::page_heap::{GRANULE, Span};
use core::fmt::{self, Write};
use core::ops::AddAssign;

/// Granules of the heap that one step looks at: 16 MiB.
const GRANULES_AT_ONCE: usize = 256;

/// A cache's name. A size class is named by its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    SizeClass(usize),
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

/// One or more slots' contents of one or more caches.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Parts {
    /// Magazines in slot words.
    pub magazines: u64,
    pub in_words: u64,
    /// Objects in the depot, estimated: each magazine counts like the topmost one.
    pub in_depot: u64,
    /// Times that an allocation magazine ran out.
    pub refills: u64,
}

impl Parts {
    pub(crate) fn cached(&self) -> u64 {
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

#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Spans {
    pub spans: u64,
    /// Spans with objects in use or in magazines.
    pub active: u64,
    pub bytes: u64,
    /// Objects that fit in them.
    pub objects: u64,
}

impl Spans {
    fn of(span: &Span) -> Self {
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

/// Caches of a chunk; the first chunk holds the size classes.
pub const CHUNK: usize = CLASSES - 1;

/// The index of a cache among all possible ones.
fn index_of(number: u32) -> usize {
    (number / STRIDE) as usize * CHUNK + (number % STRIDE) as usize - 1
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub name: Name,
    pub object_bytes: usize,
    /// Objects that the program and the slots' magazines hold.
    pub counted: u64,
    pub peak: u64,
    pub limit: usize,
    pub batch: usize,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    pub known: Known,
    pub parts: Parts,
    pub spans: Spans,
}

impl Heap {
    /// Shows a slot's contents of each cache, with the cache's index and object size.
    pub(crate) fn read_slot(&self, slot: u32, mut show: impl FnMut(usize, u64, Parts)) {
        for cache in self.central().caches().filter(|cache| cache.is_used_in(slot)) {
            show(index_of(cache.number()), cache.object_bytes() as u64, part(cache, slot));
        }
    }

    pub(crate) fn listed_bytes_of(&self, slot: u32) -> u64 {
        self.page_heap().page_list(slot).count() as u64 * GRANULE as u64
    }

    /// Shows a part of the heap's spans, with their caches' indices. Returns where to go on (`from`: not now), or none.
    pub(crate) fn read_spans(&self, from: u64, mut show: impl FnMut(usize, Spans)) -> Option<u64> {
        // As the only drainer, so that no segment is released.
        let walk = || {
            self.page_heap().walk_spans(from, GRANULES_AT_ONCE, |span, number| show(index_of(number), Spans::of(span)))
        };
        self.cpu.try_as_only_drainer(walk).unwrap_or(Some(from))
    }

    /// Shows all caches with their slots' contents, except caches that end meanwhile.
    pub(crate) fn read_all_caches(&self, mut show: impl FnMut(usize, Known, Parts)) {
        for cache in self.central().caches() {
            self.known(cache).into_iter().for_each(|known| show(index_of(cache.number()), known, parts(cache)));
        }
    }

    /// A size class, with spans counted by the caller.
    pub(crate) fn class_reading(&self, class: usize, spans: Spans) -> Option<Reading> {
        let cache = self.class(class);
        self.known(cache).map(|known| Reading { known, parts: parts(cache), spans })
    }

    /// Shows all spans at once, without a lock.
    pub(crate) fn read_all_spans(&self, mut show: impl FnMut(usize, Spans)) {
        self.page_heap().for_each_span(|span, number| show(index_of(number), Spans::of(span)));
    }

    /// Shows `many` caches from an index on, but for those that end meanwhile. Returns where to go on, or none.
    pub(crate) fn read_caches(&self, from: usize, many: usize, mut show: impl FnMut(usize, Known)) -> Option<usize> {
        let mut rest = self.central().caches().filter(|cache| index_of(cache.number()) >= from);
        for cache in rest.by_ref().take(many) {
            self.known(cache).into_iter().for_each(|known| show(index_of(cache.number()), known));
        }
        rest.next().map(|cache| index_of(cache.number()))
    }

    // ---- the slab table, like the kernel's /proc/slabinfo ----

    /// Shows all caches that have, or had, spans, except caches that end meanwhile.
    pub(crate) fn rows(&self, mut show: impl FnMut(&Reading)) {
        // Holding a lock takes an identity, which a thread that only reads may lack.
        enter();
        let rows = self.central().caches().filter_map(|cache| self.reading(cache));
        rows.filter(|row| row.spans.spans > 0).for_each(|row| show(&row));
    }

    pub(crate) fn caches_called(&self, name: &[u8]) -> impl Iterator<Item = CacheRef> {
        self.central().caches().filter(move |&cache| {
            let mut own = Line::new();
            let size_class = || Name::SizeClass(cache.object_bytes());
            let _ = write!(own, "{}", cache.state().map_or_else(size_class, |state| Name::Created(state.name())));
            own.as_bytes() == name
        })
    }

    fn reading(&self, cache: CacheRef) -> Option<Reading> {
        self.steadily(cache, |known| Reading { known, parts: parts(cache), spans: self.spans(cache) })
    }

    fn spans(&self, cache: CacheRef) -> Spans {
        let mut spans = Spans::default();
        for slot in cache.slots() {
            // Skip a held shard: its holder is changing the counts.
            let Some(held) = self.central().try_lock(cache, slot) else { continue };
            held.ring().iter().for_each(|span| spans += Spans::of(span));
        }
        if let Some(state) = cache.state() {
            self.central().for_each_waiting(state, |span| spans += Spans::of(span));
        }
        spans
    }

    // ---- one cache ----

    fn known(&self, cache: CacheRef) -> Option<Known> {
        self.steadily(cache, |known| known)
    }

    /// Reads a cache, with its properties and shape. None: no cache at the id, or it changed; see `central::label`.
    fn steadily<R>(&self, cache: CacheRef, read: impl FnOnce(Known) -> R) -> Option<R> {
        let state = cache.state();
        let turn = if let Some(state) = state { state.label().turn()? } else { 0 };
        // Read once, because destroying the cache clears its shape.
        let shape = Some(cache.shape()).filter(|&shape| shape != Shape::NONE)?;
        let (name, peak) = match state {
            Some(state) => (Name::Created(state.name()), 0),
            None => (Name::SizeClass(shape.object_bytes()), self.central().tally().peak_objects(cache.id())),
        };
        let (object_bytes, limit, batch) = (shape.object_bytes(), shape.limit(), shape.most());
        let counted = self.central().counted(cache);
        let found = read(Known { name, object_bytes, counted, peak, limit, batch });
        state.is_none_or(|state| state.label().is_still(turn)).then_some(found)
    }
}

fn parts(cache: CacheRef) -> Parts {
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
    // Only the topmost magazine: without the lock, links may lead anywhere.
    let hints = Hints::of(cache, slot);
    part.in_depot = hints.full_count() as u64 * hints.topmost_full().map_or(0, View::len) as u64;
    part
}
