//! The slab's invariants, as code: every object is in exactly one place, in use, in an array, or free in its span; and
//! every array and every span is where its kind belongs.
//!
//! For tests: nobody else may be in the heap. No lock is taken, so that a failed check leaves none held.

use super::array::{Array, DRAINING};
use super::{General, NO_SLOT, class, give_index, shard, take_index};
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
    listed: usize,
    arrays: u64,
    /// By class: objects outside of their spans and of depots.
    out: [usize; class::CLASSES],
}

impl General<'_> {
    /// Checks every slot, shard and span, and shows each object that an array holds; each violation panics.
    pub fn check_valid(self, show_cached: &mut dyn FnMut(*mut u8)) -> SlabFound {
        let mut found =
            SlabFound { given: 0, cached: 0, span_pages: 0, listed: 0, arrays: 0, out: [0; class::CLASSES] };
        let slots = slot::in_use();
        for slot in (0..slots).chain((slots <= NO_SLOT).then_some(NO_SLOT)) {
            // SAFETY: the slot's page list.
            found.span_pages +=
                unsafe { PageList::check_valid(shard::page_list(self.region, slot)) } as u64 * (GRANULE / PAGE) as u64;
            for class in 1..class::CLASSES {
                self.check_slot(slot, class, &mut found, show_cached);
                self.check_shard(slot, class, &mut found, show_cached);
            }
        }
        found.arrays += self.slab.spare.check_valid(self.region) as u64;
        let listed = found.listed;
        // SAFETY: descriptions are never freed, and nobody else is in the heap.
        self.slab.zone.for_each_span(|span| self.check_span(unsafe { &*span }, &mut found));
        assert_eq!(found.listed, listed * 2, "spans on shards' lists, and spans that say they are");
        for class in 1..class::CLASSES {
            let counted = self.slab.tally().objects(class) as usize;
            assert_eq!(found.out[class], counted, "objects of class {class} outside of spans and depots, and counted");
        }
        assert_eq!(found.arrays, self.slab.arrays.get(), "arrays found, and arrays made");
        found
    }

    fn check_slot(self, slot: u32, class: usize, found: &mut SlabFound, show: &mut dyn FnMut(*mut u8)) {
        let words = [self.word(slot, take_index(class)), self.word(slot, give_index(class))];
        assert!(!words.contains(&DRAINING), "a word of slot {slot}, class {class}, is left draining");
        let arrays = [Array::from_take_word(words[0]), Array::from_give_word(words[1])];
        for array in arrays.into_iter().flatten() {
            self.check_array(array, class, found, show);
        }
    }

    fn check_shard(self, slot: u32, class: usize, found: &mut SlabFound, show: &mut dyn FnMut(*mut u8)) {
        // SAFETY: a shard of the region; nobody else is in the heap.
        let shard = unsafe { &*shard::of(self.region, slot, class) };
        assert!(!shard.is_held(), "the shard of slot {slot}, class {class}, is locked");
        assert_eq!(shard.full.iter(self.region).count(), shard.full_count as usize, "arrays on a shard, and its count");
        for array in shard.full.iter(self.region) {
            assert!(!array.is_empty(self.region), "an empty array among the full ones");
            self.check_array(array, class, found, show);
            found.out[class] = found.out[class].wrapping_sub(array.len(self.region));
        }
        for array in shard.empty.iter(self.region) {
            assert_eq!(array.len(self.region), 0, "an array among the empty ones holds objects");
            found.arrays += 1;
        }
        let (mut span, mut previous) = (shard.spans, core::ptr::null_mut::<Span>());
        // SAFETY: spans on the list exist.
        while let Some(linked) = unsafe { span.as_ref() } {
            assert_eq!((linked.owner(), linked.class as usize), (slot, class), "a span on another's list");
            assert!(linked.listed && linked.previous == previous, "a span's links are wrong");
            found.listed += 1;
            (previous, span) = (span, linked.next);
        }
    }

    fn check_array(self, array: Array, class: usize, found: &mut SlabFound, show: &mut dyn FnMut(*mut u8)) {
        let mut rest = array;
        found.arrays += 1;
        assert_eq!(array.room() + array.len(self.region), array.capacity(self.region), "room, fill and capacity");
        for _ in 0..array.len(self.region) {
            let object = rest.pop(self.region).expect("a pointer that is not null");
            let Some(span) = self.slab.zone.span_of(object) else { panic!("{object:p} in an array is in no span") };
            // SAFETY: descriptions are never freed, and nobody else is in the heap.
            let span = unsafe { &*span };
            assert_eq!(span.class as usize, class, "{object:p} is in an array of another class");
            assert_eq!(span.object_at(object), Some(object), "{object:p} in an array begins no object");
            assert!(!span.is_free(object), "{object:p} is in an array, and free in its span");
            found.cached += 1;
            show(object);
        }
        assert!(rest.is_empty(self.region), "more in an array than its capacity");
    }

    fn check_span(self, span: &Span, found: &mut SlabFound) {
        span.check_valid();
        assert_eq!(span.listed, span.available() > 0, "a list has what can give, and nothing else: {span:?}");
        for granule in 0..span.granules as usize {
            let address = span.start().wrapping_add(granule * GRANULE);
            assert_eq!(self.class_at(address), span.class as usize, "the page map's class at {address:p}");
        }
        found.given += span.in_use();
        found.out[span.class as usize] = found.out[span.class as usize].wrapping_add(span.in_use());
        found.span_pages += span.granules as u64 * (GRANULE / PAGE) as u64;
        found.listed += span.listed as usize;
    }
}
