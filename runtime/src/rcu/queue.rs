//! What waits in a slot: two segments, of which one is open, and the other one has a number.
//!
//! ```text
//!   open      by class: batch that is filled     full batches ─▶ … ─▶ …     calls ─▶ … ─▶ …
//!   sealed    a grace period's number            full batches ─▶ … ─▶ …     calls ─▶ … ─▶ …
//! ```
//!
//! What is deferred goes to the open segment. When that is worth a grace period and the sealed one is empty, it gets
//! the next period's number, and they change places: one store. When the period is over, all of the sealed segment is
//! free to go, and goes by and by.
//!
//! Runs at the same time: any thread, under the queue's lock. If its holder vanishes in a fork, all is as before a
//! store or after it: nothing is there twice, `repair` counts anew, and at worst one batch that was on its way is lost
//! in the child, and what vanished threads had taken out to free it.

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

/// What a deferred call needs: two words, in the object that it is about or beside it. They are the runtime's until the
/// call.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Head {
    next: *mut Head,
    function: Option<unsafe extern "C" fn(*mut Head)>,
}

impl Head {
    /// One that nothing is asked of yet.
    pub const fn new() -> Self {
        Head { next: null_mut(), function: None }
    }
}

// SAFETY: any thread that has it alone may use it.
unsafe impl Send for Head {}
// SAFETY: a shared reference allows nothing.
unsafe impl Sync for Head {}

/// Calls in the order in which they were deferred. Zeroes are none.
#[repr(C)]
pub(super) struct Calls {
    first: *mut Head,
    last: *mut Head,
    count: u32,
    bytes: u64,
}

impl Calls {
    const NONE: Calls = Calls { first: null_mut(), last: null_mut(), count: 0, bytes: 0 };

    /// # Safety
    /// The head is the caller's to give up.
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

    /// By the links alone.
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
    ///
    /// # Safety
    /// Their time has come.
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
    /// Of a sealed one: the grace period that has to be over.
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
    /// How often segments have changed places. The open one is the one of this number's parity.
    turns: usize,
    segments: [Segment; 2],
    /// By class, 0 for what is of none: words of batches that are filled.
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
    /// Batches and calls of each segment that a thread has taken out to do with them what was deferred.
    in_hands: [AtomicU32; 2],
    // What waits, and the most that did. Changed under the lock, and read without it.
    objects: AtomicU64,
    bytes: AtomicU64,
    most_bytes: AtomicU64,
    state: UnsafeCell<State>,
}

// SAFETY: the state is used under the lock.
unsafe impl Sync for Queue {}

/// What came of putting something into a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Put {
    /// It is there.
    Done,
    /// It is there, and it is time to see what can be freed.
    Enough,
    /// There is no memory for a batch.
    NoMemory,
}

