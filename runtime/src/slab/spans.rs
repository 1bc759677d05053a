//! The spans that a shard owns: a ring, in which those with objects to give come first.
//!
//! ```text
//!   word ─▶ gives ⇄ gives ⇄ gives nothing ⇄ gives nothing ⇄ (back to the first)
//!   └ bit 0: the first gives nothing, so none does
//! ```
//!
//! Whoever takes looks at the first only; whoever wants all of them goes round. So a cache's spans can be found without going over the heap.
//!
//! Runs at the same time: any thread, under the shard's lock; without it the word may be looked at, as a hint.

use crate::page::Span;

/// Set in the word if the first span has nothing to give.
const NONE_GIVES: usize = 1;

/// The ring. All-zero memory is an empty one.
#[derive(Debug)]
#[repr(transparent)]
pub struct Spans(usize);

impl Spans {
    /// None.
    pub const fn new() -> Self {
        Spans(0)
    }

    fn first(&self) -> *mut Span {
        (self.0 & !NONE_GIVES) as *mut Span
    }

    /// The first span that has objects to give.
    pub fn giving(&self) -> Option<*mut Span> {
        gives(self.0).then(|| self.first())
    }

    /// Whether there seemed to be a span with objects to give.
    ///
    /// # Safety
    /// `this` is a shard's.
    pub unsafe fn seems_to_give(this: *const Spans) -> bool {
        // SAFETY: passed on. One word, which may be stale.
        gives(unsafe { this.cast::<usize>().read_volatile() })
    }

    /// Whether there seemed to be no span.
    ///
    /// # Safety
    /// As above.
    pub unsafe fn seems_empty(this: *const Spans) -> bool {
        // SAFETY: passed on. One word, which may be stale.
        unsafe { this.cast::<usize>().read_volatile() & !NONE_GIVES == 0 }
    }

    /// Puts a span in its place.
    ///
    /// # Safety
    /// The span exists and is in no ring; the lock of the shard that owns it is ours. The same goes for the others here.
    pub unsafe fn insert(&mut self, span: *mut Span) {
        let first = self.first();
        // SAFETY: passed on; the spans in the ring exist.
        unsafe {
            if first.is_null() {
                ((*span).next, (*span).previous) = (span, span);
                return self.begin_with(span);
            }
            let last = (*first).previous;
            ((*span).next, (*span).previous) = (first, last);
            ((*last).next, (*first).previous) = (span, span);
            if (*span).available() > 0 {
                self.begin_with(span);
            }
        }
    }

    /// Takes a span out.
    ///
    /// # Safety
    /// The span is in this ring.
    pub unsafe fn remove(&mut self, span: *mut Span) {
        // SAFETY: passed on; the spans in the ring exist.
        unsafe {
            let (next, previous) = ((*span).next, (*span).previous);
            if next == span {
                self.0 = 0;
                return;
            }
            ((*previous).next, (*next).previous) = (next, previous);
            if self.first() == span {
                self.begin_with(next);
            }
        }
    }

    /// The first span has just given its last object.
    pub fn first_is_used_up(&mut self) {
        // SAFETY: the ring is not empty, and its spans exist.
        unsafe { self.begin_with((*self.first()).next) };
    }

    /// Whether another span than `span` has objects to give.
    ///
    /// # Safety
    /// The span is in this ring.
    pub unsafe fn another_gives(&self, span: *mut Span) -> bool {
        // SAFETY: passed on; the spans in the ring exist.
        unsafe {
            let other = if self.first() == span { (*span).next } else { self.first() };
            other != span && (*other).available() > 0
        }
    }

    /// All spans, once each. One that was shown may be taken out.
    pub fn iter(&self) -> impl Iterator<Item = *mut Span> + use<> {
        let first = self.first();
        // SAFETY: the spans in the ring exist.
        let last = unsafe { first.as_ref() }.map_or(first, |first| first.previous);
        let mut next = first;
        core::iter::from_fn(move || {
            let span = next;
            // SAFETY: as above; it is read before the caller gets to see the span.
            let following = unsafe { span.as_ref() }?.next;
            next = if span == last { core::ptr::null_mut() } else { following };
            Some(span)
        })
    }

    /// Takes all spans out.
    pub fn take_all(&mut self) -> impl Iterator<Item = *mut Span> + use<> {
        let all = self.iter();
        self.0 = 0;
        all
    }

    /// # Safety
    /// The span is in this ring.
    unsafe fn begin_with(&mut self, span: *mut Span) {
        // SAFETY: passed on.
        let gives = unsafe { (*span).available() } > 0;
        self.0 = span as usize | if gives { 0 } else { NONE_GIVES };
    }
}

fn gives(word: usize) -> bool {
    word != 0 && word & NONE_GIVES == 0
}
