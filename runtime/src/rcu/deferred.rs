//! Deferring: other threads free, drop or call something after a grace period.
//!
//! Everything waits in the queue of the slot where it was deferred (`queues`). A thread that defers maintains its
//! slot's queue now and then. It asks for a grace period when enough waits to be worth one, and frees a part of what
//! has waited long enough. The worker does the rest, and makes all calls.
//!
//! Blocks of size classes are first retired into a magazine of their slot, as cheaply as they would be freed. Only a
//! thread that fills the magazine, or finds none, takes the slow path, which is in this file.
//!
//! **How much can wait.** In a slot, up to a mark (`rcu.high_mark` objects, `rcu.high_kib`). Beyond it, a thread on the
//! slow path is held up until less waits, but at most for `rcu.hold_up_ms` milliseconds: it may have locks that readers
//! wait for. With sections open, or with a registered reader online, it is not held up, as it would wait for itself. If
//! readers hold a grace period up for T milliseconds, the bound is
//!
//! ```text
//!   slots in use × (mark + a batch for each size in use)
//!     +  threads that defer outside of sections × (T / hold-up + 1) batches
//! ```
//!
//! besides what threads defer inside of sections, or with a registered reader that reaches no checkpoint. A batch is at
//! most 16 KiB, or two objects if these are more. Large blocks come alone.

use super::domain::{Domain, own_sections};
use super::grace::{Caller, Cookie, MICROSECOND, MILLISECOND, Pace, Patience};
use super::queue::{Head, Held, Put, Queue, bytes_of};
use super::queues::{Waiting, does_any_wait};
use super::synchronize::{die_waiting, drive, start, wait_for};
use crate::caches::{Home, OutOfMemory, enter, heap};
use crate::central::size_class;
use crate::misuse::{self, Call, Found};
use crate::page_heap::PAGE;
use crate::settings::Key;
use core::mem::offset_of;
use core::panic::Location;
use core::ptr::NonNull;
use machine::sync::{Contention, Ordering};
use machine::thread::{self, Work};
use machine::{clock, here, root, slot};

const BULK: Key = Key::of("rcu.bulk");
const LAZY_LIMIT: Key = Key::of("rcu.lazy_limit");
const LAZY_KIB: Key = Key::of("rcu.lazy_kib");
const BATCH_LIMIT: Key = Key::of("rcu.batch_limit");
const BATCH_TIME: Key = Key::of("rcu.batch_time_us");
const HIGH_MARK: Key = Key::of("rcu.high_mark");
const HIGH_KIB: Key = Key::of("rcu.high_kib");
const LOW_MARK: Key = Key::of("rcu.low_percent");
const HOLD_UP: Key = Key::of("rcu.hold_up_ms");
const HAND_BACK: Key = Key::of("rcu.hand_back");

/// Counts the objects that wait to be freed or called: exact at rest.
pub fn waiting() -> Waiting {
    Domain::of_process().deferred.waiting()
}

pub(crate) fn contention() -> &'static Contention {
    &Domain::of_process().deferred.contention
}

/// Frees a block after a grace period: when all sections that are open now have ended. It may be any block of the heap,
/// of a group or of an object cache, or null. Costs about as much as to free the block and to lock the slot's queue,
/// and from time to time a grace period. While a slot holds more than a mark (`rcu.high_mark`, `rcu.high_kib`), it may
/// delay a caller outside of sections by `rcu.hold_up_ms`.
///
/// In a process with one thread, outside of sections, the block is freed at once. The first call that defers something
/// in a process makes the worker, and so must not be in a signal handler; later ones may. A fork child inherits what
/// waited. It frees that as soon as it defers something itself, or asks for [`barrier`].
///
/// # Safety
/// The caller owns the block, except that readers may find it in sections that are open.
#[inline(always)]
pub unsafe fn defer_free(block: *mut u8) {
    // If there are retire slots, there is a heap.
    let slots = Domain::of_process().deferred.retire_slots();
    // SAFETY: passed on.
    let is_done = slots.is_some_and(|slots| unsafe { slots.push(heap().class_word(block), block) });
    if !is_done {
        // SAFETY: passed on.
        unsafe { defer_slow(block) }
    }
}

