//! The invariants of all caches, as code. Each object is in one place: in use, in a magazine, or free in its span.
//!
//! For tests, while no other thread uses the heap. Without locks, so a failed check leaves none held.

use super::heap::Heap;
use super::object_cache::ObjectCache;
use crate::central::{CacheRef, NO_SLOT, NOBODY};
use crate::cpu_cache::{MOST_OF_A_GAP, Side, SlotWord, left_of_gap};
use crate::depot::{Hints, View};
use crate::page_heap::{GRANULE, PAGE, Span};
use machine::slot;

#[derive(Debug, Default)]
pub(crate) struct CachesFound {
    /// Objects outside of their spans: in use, or in magazines.
    pub given: usize,
    pub cached: usize,
    /// Pages of all spans, also on page lists.
    pub span_pages: u64,
    spans: usize,
    magazines: u64,
}

struct Check<'a> {
    heap: &'a Heap,
    cache: CacheRef,
    found: &'a mut CachesFound,
    show: &'a mut dyn FnMut(*mut u8),
    /// Objects outside of spans and depots.
    out: usize,
}

impl Heap {
    /// Checks each slot, shard and span, and shows each object in a magazine. Panics at a violation.
    pub(crate) fn check_caches(&self, show: &mut dyn FnMut(*mut u8)) -> CachesFound {
        let mut found = CachesFound::default();
        for slot in slots() {
            let listed = self.page_heap().page_list(slot).check_valid();
            found.span_pages += listed as u64 * (GRANULE / PAGE) as u64;
        }
        for cache in self.central().caches() {
            Check { heap: self, cache, found: &mut found, show, out: 0 }.run();
        }
        slots().for_each(|slot| self.cpu.depot.check_bytes(slot));
        self.cpu.check_shares(slots);
        found.magazines += self.cpu.depot.spare().check_valid() as u64;
        let mut spans = 0;
        self.page_heap().for_each_span(|_, _| spans += 1);
        assert_eq!(found.spans, spans, "spans in shards' rings, and spans that a cache has");
        assert_eq!(found.magazines, self.cpu.depot.magazines().get(), "magazines found, and magazines made");
        found
    }
}

impl Heap {
    /// For a check of gaps that are so long that no sample comes: objects that are drawn and not handed out, and how
    /// many are drawn at once.
    pub(crate) fn rest_of_gaps(&self, class: usize) -> (usize, usize) {
        let cache = self.class(class);
        let reserved = |slot| SlotWord::new(cache, slot, Side::Allocation).view().map_or(0, View::len);
        (slots().map(|slot| left_of_gap(cache, slot) + reserved(slot)).sum(), MOST_OF_A_GAP.into())
    }
}

impl Check<'_> {
    fn run(mut self) {
        let (cache, number) = (self.cache, self.cache.number());
        for slot in slots() {
            let words = Side::BOTH.map(|side| SlotWord::new(cache, slot, side).look());
            words.into_iter().for_each(|seen| {
                assert!(!seen.is_draining(), "a word of slot {slot}, cache {number}, is left draining");
                seen.view().into_iter().for_each(|magazine| self.magazine(magazine));
            });
            self.shard(slot);
            let has_spans = !cache.ring(slot).seems_empty();
            let holds = words.iter().any(|seen| !seen.is_zero()) || Hints::of(cache, slot).topmost_full().is_some();
            assert!(!holds && !has_spans || cache.is_used_in(slot), "slot {slot} is not known to use the cache");
        }
        if let Some(object_cache) = ObjectCache::of(cache) {
            object_cache.reserve.for_each(|magazine| {
                self.magazine(magazine);
                self.out -= magazine.len();
            });
            self.out -= object_cache.debug().map_or(0, |debug| debug.quarantined());
            for span in object_cache.state.waiting_spans() {
                let waits = span.is_unused() && span.cache() == number && span.owner() == NOBODY;
                assert!(waits, "a span waits that is in use, or not ours: {span:?}");
                self.span(span);
            }
        }
        let counted = self.heap.central().counted(cache) as usize;
        assert_eq!(self.out, counted, "objects of cache {number} outside of spans and depots, and counted");
    }

    fn shard(&mut self, slot: u32) {
        let (cache, number) = (self.cache, self.cache.number());
        assert!(!cache.is_held(slot), "the shard of slot {slot}, cache {number}, is locked");
        let [full, empty] = Hints::of(cache, slot).stacks();
        for (stack, kind) in [(full, "full"), (empty, "empty")] {
            // In a broken heap, a stack may lead into itself.
            let count = stack.iter().take(stack.len() + 1).count();
            assert_eq!(count, stack.len(), "{kind} magazines of a shard, and their count");
        }
        for magazine in full.iter() {
            assert!(!magazine.is_empty(), "an empty magazine among the full ones");
            self.magazine(magazine);
            self.out = self.out.wrapping_sub(magazine.len());
        }
        for magazine in empty.iter() {
            assert_eq!(magazine.len(), 0, "a magazine among the empty ones holds objects");
            self.found.magazines += 1;
        }
        let mut gave = cache.ring(slot).giving().is_some();
        for span in cache.ring(slot).iter() {
            assert_eq!((span.owner(), span.cache()), (slot, number), "a span in another's ring");
            // SAFETY: spans in the ring exist.
            assert_eq!(unsafe { (*span.next()).previous() }, span.as_ptr(), "a span's links are wrong");
            let gives = span.available() > 0;
            assert!(gave || !gives, "a span that gives comes behind one that does not: {span:?}");
            gave = gives;
            self.span(span);
            self.out = self.out.wrapping_add(span.in_use());
        }
    }

    fn magazine(&mut self, magazine: View<'_>) {
        self.found.magazines += 1;
        assert_eq!(magazine.room() + magazine.len(), magazine.capacity(), "room, fill and capacity");
        for object in magazine.objects() {
            let span = self.heap.page_heap().span_of(object);
            let Some(span) = span else { panic!("{object:p} in a magazine is in no span") };
            assert_eq!(span.cache(), self.cache.number(), "{object:p} is in a magazine of another cache");
            assert_eq!(span.object_at(object), Some(object), "{object:p} in a magazine begins no object");
            assert!(!span.is_free(object), "{object:p} is in a magazine, and free in its span");
            self.found.cached += 1;
            (self.show)(object);
        }
    }

    fn span(&mut self, span: &Span) {
        span.check_valid();
        for granule in 0..span.granules() as usize {
            let address = span.start().wrapping_add(granule * GRANULE);
            let class = self.heap.class_word(address);
            assert_eq!(class, self.cache.class_word() as usize, "the page map's class at {address:p}");
        }
        self.found.given += span.in_use();
        self.found.span_pages += span.granules() as u64 * (GRANULE / PAGE) as u64;
        self.found.spans += 1;
    }
}

fn slots() -> impl Iterator<Item = u32> {
    let slots = slot::in_use();
    (0..slots).chain((slots <= NO_SLOT).then_some(NO_SLOT))
}
