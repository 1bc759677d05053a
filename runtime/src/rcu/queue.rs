//! A slot's queue: two segments, of which one is open, and the other one is sealed with a grace period's number.
//!
//! ```text
//!   open      by class: batch that is filled     full batches ─▶ … ─▶ …     calls ─▶ … ─▶ …
//!   sealed    a grace period's number            full batches ─▶ … ─▶ …     calls ─▶ … ─▶ …
//! ```
//!
//! Deferred objects and calls go to the open segment. When that is worth a grace period and the sealed one is empty, it
//! gets the next period's number, and they change places: one store. When the period is over, the sealed segment is
//! emptied, a part at a time.
//!
//! Runs at the same time: any thread, under the queue's lock. If its holder vanishes in a fork, the child finds the
//! queue as before a store or after it: nothing is in two places, and `repair` counts anew. The child loses at most one
//! batch that was on its way, and what vanished threads had taken out to free.

use super::grace::Cookie;
use crate::caches::heap;
use crate::central::size_class::{self, CLASSES};
use crate::cpu_cache::RetireSlots;
use crate::depot::{Batch, Batches, View};
use core::cell::UnsafeCell;
use core::ptr::null_mut;
use machine::sync::{Acquired, AtomicU32, AtomicU64, Contention, Lock, Ordering, Site, compiler_fence};

/// The queue's lock is taken first: batches are made under it.
const QUEUE_RANK: u8 = 0;

/// The two words of a deferred call, in the object that it is about or beside it. The runtime owns them until the call.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Head {
    next: *mut Head,
    function: Option<unsafe extern "C" fn(*mut Head)>,
}

impl Head {
    /// A head without a call.
    pub const fn new() -> Self {
        Head { next: null_mut(), function: None }
    }
}

// SAFETY: any thread may use a head that it owns.
unsafe impl Send for Head {}
// SAFETY: a shared reference allows nothing.
unsafe impl Sync for Head {}

/// Calls in the order in which they were deferred. All-zero: none.
#[repr(C)]
pub(super) struct Calls {
    first: *mut Head,
    last: *mut Head,
    count: u32,
    bytes: u64,
}

impl Calls {
    const NONE: Calls = Calls { first: null_mut(), last: null_mut(), count: 0, bytes: 0 };

    /// Safety: the head is the caller's to give up.
    unsafe fn push(&mut self, head: *mut Head, bytes: u64) {
        // SAFETY: heads in the list are ours.
        unsafe {
            if self.last.is_null() {
                self.first = head;
            } else {
                (*self.last).next = head;
            }
        }
        self.last = head;
        self.count += 1;
        self.bytes += bytes;
    }

    /// Finds the last call and the count again from the links.
    fn repair(&mut self) {
        (self.last, self.count) = (null_mut(), 0);
        let mut next = self.first;
        while !next.is_null() {
            (self.last, self.count) = (next, self.count + 1);
            // SAFETY: as above.
            next = unsafe { (*next).next };
        }
    }

    /// Makes all of the calls.
    /// Safety: a grace period is over since they were deferred.
    pub(super) unsafe fn make(self) {
        let mut next = self.first;
        while !next.is_null() {
            let head = next;
            // SAFETY: a head is its function's from the call on.
            unsafe {
                next = (*head).next;
                if let Some(function) = (*head).function {
                    function(head);
                }
            }
        }
    }
}

#[repr(C)]
struct Segment {
    batches: Batches,
    calls: Calls,
    /// If it is sealed: the grace period that must be over.
    cookie: u64,
}

impl Segment {
    fn is_empty(&self) -> bool {
        self.batches.is_empty() && self.calls.first.is_null()
    }
}

/// Under the lock.
#[repr(C)]
struct State {
    /// How often the segments have changed places. The open one has this number's parity.
    turns: usize,
    segments: [Segment; 2],
    /// By class, or 0 for blocks without one: the words of batches that are being filled.
    filling: [usize; CLASSES],
}

impl State {
    fn open(&mut self) -> &mut Segment {
        &mut self.segments[self.turns % 2]
    }

    fn sealed(&self) -> usize {
        1 - self.turns % 2
    }
}

/// A slot's queue. All-zero memory is an empty one.
#[repr(C, align(64))]
pub(super) struct Queue {
    lock: Lock<QUEUE_RANK>,
    /// By segment: the batches and calls that threads have taken out to free or make them.
    in_hands: [AtomicU32; 2],
    // Waiting objects and bytes, and the most bytes so far. Changed under the lock, and read without it.
    objects: AtomicU64,
    bytes: AtomicU64,
    most_bytes: AtomicU64,
    state: UnsafeCell<State>,
}

// SAFETY: the state is used under the lock.
unsafe impl Sync for Queue {}

/// The outcome of putting something into a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Put {
    Done,
    /// It is there, and so much waits that the thread should see what can be freed.
    Enough,
    NoMemory,
}

/// So many calls are [`Put::Enough`], as a full batch is.
const CALLS_AT_ONCE: u32 = 64;

/// A queue whose lock is held.
pub(super) struct Held<'a>(&'a Queue);

