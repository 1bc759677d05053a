//! The invariants of the whole heap, as code, and a count of memory in use for comparison with a model.

use crate::caches::{Special, enter, heap};
use crate::central::size_class::{LARGEST, class_for};
use crate::page_heap::memblock;
use crate::upkeep;
use machine::root;

/// The heap's view of what the program holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InUse {
    /// Small objects.
    pub objects: usize,
    /// Large blocks.
    pub large_blocks: usize,
}

/// Hardens the heap, as `harden:on` does.
pub fn harden() {
    if enter() {
        heap().harden();
    }
}

/// Begins to guard blocks, as `guard` does, with a mean gap in bytes. False: there is no memory.
pub fn guard(mean: u64) -> bool {
    enter() && heap().begin_guard(mean)
}

/// Whether an address lies in a guarded block or where one may be.
pub fn is_guarded(block: *mut u8) -> bool {
    matches!(heap().special_at(block), Special::Guarded(_))
}

/// Begins the middle classes, as a program does that has used many such blocks.
pub fn begin_middle() {
    if enter() {
        heap().begin_middle();
    }
}

/// Grows the magazines for blocks of so many bytes in the thread's slot, where middle classes have begun.
pub fn grow_middle(bytes: usize) {
    let class = heap().middle_class(bytes).filter(|_| enter());
    class.into_iter().for_each(|class| heap().cpu.grow_now(class));
}

/// Checks that gaps between samples count so many allocations of a size once each. Samples must be so rare that none
/// comes: then the objects that gaps have drawn are a multiple of a number.
pub fn check_gaps(bytes: usize, allocations: usize) {
    let (rest, at_once) = heap().rest_of_gaps(class_for(bytes));
    let drawn = allocations + rest;
    assert!(drawn.is_multiple_of(at_once), "{allocations} allocations of {bytes} bytes and {rest} drawn for more");
}

/// Checks the whole heap; each violation panics. `show_cached` sees every object in a magazine.
///
/// For tests: no other thread may be in the heap, or have vanished there in a fork. Linear in the pages of segments.
pub fn check_valid(mut show_cached: impl FnMut(*mut u8)) -> InUse {
    let mut first = InUse::default();
    memblock::check_valid(|bytes| match bytes <= LARGEST {
        true => first.objects += 1,
        false => first.large_blocks += 1,
    });
    if !root::is_installed() {
        return first;
    }
    // When threads have ended, the shepherd returns everything; meanwhile its memory is neither in use nor free.
    upkeep::leave_to_the_last(20);
    let caches = heap().check_caches(&mut show_cached);
    let pages = heap().page_heap().check_valid();
    assert_eq!(caches.span_pages, pages.in_spans, "pages of spans that somebody has, and of all spans");
    InUse { objects: first.objects + caches.given - caches.cached, large_blocks: first.large_blocks + pages.blocks }
}
