//! Subrelease: returns whole pages of free objects to the kernel while their span stays. Source: tcmalloc.

use super::tier::Central;
use super::typesafe::NOBODY;
use crate::page_heap::{PAGE, Span};
use machine::{here, vm};

/// Granules of the heap that one step looks at: 16 MiB.
const GRANULES_AT_ONCE: usize = 256;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Subreleased {
    /// Calls that returned pages to the kernel.
    pub calls: usize,
    pub pages: usize,
    /// Whether recently used caches have objects for which a later call may pay.
    pub is_more: bool,
}

impl Central {
    /// Returns whole pages of free objects to the kernel, for spans whose cache has been idle in its slot for `idle`
    /// units of coarse time. Walks a part of the heap from `from` on; returns where to go on, or none at its end. Skips
    /// caches whose free objects are constructed, destroyed or looked at, and memory that may be huge pages. The caller
    /// ensures that meanwhile no cache ends and no segment is released.
    pub fn subrelease(&self, from: u64, now: u32, idle: u32, done: &mut Subreleased) -> Option<u64> {
        let each = |span, number| self.subrelease_span(span, number, now, idle, done);
        self.page_heap.walk_spans(from, GRANULES_AT_ONCE, each)
    }

    fn subrelease_span(&self, span: &'static Span, number: u32, now: u32, idle: u32, done: &mut Subreleased) {
        // Checked without the lock, and again with it.
        let is_worth_it = || !span.is_subreleased() && span.available().saturating_mul(span.object_bytes()) >= PAGE;
        let owner = span.owner();
        if owner == NOBODY || !is_worth_it() {
            return;
        }
        let cache = self.cache(number);
        let is_possible = cache.exists()
            && cache.state().is_none_or(|state| state.is_indifferent_to_free_objects())
            && !self.page_heap.may_be_huge(span.start());
        if !is_possible {
            return;
        }
        if !cache.load(owner).is_idle(now, idle) {
            done.is_more = true;
            return;
        }
        let held = self.lock(cache, owner, here!());
        if held.slot == owner && span.owner() == owner && span.cache() == number && is_worth_it() {
            // Hold the lock during the calls, so that no thread gets these objects. A span is worth only a few calls.
            span.for_each_free_row(|start, bytes| {
                if let Some(pages) = decommit_inside(start, bytes) {
                    (done.calls, done.pages) = (done.calls + 1, done.pages + pages);
                }
            });
            span.set_subreleased();
        }
    }
}

/// Returns the whole pages inside a range of free objects to the kernel; returns how many. Even one page pays for a
/// call: where a peak left holes, single pages are a fiftieth of what stays.
fn decommit_inside(start: *mut u8, bytes: usize) -> Option<usize> {
    let first = (start as usize).next_multiple_of(PAGE);
    let pages = ((start as usize + bytes) / PAGE).saturating_sub(first / PAGE);
    // SAFETY: the objects are free, and their contents are not needed.
    (pages > 0 && unsafe { vm::decommit(first as *mut u8, pages * PAGE) }).then_some(pages)
}