impl Queue {
    pub(super) fn objects(&self) -> u64 {
        self.objects.load(Ordering::Relaxed)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(super) fn most_bytes(&self) -> u64 {
        self.most_bytes.load(Ordering::Relaxed)
    }

    /// Whether anything waits or is in hands.
    pub(super) fn is_busy(&self) -> bool {
        // In this order, as `take_up` counts in hands before it lowers the objects. Pairs with the release in `count`.
        self.objects.load(Ordering::Acquire) != 0 || [0, 1].into_iter().any(|segment| self.is_in_hands(segment))
    }

    /// Whether any thread has anything of a segment in hands.
    pub(super) fn is_in_hands(&self, segment: usize) -> bool {
        // Acquire pairs with the release in `put_down`: the frees come before.
        self.in_hands[segment].load(Ordering::Acquire) != 0
    }

    /// In a fork child: other threads that had anything in hands are gone. If the calling thread had, `put_down` stays
    /// at 0.
    pub(super) fn forget_hands(&self) {
        self.in_hands.iter().for_each(|hands| hands.store(0, Ordering::Relaxed));
    }

    /// The thread has freed or called what it took out of a segment.
    pub(super) fn put_down(&self, segment: usize) {
        let less = |hands: u32| hands.checked_sub(1);
        let _ = self.in_hands[segment].fetch_update(Ordering::Release, Ordering::Relaxed, less);
    }

    /// Locks the queue. None: in a signal handler that interrupted the lock's holder, or a thread that waits for it.
    pub(super) fn lock(&self, contention: &Contention, site: Site) -> Option<Held<'_>> {
        match self.lock.acquire(contention, site) {
            Acquired::WouldDeadlock => None,
            Acquired::Clean => Some(Held(self)),
            Acquired::Abandoned => {
                let mut held = Held(self);
                held.repair();
                Some(held)
            }
        }
    }

    fn count(&self, objects: i64, bytes: i64) {
        // Under the lock, so a load and a store will do. Release: see `is_busy`.
        self.objects.store(self.objects.load(Ordering::Relaxed).wrapping_add_signed(objects), Ordering::Release);
        let bytes = self.bytes.load(Ordering::Relaxed).wrapping_add_signed(bytes);
        self.bytes.store(bytes, Ordering::Relaxed);
        if bytes > self.most_bytes.load(Ordering::Relaxed) {
            self.most_bytes.store(bytes, Ordering::Relaxed);
        }
    }
}

