//! The spans of a shard: a ring, in which spans with objects to give come first.
//!
//! ```text
//!   word ─▶ gives ⇄ gives ⇄ gives nothing ⇄ gives nothing ⇄ (back to the first)
//!   └ bit 0: the first gives nothing, so none does
//! ```
//!
//! Taking objects looks at the first span only. A walk of the ring finds all spans without a walk of the heap.
//!
//! Runs at the same time: any thread, under the shard's lock. Without the lock, the word is a hint.

use crate::page_heap::Span;
use core::ptr::null_mut;
use machine::sync::{AtomicUsize, Ordering::Relaxed};

/// Set in the word if the first span has no object to give.
const NONE_GIVES: usize = 1;

/// The ring. All-zero memory is an empty one. Relaxed: the lock orders accesses; reads without it are hints.
#[derive(Debug)]
#[repr(transparent)]
pub struct Ring(AtomicUsize);

impl Ring {
    /// The first span, if it has objects to give.
    pub fn giving(&self) -> Option<&'static Span> {
        let word = self.0.load(Relaxed);
        if gives(word) { first(word) } else { None }
    }

    /// Whether a span seems to have objects to give. Needs no lock.
    pub fn seems_to_give(&self) -> bool {
        gives(self.0.load(Relaxed))
    }

    /// Whether the ring seems empty. Needs no lock.
    pub fn seems_empty(&self) -> bool {
        self.0.load(Relaxed) & !NONE_GIVES == 0
    }

    /// Empties the ring after its lock's holder vanished in a fork. The caller inserts the spans again.
    pub fn forget(&self) {
        self.0.store(0, Relaxed);
    }

    /// Inserts a span that is in no ring. As in all functions below, the caller holds its shard's lock.
    pub fn insert(&self, span: &Span) {
        let this = span.as_ptr();
        let Some(first) = first(self.0.load(Relaxed)) else {
            span.set_next(this);
            span.set_previous(this);
            return self.begin_with(span);
        };
        let last = first.previous();
        span.set_next(first.as_ptr());
        span.set_previous(last);
        at(last).set_next(this);
        first.set_previous(this);
        if span.available() > 0 {
            self.begin_with(span);
        }
    }

    pub fn remove(&self, span: &Span) {
        let (next, previous) = (span.next(), span.previous());
        if next == span.as_ptr() {
            return self.forget();
        }
        at(previous).set_next(next);
        at(next).set_previous(previous);
        if first(self.0.load(Relaxed)).is_some_and(|first| core::ptr::eq(first, span)) {
            self.begin_with(at(next));
        }
    }

    /// Notes that the first span has just given its last object.
    pub fn first_is_used_up(&self) {
        if let Some(first) = first(self.0.load(Relaxed)) {
            self.begin_with(at(first.next()));
        }
    }

    /// Whether a span other than this one has objects to give. The ring contains `span`.
    pub fn another_gives(&self, span: &Span) -> bool {
        let first = first(self.0.load(Relaxed)).filter(|first| !core::ptr::eq(*first, span));
        let other = first.unwrap_or_else(|| at(span.next()));
        !core::ptr::eq(other, span) && other.available() > 0
    }

    /// All spans, once each. The caller may remove a span that it got.
    pub fn iter(&self) -> impl Iterator<Item = &'static Span> + use<> {
        let first = first(self.0.load(Relaxed));
        let last = first.map_or(null_mut(), Span::previous);
        let step = |span: &'static Span| (span, span.next());
        let spans = core::iter::successors(first.map(step), move |&(span, next)| {
            // Read the link before the caller gets the span.
            (span.as_ptr() != last).then(|| step(at(next)))
        });
        spans.map(|(span, _)| span)
    }

    /// The spans with objects to give. It stops at the first one without.
    pub fn giving_spans(&self) -> impl Iterator<Item = &'static Span> + use<> {
        self.iter().take_while(|span| span.available() > 0)
    }

    fn begin_with(&self, span: &Span) {
        let gives = span.available() > 0;
        self.0.store(span.as_ptr() as usize | if gives { 0 } else { NONE_GIVES }, Relaxed);
    }
}

fn first(word: usize) -> Option<&'static Span> {
    // SAFETY: null, or a span in the ring, whose description is never freed.
    unsafe { ((word & !NONE_GIVES) as *mut Span).as_ref() }
}

fn at(span: *mut Span) -> &'static Span {
    // SAFETY: links in a ring lead to its spans, whose descriptions are never freed.
    unsafe { &*span }
}

fn gives(word: usize) -> bool {
    word != 0 && word & NONE_GIVES == 0
}