#[cold]
#[inline(never)]
unsafe fn defer_slow(block: *mut u8) {
    if block.is_null() {
        return;
    }
    let domain = Domain::enter();
    if !enter() {
        return misuse::report(Found::Foreign, Call::Free, block);
    }
    let heap = heap();
    let class = heap.class_at(block);
    let is_large = class == 0 && heap.central().cache_at(block).is_none();
    if is_large && heap.demand_large(block, Call::Free).is_none() {
        return;
    }
    if thread::is_alone() && !domain.waits_for_itself() {
        // SAFETY: passed on; there is no thread that could be in a section.
        return unsafe { heap.free_any(block) };
    }
    let deferred = &domain.deferred;
    if class != 0 {
        // This very call wakes the worker.
        deferred.want_retire_slots();
    }
    let slots = deferred.retire_slots().filter(|_| class != 0 && slot::current().is_some());
    let most = BULK.get() as usize;
    let put = |held: &mut Held<'_>, slot| match slots {
        // SAFETY: passed on.
        Some(slots) => unsafe { held.put_retired(slots, slot, class, block, most) },
        // SAFETY: passed on.
        None => unsafe { held.put(class, block, bytes_of(class, block), most) },
    };
    match deferred.put(put) {
        // SAFETY: passed on, and a grace period is over.
        (_, Put::NoMemory) if wait_instead(domain) => unsafe { heap.free_any(block) },
        (_, Put::NoMemory) => {}
        (queue, put) => has_put(domain, queue, put),
    }
}

/// Calls a function after a grace period, on a thread of the runtime's, with no locks held. Calls that were deferred in
/// the same slot keep their order. Never fails, and allocates nothing. The function may do anything except wait for
/// [`barrier`]. Other calls wait until it returns.
///
/// The head usually lies in the object that the function then frees. Signal handlers and fork children: as for
/// [`defer_free`].
///
/// # Safety
/// The head is the caller's to give up, and stays where it is until the call. The function may be called with it on
/// another thread.
pub unsafe fn call(head: *mut Head, function: unsafe extern "C" fn(*mut Head)) {
    // SAFETY: passed on.
    unsafe { call_of(head, function, 0) }
}

/// The same for an object of so many bytes, which count towards the mark.
/// Safety: as for [`call`].
pub(crate) unsafe fn call_of(head: *mut Head, function: unsafe extern "C" fn(*mut Head), bytes: usize) {
    let domain = Domain::enter();
    enter();
    // SAFETY: passed on.
    match domain.deferred.put(|held, _| unsafe { held.put_call(head, function, bytes) }) {
        // There is one queue only, and this handler interrupted the thread that holds it.
        // SAFETY: passed on, and a grace period is over.
        (_, Put::NoMemory) if wait_instead(domain) => unsafe { function(head) },
        (_, Put::NoMemory) => {}
        (queue, put) => {
            has_put(domain, queue, put);
            if put == Put::Enough && queue.objects() >= LAZY_LIMIT.get() {
                domain.worker.hurry();
            }
        }
    }
}

/// A value, with the head by which it waits to be dropped.
#[repr(C)]
pub(super) struct Dropped<T> {
    head: Head,
    pub(super) value: T,
}

const _: () = assert!(offset_of!(Dropped<u64>, head) == 0);

unsafe extern "C" fn drop_it<T>(head: *mut Head) {
    // SAFETY: the head is the first field of what `retire` was given, and no other thread has that any more.
    unsafe {
        head.cast::<Dropped<T>>().drop_in_place();
        heap().free_any(head.cast());
    }
}

/// Drops a value and frees its place after a grace period: by a call, if there is anything to drop.
/// Safety: the place is from [`place`], and the caller owns it, except that readers may find it in sections that are
/// open.
pub(super) unsafe fn retire<T>(place: NonNull<Dropped<T>>) {
    // SAFETY: passed on.
    unsafe {
        match core::mem::needs_drop::<T>() {
            true => call_of(place.as_ptr().cast(), drop_it::<T>, size_of::<Dropped<T>>()),
            false => defer_free(place.as_ptr().cast()),
        }
    }
}

/// Drops a value after a grace period, on a thread of the runtime, as [`call`] does. It may be a box with an object
/// that readers may have found, or any other value that must stay until they are done. It has at most some 32 KiB; put
/// a larger value into a box.
///
/// ```
/// use commensal::rcu;
///
/// rcu::defer_drop(vec![1, 2, 3]); // after a grace period
/// rcu::barrier(); // waits until it is dropped
/// ```
///
/// If there is no memory for the value to wait in, the caller waits for a grace period itself. In a section it cannot,
/// and the value is not dropped, which [`Waiting::lost`] counts.
pub fn defer_drop<T: Send + 'static>(value: T) {
    let domain = Domain::enter();
    match place(value) {
        // SAFETY: a place for it, and ours.
        Ok(place) => unsafe { call_of(place.as_ptr().cast(), drop_it::<T>, size_of::<Dropped<T>>()) },
        Err(OutOfMemory(value)) if wait_instead(domain) => drop(value),
        Err(OutOfMemory(value)) => core::mem::forget(value),
    }
}

