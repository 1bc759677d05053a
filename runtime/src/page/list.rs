//! Per-CPU page lists: empty spans of one granule that are ready in a slot, so that slots seldom meet at the zone.
//!
//! A list that runs dry takes a batch, and the batch doubles each time that happens; a list above its high mark gives a
//! batch back, and the batch halves. What a list never came down to since the last look ([`PageList::decay`]) it has too much of: half of that goes
//! back, and the batch shrinks; so the high mark follows the load down, too. Each lock hold moves at most [`MOST_AT_ONCE`] spans, at the list and at
//! the zone: the time of a hold is bounded whatever there is to move.
//!
//! Source: the kernel's per-CPU page lists, whose high marks rise with use and decay in `vmstat_update`.
//!
//! Runs at the same time: the threads of one slot mostly; anybody may drain.

use super::span::Span;
use super::zone::Zone;
use super::{PAGE_LIST_RANK, ZONE_RANK};
use crate::observe::LockReport;
use core::ptr::null_mut;
use machine::here;
use machine::sync::{Acquired, Lock, Ordering, Site, compiler_fence};

const _: () = assert!(PAGE_LIST_RANK < ZONE_RANK);
/// The largest batch, in spans of 64 KiB, and what moves in one lock hold at most.
pub(super) const MOST_AT_ONCE: u32 = 8;

/// One slot's list. All-zero memory is an empty list.
#[derive(Debug)]
#[repr(C)]
pub struct PageList {
    lock: Lock<PAGE_LIST_RANK>,
    count: u32,
    batch: u32,
    /// The fewest that there were since the last look.
    least: u32,
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
        if let Some((span, _)) = unsafe { Self::pop(this, 1, locks) } {
            return Some(span);
        }
        // A stale batch only changes how many spans come along.
        // SAFETY: passed on.
        let batch = unsafe { (*this).batch };
        let first = zone.allocate_spans(locks, batch)?;
        // SAFETY: passed on; the spans are ours.
        unsafe {
            (*this).batch = (batch * 2 + 1).min(MOST_AT_ONCE);
            let rest = core::mem::replace(&mut (*first).next, null_mut());
            if !rest.is_null() && !Self::push(this, rest, locks) {
                zone.free_spans(locks, rest);
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
            (*span).next = null_mut();
            if !Self::push(this, span, locks) {
                return zone.free_spans(locks, span);
            }
            let high_mark = (*this).batch * 2;
            if (*this).count > high_mark {
                (*this).batch /= 2;
                Self::drain(this, (*this).batch, zone, locks);
            }
        }
    }

    /// Gives half of the spans to the zone that the list did not come down to since the last time; of a slot that nobody is in, all of them. Returns how many
    /// it gave.
    ///
    /// # Safety
    /// `this` is a slot's list.
    pub unsafe fn decay(this: *mut PageList, is_deserted: bool, zone: &Zone, locks: &LockReport) -> usize {
        // Numbers that are stale only change how many spans go, or when.
        // SAFETY: passed on.
        unsafe {
            let (count, batch) = ((*this).count, (*this).batch);
            let (surplus, shrinks_by) = match (*this).least.min(count) {
                _ if is_deserted => (count, batch),
                0 => (0, 0),
                least => (least.div_ceil(2), batch.div_ceil(4)),
            };
            (*this).batch = batch - shrinks_by;
            let given = Self::drain(this, count - surplus, zone, locks);
            (*this).least = (*this).count;
            given
        }
    }

    /// Gives spans to the zone until `keep` are left; returns how many it gave.
    ///
    /// # Safety
    /// `this` is a slot's list.
    pub unsafe fn drain(this: *mut PageList, keep: u32, zone: &Zone, locks: &LockReport) -> usize {
        let mut given = 0;
        // SAFETY: passed on; popped spans are ours.
        unsafe {
            while let excess = Self::count(this).saturating_sub(keep as usize)
                && excess > 0
                && let Some((spans, count)) = Self::pop(this, MOST_AT_ONCE.min(excess as u32), locks)
            {
                zone.free_spans(locks, spans);
                given += count as usize;
            }
        }
        given
    }

    /// Takes so many spans at most, linked one to the next, and how many they are.
    unsafe fn pop(this: *mut PageList, most: u32, locks: &LockReport) -> Option<(*mut Span, u32)> {
        // SAFETY: passed on; the fields are used under the lock, and the spans on the list exist.
        unsafe {
            if !Self::lock(this, locks, here!()) {
                return None;
            }
            let (first, mut last, mut taken) = ((*this).head, null_mut::<Span>(), 0);
            let mut next = first;
            while taken < most && !next.is_null() {
                (last, next, taken) = (next, (*next).next, taken + 1);
            }
            if taken > 0 {
                // In this order, for a child that is forked in between: what the list names is on it, in whole.
                (*this).head = next;
                compiler_fence(Ordering::Release);
                (*last).next = null_mut();
                (*this).count -= taken;
                (*this).least = (*this).least.min((*this).count);
            }
            (*this).lock.release();
            (taken > 0).then_some((first, taken))
        }
    }

    /// Puts spans on the list, linked one to the next.
    unsafe fn push(this: *mut PageList, spans: *mut Span, locks: &LockReport) -> bool {
        // SAFETY: passed on; the fields are used under the lock, and the spans are the caller's.
        unsafe {
            let (mut last, mut count) = (spans, 1);
            while !(*last).next.is_null() {
                (last, count) = ((*last).next, count + 1);
            }
            if !Self::lock(this, locks, here!()) {
                return false;
            }
            (*last).next = (*this).head;
            compiler_fence(Ordering::Release);
            (*this).head = spans;
            (*this).count += count;
            (*this).lock.release();
        }
        true
    }

    /// False in a signal handler that must not wait: it does without.
    unsafe fn lock(this: *mut PageList, locks: &LockReport, site: Site) -> bool {
        // SAFETY: passed on.
        unsafe {
            match (*this).lock.acquire(&locks.page_lists, site) {
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