impl Held<'_> {
    fn state(&mut self) -> &mut State {
        // SAFETY: we hold the lock.
        unsafe { &mut *self.0.state.get() }
    }

    /// Puts an object into the open segment, in a batch of its class, which takes up to `most`.
    /// Safety: it is the caller's to give up.
    #[inline]
    pub(super) unsafe fn put(&mut self, class: usize, object: *mut u8, bytes: usize, most: usize) -> Put {
        let word = self.state().filling[class];
        // SAFETY: the word is written anew below.
        let batch = unsafe { Batch::from_word(word) }.or_else(|| heap().begin_batch(class, most));
        let Some(mut batch) = batch else { return Put::NoMemory };
        batch.push(object);
        let is_full = batch.is_full();
        in_order();
        self.state().filling[class] = batch.into_word();
        self.0.count(1, bytes as i64);
        if !is_full {
            return Put::Done;
        }
        self.close(class);
        Put::Enough
    }

    /// For an object that the slot's magazine of retired objects has no room for: gives the slot a magazine that begins
    /// with the object, and puts the full one into the open segment.
    /// Safety: it is the caller's to give up.
    pub(super) unsafe fn put_retired(
        &mut self, slots: RetireSlots, slot: u32, class: usize, object: *mut u8, most: usize,
    ) -> Put {
        let Some(mut batch) = heap().begin_batch(class, most) else { return Put::NoMemory };
        batch.push(object);
        let done = match slots.exchange(slot, class, batch) {
            Ok(None) => return Put::Done,
            Ok(Some(full)) => full,
            // The thread has migrated, or another thread is taking the magazine away.
            Err(batch) => batch,
        };
        self.keep(done);
        Put::Enough
    }

    pub(super) fn keep(&mut self, batch: Batch) {
        let (objects, bytes) = (batch.view().len(), heap().batch_bytes(batch.view()));
        self.state().open().batches.push(batch);
        self.0.count(objects as i64, bytes as i64);
    }

    /// Moves the batch of a class, if there is one, into the open segment.
    fn close(&mut self, class: usize) {
        let state = self.state();
        // Out of the word first: if we vanish in between, the batch is lost, but not in two places. SAFETY: as above.
        if let Some(batch) = unsafe { Batch::from_word(core::mem::take(&mut state.filling[class])) } {
            in_order();
            state.open().batches.push(batch);
        }
    }

    /// Puts a call into the open segment.
    /// Safety: the head is the caller's to give up, and the function may be called with it, later and on any thread.
    pub(super) unsafe fn put_call(
        &mut self, head: *mut Head, function: unsafe extern "C" fn(*mut Head), bytes: usize,
    ) -> Put {
        // SAFETY: passed on.
        let count = unsafe {
            head.write(Head { next: null_mut(), function: Some(function) });
            in_order();
            let calls = &mut self.state().open().calls;
            calls.push(head, bytes as u64);
            calls.count
        };
        self.0.count(1, bytes as i64);
        if count.is_multiple_of(CALLS_AT_ONCE) { Put::Enough } else { Put::Done }
    }

    /// Seals the open segment, unless the sealed one holds anything. Batches that are not full go with it.
    pub(super) fn seal_all(&mut self, next: impl FnOnce() -> Cookie) {
        if self.sealed().is_none() {
            (0..CLASSES).for_each(|class| self.close(class));
            self.seal(next);
        }
    }

    /// Seals the open segment without batches that are not full, unless it is empty or the sealed one holds anything:
    /// gives it the next grace period's number.
    pub(super) fn seal(&mut self, next: impl FnOnce() -> Cookie) {
        let is_free = self.sealed().is_none();
        let state = self.state();
        let open = state.open();
        if is_free && !open.is_empty() {
            open.cookie = next().0;
            in_order();
            state.turns += 1;
        }
    }

    /// The grace period of the sealed segment, if that holds anything.
    pub(super) fn sealed(&mut self) -> Option<Cookie> {
        let state = self.state();
        let sealed = &state.segments[state.sealed()];
        (!sealed.is_empty()).then_some(Cookie(sealed.cookie))
    }

    pub(super) fn turns(&mut self) -> usize {
        self.state().turns
    }

    /// Whether all that waited at this number of [`Self::turns`] has been taken out.
    pub(super) fn has_left_since(&mut self, turns: usize) -> bool {
        let state = self.state();
        let sealed = state.sealed();
        match state.turns - turns {
            0 => {
                let is_filling = state.filling.iter().any(|&word| word != 0);
                state.segments.iter().all(Segment::is_empty) && !is_filling
            }
            // The segment that was open then is the sealed one.
            1 => state.segments[sealed].is_empty(),
            // It was empty before the next turn.
            _ => true,
        }
    }

    /// Takes a batch out of the sealed segment. Returns also its number of objects, and the segment's number.
    pub(super) fn take_batch(&mut self) -> Option<(Batch, usize, usize)> {
        let state = self.state();
        let sealed = state.sealed();
        let batch = state.segments[sealed].batches.pop()?;
        let (objects, bytes) = (batch.view().len(), heap().batch_bytes(batch.view()));
        self.take_up(sealed, objects as i64, bytes as i64);
        Some((batch, objects, sealed))
    }

    /// Takes all calls out of the sealed segment. Returns also the segment's number.
    pub(super) fn take_calls(&mut self) -> Option<(Calls, usize)> {
        let state = self.state();
        let sealed = state.sealed();
        let calls = &mut state.segments[sealed].calls;
        if calls.first.is_null() {
            return None;
        }
        let taken = core::mem::replace(calls, Calls::NONE);
        self.take_up(sealed, taken.count.into(), taken.bytes as i64);
        Some((taken, sealed))
    }

    fn take_up(&mut self, segment: usize, objects: i64, bytes: i64) {
        // Before `count` lowers the objects; see `is_busy`. Relaxed: `count` releases it.
        self.0.in_hands[segment].fetch_add(1, Ordering::Relaxed);
        self.0.count(-objects, -bytes);
    }

    #[cold]
    fn repair(&mut self) {
        let state = self.state();
        state.segments.iter_mut().for_each(|segment| segment.calls.repair());
        // A full batch was about to be closed.
        for class in 0..CLASSES {
            // SAFETY: the word names the batch, or none.
            if unsafe { Batch::view_of_word(self.state().filling[class]) }.is_some_and(View::is_full) {
                self.close(class);
            }
        }
        let state = self.state();
        // SAFETY: as above.
        let filling = state.filling.iter().filter_map(|&word| unsafe { Batch::view_of_word(word) });
        let batches = state.segments.iter().flat_map(|segment| segment.batches.iter()).chain(filling);
        let add = |(objects, bytes), batch: View<'_>| (objects + batch.len(), bytes + heap().batch_bytes(batch));
        let (objects, bytes) = batches.fold((0, 0), add);
        let called = |of: fn(&Calls) -> u64| state.segments.iter().map(|segment| of(&segment.calls)).sum::<u64>();
        let objects = objects as u64 + called(|calls| calls.count.into());
        let bytes = bytes as u64 + called(|calls| calls.bytes);
        self.0.objects.store(objects, Ordering::Relaxed);
        self.0.bytes.store(bytes, Ordering::Relaxed);
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // SAFETY: we hold the lock.
        unsafe { self.0.lock.release() };
    }
}

/// Orders the stores before it and behind it for a fork child. See `machine::sync::order`.
fn in_order() {
    compiler_fence(Ordering::SeqCst);
}

pub(super) fn bytes_of(class: usize, object: *mut u8) -> usize {
    if class == 0 { heap().bytes_of_special(object) } else { size_class::size(class) }
}
