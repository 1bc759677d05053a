//! The invariants of the whole heap, as code, and a count of what is in use for comparison with a model.

use crate::caches::heap;
use crate::upkeep;
use machine::root;

/// What the program holds, as the heap sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InUse {
    /// Small objects.
    pub objects: usize,
    /// Large blocks.
    pub large_blocks: usize,
}

/// Checks the whole heap; each violation panics. `show_cached` sees every object that a magazine holds.
///
/// For tests: no other thread may be in the heap, and none of a parent may have vanished in the middle of it. Takes
/// time in proportion to the pages in segments.
pub fn check_valid(mut show_cached: impl FnMut(*mut u8)) -> InUse {
    if !root::is_installed() {
        return InUse::default();
    }
    // When threads have ended, the shepherd returns everything; what it holds meanwhile is neither in use nor free.
    upkeep::leave_to_the_last(20);
    let caches = heap().check_caches(&mut show_cached);
    let pages = heap().page_heap().check_valid();
    assert_eq!(caches.span_pages, pages.in_spans, "pages of spans that somebody has, and of all spans");
    InUse { objects: caches.given - caches.cached, large_blocks: pages.blocks }
}