/// A value in a place of its own.
pub(super) fn place<T>(value: T) -> Result<NonNull<Dropped<T>>, OutOfMemory<T>> {
    let (bytes, alignment) = const {
        assert!(size_of::<Dropped<T>>() <= size_class::LARGEST, "put large values into a box");
        assert!(align_of::<T>() <= PAGE);
        (size_of::<Dropped<T>>(), align_of::<Dropped<T>>())
    };
    let class = size_class::class_for_aligned(bytes, alignment).filter(|_| enter());
    let object = class.and_then(|class| {
        let object = NonNull::new(heap().take(size_class::size(class)));
        object.or_else(|| NonNull::new(heap().refill(class, bytes, 0)?))
    });
    let Some(place) = object.map(NonNull::cast) else { return Err(OutOfMemory(value)) };
    // SAFETY: a place for it, and ours.
    unsafe { place.write(Dropped { head: Head::new(), value }) };
    Ok(place)
}

/// If there is no memory to wait in: waits for a grace period. False: the thread would wait for itself.
#[cold]
fn wait_instead(domain: &Domain) -> bool {
    if domain.waits_for_itself() {
        domain.deferred.lost.fetch_add(1, Ordering::Relaxed);
        return false;
    }
    wait_for(Pace::Usual, Caller::Deferred);
    true
}

/// Waits until all that any thread deferred before is freed, dropped and called, and typesafe caches have given back
/// the spans that they gave up. Must not be called in a section, nor in a deferred call: it would wait for itself, and
/// ends the program instead. Nor in signal handlers.
#[track_caller]
pub fn barrier() {
    barrier_for(Caller::Place(Location::caller()));
}

/// [`barrier`] on behalf of a caller.
pub fn barrier_for(caller: Caller) {
    let domain = Domain::enter();
    if own_sections() != 0 || domain.deferred.is_caller() {
        let what = "what was deferred in a read section, or in a deferred call";
        die_waiting(caller, what, "do it elsewhere");
    }
    let deferred = &domain.deferred;
    let mut patience = Patience::new(Pace::Usual);
    // Entered again each time: a handler may have forked meanwhile, and this may be the child.
    while !Domain::enter().deferred.take_retired() {
        patience.rest(&domain.grace, domain.grace.news());
    }
    let mut turns = [0; slot::MAX];
    for (queue, turns) in deferred.queues().zip(&mut turns) {
        *turns = queue.lock(&deferred.contention, here!()).map_or(0, |mut held| held.turns());
    }
    for (queue, &turns) in deferred.queues().zip(&turns) {
        let has_left = || queue.lock(&deferred.contention, here!()).is_none_or(|mut held| held.has_left_since(turns));
        while !has_left() {
            let seen = domain.grace.news();
            free_all(domain, caller);
            if !has_left() {
                // Another thread is making calls.
                patience.rest(&domain.grace, seen);
            }
        }
        // Also waits for all that threads had taken out: nothing of a segment was in hands at some moment.
        for segment in [0, 1] {
            while queue.is_in_hands(segment) {
                Domain::enter();
                patience.rest(&domain.grace, domain.grace.news());
            }
        }
    }
    // Twice: the first round may only free spans that were sealed before.
    for _ in 0..2 {
        free_waiting(domain, || {
            if does_any_wait() {
                wait_for(Pace::Usual, caller);
            }
        });
    }
}

static WORK: Work = Work { name: c"commensal-rcu", job: work };

fn work() {
    loop {
        let domain = Domain::enter();
        domain.deferred.make_retire_slots();
        if !domain.worker.rest(|| domain.deferred.is_busy()) {
            return;
        }
        free_all(domain, Caller::Deferred);
    }
}

pub(crate) fn has_worker() -> bool {
    Domain::of_process().worker.is_there()
}

/// For a span that waits for readers, or will.
pub(crate) fn rouse_worker() {
    Domain::enter().worker.rouse(Put::Enough, &WORK);
}

#[inline]
fn has_put(domain: &Domain, queue: &Queue, put: Put) {
    if put == Put::Enough {
        maintain(domain, queue, Pace::Usual);
    }
    domain.worker.rouse(put, &WORK);
    if is_above(queue, 100) {
        hold_up(domain, queue);
    }
}

fn is_above(queue: &Queue, percent: u64) -> bool {
    queue.objects() * 100 > HIGH_MARK.get() * percent || queue.bytes() * 100 > (HIGH_KIB.get() << 10) * percent
}

/// Asks for a grace period if enough waits, and frees a part of what has waited for long enough. Expedited: asks in any
/// case, and frees all of it.
fn maintain(domain: &Domain, queue: &Queue, pace: Pace) {
    let is_urgent = pace == Pace::Expedited;
    let is_worth = || queue.objects() >= LAZY_LIMIT.get() || queue.bytes() >= LAZY_KIB.get() << 10;
    let Some(mut held) = queue.lock(&domain.deferred.contention, here!()) else { return };
    if is_urgent {
        held.seal_all(start);
    } else if is_worth() {
        held.seal(start);
    }
    let Some(cookie) = held.sealed() else { return };
    drop(held);
    let is_needed = is_urgent || is_worth();
    if if is_needed { drive(domain, cookie, pace) } else { domain.grace.is_over(cookie) } {
        free_from(domain, queue, if is_urgent { u64::MAX } else { BATCH_LIMIT.get() });
    }
}

