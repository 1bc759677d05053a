//! Subrelease: whole pages of free objects go back to the kernel while their span stays.
//!
//! Source: tcmalloc's word for giving parts of a huge page back.

use super::tier::Central;
use super::typesafe::NOBODY;
use crate::page_heap::{PAGE, Span};
use machine::{here, vm};

/// Granules of the heap that are looked at in one go: 16 MiB.
const GRANULES_AT_ONCE: usize = 256;

/// What was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Subreleased {
    /// Calls that gave pages of spans in use back to the kernel.
    pub calls: usize,
    /// Those pages.
    pub pages: usize,
    /// Whether there are objects of caches that were just used, for which it would be worth it later.
    pub is_more: bool,
}

impl Central {
    /// Gives whole pages of free objects back to the kernel, of spans whose cache has not missed in the slot that owns
    /// them since so many units of coarse time: of some, from a place in the heap on. Not of caches whose free objects
    /// are constructed, destroyed or looked at, nor where that would break huge pages up. Where to go on; none: the
    /// heap ends there. The caller sees to it that no cache ends meanwhile, and no segment is released.
    pub fn subrelease(&self, from: u64, now: u32, idle: u32, done: &mut Subreleased) -> Option<u64> {
        self.page_heap.walk_spans(from, GRANULES_AT_ONCE, |span| self.subrelease_span(span, now, idle, done))
    }

    fn subrelease_span(&self, span: &'static Span, now: u32, idle: u32, done: &mut Subreleased) {
        // What is read without the lock is read again with it.
        let is_worth_it = || !span.is_subreleased() && span.available().saturating_mul(span.object_bytes()) >= PAGE;
        let (owner, number) = (span.owner(), span.cache());
        if number == 0 || owner == NOBODY || !is_worth_it() {
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
            // The lock is held meanwhile, as their objects must not be given away: for as long as the few calls take
            // that a span is worth.
            span.for_each_free_row(|start, bytes| {
                if let Some(pages) = decommit_inside(start, bytes) {
                    (done.calls, done.pages) = (done.calls + 1, done.pages + pages);
                }
            });
            span.set_subreleased();
        }
    }
}

/// Gives the whole pages in a range of free objects back, if there are any; returns how many. One is worth a call:
/// where a peak has left holes, single pages are a fiftieth of what stays.
fn decommit_inside(start: *mut u8, bytes: usize) -> Option<usize> {
    let first = (start as usize).next_multiple_of(PAGE);
    let pages = ((start as usize + bytes) / PAGE).saturating_sub(first / PAGE);
    // SAFETY: nobody owns the objects, and nobody needs what is in them.
    (pages > 0 && unsafe { vm::decommit(first as *mut u8, pages * PAGE) }).then_some(pages)
}
