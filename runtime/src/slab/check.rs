//! The slab's invariants, as code: every object is in exactly one place, in use, in an array, or free in its span; and
//! every array and every span is where its kind belongs.
//!
//! For tests: nobody else may be in the heap. No lock is taken, so that a failed check leaves none held.

use super::array::{Array, DRAINING};
use super::lingering::NOBODY;
use super::panel::Handle;
use super::spans::Spans;
use super::{General, NO_SLOT, shard};
use crate::page::{GRANULE, PAGE, PageList, Span};
use machine::slot;

/// What was found.
#[derive(Debug)]
pub struct SlabFound {
    /// Objects outside of their spans: in use, or in arrays.
    pub given: usize,
    /// Objects in arrays.
    pub cached: usize,
    /// Pages of all spans, those on page lists included.
    pub span_pages: u64,
    spans: usize,
    arrays: u64,
}

impl General<'_> {
    /// Checks every slot, shard and span, and shows each object that an array holds; each violation panics.
    pub fn check_valid(self, show_cached: &mut dyn FnMut(*mut u8)) -> SlabFound {
        let mut found = SlabFound { given: 0, cached: 0, span_pages: 0, spans: 0, arrays: 0 };
        for slot in slots() {
            // SAFETY: the slot's page list.
            found.span_pages +=
                unsafe { PageList::check_valid(shard::page_list(self.region, slot)) } as u64 * (GRANULE / PAGE) as u64;
        }
        self.caches().for_each(|cache| cache.check_valid(&mut found, show_cached));
        self.check_shares(slots());
        found.arrays += self.slab.registry().spare.0.check_valid(self.region) as u64;
        let mut spans = 0;
        self.slab.zone.for_each_span(|_| spans += 1);
        assert_eq!(found.spans, spans, "spans in shards' rings, and spans that a cache has");
        assert_eq!(found.arrays, self.slab.registry().rare.0.arrays.get(), "arrays found, and arrays made");
        found
    }
}

impl Handle<'_> {
    fn check_valid(self, found: &mut SlabFound, show: &mut dyn FnMut(*mut u8)) {
        // Objects outside of their spans and of depots.
        let mut out = 0;
        for slot in slots() {
            self.check_words(slot, found, show);
            self.check_shard(slot, found, &mut out, show);
            // SAFETY: a shard of the panel.
            let has_spans = unsafe { !Spans::seems_empty(&raw const (*self.shard(slot)).spans) };
            let holds = self.take_word(slot) | self.give_word(slot) != 0 || shard::seems_to_hold(self.shard(slot));
            assert!(!holds && !has_spans || self.is_used_in(slot), "slot {slot} is not known to use the cache");
        }
        if let Some(cache) = self.object_cache() {
            cache.reserve.for_each(self, |array| {
                self.check_array(array, found, show);
                out -= array.len(self.panel);
            });
        }
        if let Some(debug) = self.object_cache().and_then(|cache| cache.debug()) {
            out -= debug.quarantined();
        }
        for span in self.object_cache().into_iter().flat_map(|cache| cache.lingering.iter()) {
            // SAFETY: spans that linger exist.
            let span = unsafe { &*span };
            let lingers = span.is_unused() && span.cache == self.number() && span.owner() == NOBODY;
            assert!(lingers, "a span lingers that is in use, or not ours: {span:?}");
            self.check_span(span, found);
        }
        let counted = self.counted() as usize;
        assert_eq!(out, counted, "objects of cache {} outside of spans and depots, and counted", self.number());
    }

    fn check_words(self, slot: u32, found: &mut SlabFound, show: &mut dyn FnMut(*mut u8)) {
        for takes in [true, false] {
            let word = self.word(slot, takes);
            assert_ne!(word, DRAINING, "a word of slot {slot}, cache {}, is left draining", self.number());
            if let Some(array) = Self::array_of(word, takes) {
                self.check_array(array, found, show);
            }
        }
    }

    fn check_shard(self, slot: u32, found: &mut SlabFound, out: &mut usize, show: &mut dyn FnMut(*mut u8)) {
        // SAFETY: a shard of the panel; nobody else is in the heap.
        let shard = unsafe { &*self.shard(slot) };
        let cache = self.number();
        assert!(!shard.is_held(), "the shard of slot {slot}, cache {cache}, is locked");
        // A heap that is broken may have a stack that leads into itself.
        let full = shard.full.iter(self.panel).take(shard.full_count as usize + 1).count();
        assert_eq!(full, shard.full_count as usize, "arrays on a shard, and its count");
        for array in shard.full.iter(self.panel) {
            assert!(!array.is_empty(self.panel), "an empty array among the full ones");
            self.check_array(array, found, show);
            *out = out.wrapping_sub(array.len(self.panel));
        }
        let empty = shard.empties(self.panel).take(u16::MAX as usize).count();
        let counts = shard.keeps_empty(empty) && !shard.keeps_empty(empty + 1);
        assert!(counts || empty >= u8::MAX as usize, "{empty} empty arrays, and another count");
        for array in shard.empties(self.panel) {
            assert_eq!(array.len(self.panel), 0, "an array among the empty ones holds objects");
            found.arrays += 1;
            assert!(found.arrays <= self.slab().registry().rare.0.arrays.get(), "more arrays than were made");
        }
        let first = shard.spans.giving();
        let mut gave = first.is_some();
        for span in shard.spans.iter() {
            // SAFETY: spans in the ring exist.
            let span = unsafe { &*span };
            assert_eq!((span.owner(), span.cache), (slot, cache), "a span in another's ring");
            // SAFETY: as above.
            assert_eq!(unsafe { (*span.next).previous }, (&raw const *span).cast_mut(), "a span's links are wrong");
            let gives = span.available() > 0;
            assert!(gave || !gives, "a span that gives comes behind one that does not: {span:?}");
            gave = gives;
            self.check_span(span, found);
            *out = out.wrapping_add(span.in_use());
        }
    }

    fn check_array(self, array: Array, found: &mut SlabFound, show: &mut dyn FnMut(*mut u8)) {
        let mut rest = array;
        found.arrays += 1;
        assert_eq!(array.room() + array.len(self.panel), array.capacity(self.panel), "room, fill and capacity");
        for _ in 0..array.len(self.panel) {
            let object = rest.pop(self.panel).expect("a pointer that is not null");
            let Some(span) = self.slab().zone.span_of(object) else { panic!("{object:p} in an array is in no span") };
            // SAFETY: descriptions are never freed, and nobody else is in the heap.
            let span = unsafe { &*span };
            assert_eq!(span.cache, self.number(), "{object:p} is in an array of another cache");
            assert_eq!(span.object_at(object), Some(object), "{object:p} in an array begins no object");
            assert!(!span.is_free(object), "{object:p} is in an array, and free in its span");
            found.cached += 1;
            show(object);
        }
        assert!(rest.is_empty(self.panel), "more in an array than its capacity");
    }

    fn check_span(self, span: &Span, found: &mut SlabFound) {
        span.check_valid();
        for granule in 0..span.granules as usize {
            let address = span.start().wrapping_add(granule * GRANULE);
            let class = self.general().class_at(address);
            assert_eq!(class, self.class_word() as usize / 2, "the page map's class at {address:p}");
        }
        found.given += span.in_use();
        found.span_pages += span.granules as u64 * (GRANULE / PAGE) as u64;
        found.spans += 1;
    }
}

/// All slots whose shards may hold anything.
fn slots() -> impl Iterator<Item = u32> {
    let slots = slot::in_use();
    (0..slots).chain((slots <= NO_SLOT).then_some(NO_SLOT))
}