/// Frees objects that have waited for long enough, up to `most`.
fn free_from(domain: &Domain, queue: &Queue, most: u64) {
    let (mut freed, mut since) = (0, 0);
    while let Some((batch, objects, segment)) = take(domain, queue, Held::take_batch) {
        // SAFETY: a grace period is over since the objects were deferred.
        unsafe { heap().free_batch(batch, home_of(domain, queue)) };
        queue.put_down(segment);
        freed += objects as u64;
        if freed >= most {
            return;
        }
        let now = if most == u64::MAX { 0 } else { clock::now_ns() };
        since = if since == 0 { now } else { since };
        if most != u64::MAX && now - since >= BATCH_TIME.get() * MICROSECOND {
            return;
        }
    }
}

/// The slot to which a queue's batches go back, and the bytes that stay there in any case. None: to the slot of the
/// thread that frees them.
///
/// Before the next batches come back, a slot that goes on as it did takes as much as waits now, and as makes a grace
/// period worth it.
fn home_of(domain: &Domain, queue: &Queue) -> Option<Home> {
    let kept = queue.bytes() + (LAZY_KIB.get() << 10);
    (HAND_BACK.get() == 1).then(|| Home { slot: domain.deferred.slot_of(queue), kept_bytes: kept as usize })
}

/// Takes something out of the sealed segment, if its grace period is over.
fn take<'q, R>(domain: &Domain, queue: &'q Queue, take: impl FnOnce(&mut Held<'q>) -> Option<R>) -> Option<R> {
    let mut held = queue.lock(&domain.deferred.contention, here!())?;
    if domain.grace.is_over(held.sealed()?) { take(&mut held) } else { None }
}

/// Holds the thread up until less waits in a queue, but not for long.
#[cold]
fn hold_up(domain: &Domain, queue: &Queue) {
    let most_ns = HOLD_UP.get() * MILLISECOND;
    // The thread could wait for its own section, or its own call.
    if most_ns == 0 || domain.waits_for_itself() {
        return;
    }
    domain.deferred.held_up.fetch_add(1, Ordering::Relaxed);
    domain.worker.hurry();
    let (mut patience, start) = (Patience::new(Pace::Usual), clock::now_ns());
    loop {
        let seen = domain.grace.news();
        maintain(domain, queue, Pace::Expedited);
        if !is_above(queue, LOW_MARK.get()) || clock::now_ns() - start >= most_ns {
            return;
        }
        patience.rest(&domain.grace, seen);
    }
}

/// Frees and calls all that waits now in sealed segments, and in open ones whose sealed segment is empty.
fn free_all(domain: &Domain, caller: Caller) {
    let deferred = &domain.deferred;
    deferred.take_retired();
    for queue in deferred.queues().filter(|queue| queue.objects() != 0) {
        if let Some(mut held) = queue.lock(&deferred.contention, here!()) {
            held.seal_all(start);
        }
    }
    free_waiting(domain, || wait_for(Pace::Usual, caller));
    for queue in deferred.queues().filter(|queue| queue.objects() != 0) {
        free_from(domain, queue, u64::MAX);
        make_calls(domain, queue);
    }
}

/// Seals the waiting spans of typesafe caches, waits, and frees all those whose grace period is over.
fn free_waiting(domain: &Domain, wait: impl FnOnce()) {
    let heap = root::is_installed().then(heap);
    heap.inspect(|heap| heap.central().seal_waiting(|| start().0));
    wait();
    let is_over = |number| domain.grace.is_over(Cookie(number));
    heap.inspect(|heap| heap.central().free_waiting(is_over, |free| heap.cpu.as_only_drainer(here!(), free)));
}

/// Makes the calls whose grace period is over. One thread at a time does, so that calls of a slot keep their order.
fn make_calls(domain: &Domain, queue: &Queue) {
    let caller = &domain.deferred.caller;
    // Acquire pairs with the release below: we come behind the last caller.
    if caller.compare_exchange(0, thread::id(), Ordering::Acquire, Ordering::Relaxed).is_err() {
        return;
    }
    if let Some((calls, segment)) = take(domain, queue, Held::take_calls) {
        // SAFETY: a grace period is over since they were deferred.
        unsafe { calls.make() };
        queue.put_down(segment);
    }
    caller.store(0, Ordering::Release);
}