/// After so many calls it is time, as after a batch.
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
        // In this order: what is taken out is in hands before it waits no more. Pairs with the release in `count`.
        self.objects.load(Ordering::Acquire) != 0 || [0, 1].into_iter().any(|segment| self.is_in_hands(segment))
    }

    /// Whether any thread has anything of a segment in hands.
    pub(super) fn is_in_hands(&self, segment: usize) -> bool {
        // Acquire pairs with the release in `put_down`: what was freed is free.
        self.in_hands[segment].load(Ordering::Acquire) != 0
    }

    /// In a fork child: threads that had anything in hands are gone, but perhaps for the calling one, which puts down
    /// less than nothing then.
    pub(super) fn forget_hands(&self) {
        self.in_hands.iter().for_each(|hands| hands.store(0, Ordering::Relaxed));
    }

    /// A thread is done with what it took out of a segment.
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

    /// Puts an object into the open segment, in a batch of its class; at most so many are gathered in one.
    ///
    /// # Safety
    /// It is the caller's to give up.
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

    /// Puts an object into the open segment that the slot's magazine of retired objects had no place for: gives the
    /// slot another magazine for its class, and puts the full one into the segment.
    ///
    /// # Safety
    /// It is the caller's to give up.
    pub(super) unsafe fn put_retired(
        &mut self,
        slots: RetireSlots,
        slot: u32,
        class: usize,
        object: *mut u8,
        most: usize,
    ) -> Put {
        let Some(mut batch) = heap().begin_batch(class, most) else { return Put::NoMemory };
        batch.push(object);
        let done = match slots.exchange(slot, class, batch) {
            Ok(None) => return Put::Done,
            Ok(Some(full)) => full,
            // The thread is elsewhere by now, or the magazine is being taken away.
            Err(batch) => batch,
        };
        self.keep(done);
        Put::Enough
    }

    /// Puts a batch into the open segment.
    pub(super) fn keep(&mut self, batch: Batch) {
        let (objects, bytes) = (batch.view().len(), heap().batch_bytes(batch.view()));
        self.state().open().batches.push(batch);
        self.0.count(objects as i64, bytes as i64);
    }

    /// The batch of a class is not filled any more.
    fn close(&mut self, class: usize) {
        let state = self.state();
        // First taken from there: a thread that vanishes before it is in the segment loses it, and leaves it in one
        // place at most. SAFETY: as above.
        if let Some(batch) = unsafe { Batch::from_word(core::mem::take(&mut state.filling[class])) } {
            in_order();
            state.open().batches.push(batch);
        }
    }

    /// Puts a call into the open segment.
    ///
    /// # Safety
    /// The head is the caller's to give up, and the function may be called with it, later and on any thread.
    pub(super) unsafe fn put_call(
        &mut self,
        head: *mut Head,
        function: unsafe extern "C" fn(*mut Head),
        bytes: usize,
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
            open.cookie = next().number();
            in_order();
            state.turns += 1;
        }
    }

    /// The number of the sealed segment, if that holds anything.
    pub(super) fn sealed(&mut self) -> Option<Cookie> {
        let state = self.state();
        let sealed = &state.segments[state.sealed()];
        (!sealed.is_empty()).then(|| Cookie::from_number(sealed.cookie))
    }

    pub(super) fn turns(&mut self) -> usize {
        self.state().turns
    }

    /// Whether all has been taken out that waited when segments had changed places so often.
    pub(super) fn has_left_since(&mut self, turns: usize) -> bool {
        let state = self.state();
        let sealed = state.sealed();
        match state.turns - turns {
            0 => {
                let is_filling = state.filling.iter().any(|&word| word != 0);
                state.segments.iter().all(Segment::is_empty) && !is_filling
            }
            // What was open then is the sealed one.
            1 => state.segments[sealed].is_empty(),
            // That was empty before the next turn.
            _ => true,
        }
    }

    /// Takes a batch out of the sealed segment. Also the number of its objects, and that of the segment.
    pub(super) fn take_batch(&mut self) -> Option<(Batch, usize, usize)> {
        let state = self.state();
        let sealed = state.sealed();
        let batch = state.segments[sealed].batches.pop()?;
        let (objects, bytes) = (batch.view().len(), heap().batch_bytes(batch.view()));
        self.take_up(sealed, objects as i64, bytes as i64);
        Some((batch, objects, sealed))
    }

    /// Takes all calls out of the sealed segment. Also that one's number.
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
        // Before the objects wait no more; see `is_busy`. Relaxed: `count` releases it.
        self.0.in_hands[segment].fetch_add(1, Ordering::Relaxed);
        self.0.count(-objects, -bytes);
    }

    #[cold]
    fn repair(&mut self) {
        let state = self.state();
        state.segments.iter_mut().for_each(|segment| segment.calls.repair());
        // What is full was about to be closed.
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

/// What was stored is stored before what is stored next, for a fork child. See `machine::sync::order`.
fn in_order() {
    compiler_fence(Ordering::SeqCst);
}

/// Bytes of an object of a class.
pub(super) fn bytes_of(class: usize, object: *mut u8) -> usize {
    if class == 0 { heap().bytes_of_special(object) } else { size_class::size(class) }
}
