//! Per-CPU page lists: empty spans of one granule that are ready in a slot, so that slots seldom meet at the zone.
//!
//! A list that runs dry takes a batch, and the batch doubles each time that happens; a list above its high mark gives a
//! batch back, and the batch halves. Each lock hold moves one span at the list and one at the zone: the work per hold is
//! bounded whatever the batch.
//!
//! Runs at the same time: the threads of one slot mostly; anybody may drain.

use super::span::Span;
use super::zone::Zone;
use super::{PAGE_LIST_RANK, ZONE_RANK};
use crate::observe::LockReport;
use machine::sync::{Acquired, Lock};

const _: () = assert!(PAGE_LIST_RANK < ZONE_RANK);
/// The largest batch, in spans of 64 KiB.
const MOST_AT_ONCE: u32 = 8;

/// One slot's list. All-zero memory is an empty list.
#[derive(Debug)]
#[repr(C)]
pub struct PageList {
    lock: Lock<PAGE_LIST_RANK>,
    count: u32,
    batch: u32,
    head: *mut Span,
}

impl PageList {
    /// Spans on the list, at some moment.
    ///
    /// # Safety
    /// `this` is a slot's list.
    pub unsafe fn count(this: *const PageList) -> usize {
        // SAFETY: passed on.
        unsafe { (&raw const (*this).count).read_volatile() as usize }
    }

    /// Checks the list, which nobody else uses meanwhile; returns how many spans it holds.
    ///
    /// # Safety
    /// As for [`Self::count`].
    #[doc(hidden)]
    pub unsafe fn check_valid(this: *const PageList) -> usize {
        // SAFETY: passed on; the spans on the list exist.
        let spans = unsafe { core::iter::successors((*this).head.as_ref(), |span| span.next.as_ref()) };
        let found =
            spans.inspect(|span| assert_eq!((span.granules, span.cache), (1, 0), "a span on a page list")).count();
        // SAFETY: passed on.
        assert_eq!(found, unsafe { Self::count(this) }, "spans on a page list, and its count");
        found
    }

    /// Takes a span of one granule: from the list, else from the zone, of which a batch then comes along.
    ///
    /// # Safety
    /// `this` is a slot's list.
    pub unsafe fn take(this: *mut PageList, zone: &Zone, locks: &LockReport) -> Option<*mut Span> {
        // SAFETY: passed on.
        if let Some(span) = unsafe { Self::pop(this, locks) } {
            return Some(span);
        }
        let first = zone.allocate_span(locks, 1, true)?;
        // SAFETY: passed on. A stale batch only changes how many spans come along.
        let batch = unsafe { (*this).batch };
        // SAFETY: as above.
        unsafe { (*this).batch = (batch * 2 + 1).min(MOST_AT_ONCE) };
        for _ in 0..batch {
            let Some(more) = zone.allocate_span(locks, 1, false) else {
                break;
            };
            // SAFETY: passed on; the span is ours.
            if !unsafe { Self::push(this, more, locks) } {
                // SAFETY: the span is ours.
                unsafe { zone.free_span(locks, more) };
                break;
            }
        }
        Some(first)
    }

    /// Puts an empty span back; what is above the high mark goes to the zone.
    ///
    /// # Safety
    /// `this` is a slot's list; the caller owns the span, of one granule.
    pub unsafe fn put(this: *mut PageList, span: *mut Span, zone: &Zone, locks: &LockReport) {
        // SAFETY: passed on.
        unsafe {
            if !Self::push(this, span, locks) {
                return zone.free_span(locks, span);
            }
            let high_mark = (*this).batch * 2;
            if (*this).count > high_mark {
                (*this).batch /= 2;
                Self::drain(this, (*this).batch, zone, locks);
            }
        }
    }

    /// Gives spans to the zone until `keep` are left; returns how many it gave.
    ///
    /// # Safety
    /// `this` is a slot's list.
    pub unsafe fn drain(this: *mut PageList, keep: u32, zone: &Zone, locks: &LockReport) -> usize {
        let mut given = 0;
        // SAFETY: passed on; a popped span is ours.
        unsafe {
            while Self::count(this) > keep as usize
                && let Some(span) = Self::pop(this, locks)
            {
                zone.free_span(locks, span);
                given += 1;
            }
        }
        given
    }

    unsafe fn pop(this: *mut PageList, locks: &LockReport) -> Option<*mut Span> {
        // SAFETY: passed on; the fields are used under the lock.
        unsafe {
            if !Self::lock(this, locks) {
                return None;
            }
            let span = (*this).head;
            if !span.is_null() {
                (*this).head = (*span).next;
                (*this).count -= 1;
            }
            (*this).lock.release();
            (!span.is_null()).then_some(span)
        }
    }

    unsafe fn push(this: *mut PageList, span: *mut Span, locks: &LockReport) -> bool {
        // SAFETY: passed on; the fields are used under the lock.
        unsafe {
            if !Self::lock(this, locks) {
                return false;
            }
            (*span).next = (*this).head;
            (*this).head = span;
            (*this).count += 1;
            (*this).lock.release();
        }
        true
    }

    /// False in a signal handler that must not wait: it does without.
    unsafe fn lock(this: *mut PageList, locks: &LockReport) -> bool {
        // SAFETY: passed on.
        unsafe {
            match (*this).lock.acquire(&locks.page_lists) {
                Acquired::Clean => true,
                Acquired::WouldDeadlock => false,
                Acquired::Abandoned => {
                    // The list changes by single stores of its head, so only the count can be wrong.
                    let spans = core::iter::successors((*this).head.as_ref(), |span| span.next.as_ref());
                    (*this).count = spans.count() as u32;
                    true
                }
            }
        }
    }
}
