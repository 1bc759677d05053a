//! Maintenance: what is done with what waits, by threads that defer and by the worker.
//!
//! A thread that defers maintains its slot's queue now and then: it asks for a grace period when enough waits to be
//! worth one, and frees a part of what has waited long enough. All else is left to the worker, and so are all calls.

use super::domain::Domain;
use super::grace::{Caller, Cookie, MICROSECOND, MILLISECOND, Pace, Patience};
use super::queue::{Held, Put, Queue};
use super::synchronize::{drive, start, wait_for};
use crate::caches::{Home, heap};
use crate::settings::Key;
use machine::sync::Ordering;
use machine::thread::{self, Work};
use machine::{clock, here, root};

pub(super) const LAZY_LIMIT: Key = Key::of("rcu.lazy_limit");
const LAZY_KIB: Key = Key::of("rcu.lazy_kib");
const BATCH_LIMIT: Key = Key::of("rcu.batch_limit");
const BATCH_TIME: Key = Key::of("rcu.batch_time_us");
const HIGH_MARK: Key = Key::of("rcu.high_mark");
const HIGH_KIB: Key = Key::of("rcu.high_kib");
const LOW_MARK: Key = Key::of("rcu.low_percent");
const HOLD_UP: Key = Key::of("rcu.hold_up_ms");
const HAND_BACK: Key = Key::of("rcu.hand_back");

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

/// Something waits for readers, or will.
pub(crate) fn rouse_worker() {
    Domain::enter().worker.rouse(true, &WORK);
}

/// After something was put into a queue.
#[inline]
pub(super) fn has_put(domain: &Domain, queue: &Queue, put: Put) {
    if put == Put::Enough {
        maintain(domain, queue, Pace::Usual);
    }
    domain.worker.rouse(put == Put::Enough, &WORK);
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
    let is_worth = |queue: &Queue| queue.objects() >= LAZY_LIMIT.get() || queue.bytes() >= LAZY_KIB.get() << 10;
    let Some(mut held) = queue.lock(&domain.deferred.contention, here!()) else { return };
    held.seal(is_urgent, is_worth, start);
    let Some(cookie) = held.sealed() else { return };
    drop(held);
    let is_needed = is_urgent || is_worth(queue);
    if if is_needed { drive(domain, cookie, pace) } else { domain.grace.is_over(cookie) } {
        free_from(domain, queue, if is_urgent { u64::MAX } else { BATCH_LIMIT.get() });
    }
}

/// Frees what has waited for long enough, up to so many objects.
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

/// The slot that what has waited in a queue goes back to, and the bytes that are kept there in any case; none: to the
/// slot of the thread that frees it.
///
/// A slot that goes on as it did takes as many objects until the next ones come back as wait now, and will until a
/// grace period is worth it.
fn home_of(domain: &Domain, queue: &Queue) -> Option<Home> {
    let kept = queue.bytes() + (LAZY_KIB.get() << 10);
    (HAND_BACK.get() == 1).then(|| Home { slot: domain.deferred.slot_of(queue), kept_bytes: kept as usize })
}

/// Takes something out of the sealed segment, if its grace period is over.
fn take<'q, R>(domain: &Domain, queue: &'q Queue, take: impl FnOnce(&mut Held<'q>) -> Option<R>) -> Option<R> {
    let mut held = queue.lock(&domain.deferred.contention, here!())?;
    if domain.grace.is_over(held.sealed()?) { take(&mut held) } else { None }
}

/// Waits until less waits in a queue, but not for long.
#[cold]
fn hold_up(domain: &Domain, queue: &Queue) {
    let most_ns = HOLD_UP.get() * MILLISECOND;
    // What it waits for could be its own section, or its own call.
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

/// Frees, and calls, all that waits now in the sealed segments, or if those are empty in the open ones.
pub(super) fn free_all(domain: &Domain, caller: Caller) {
    let deferred = &domain.deferred;
    deferred.take_retired();
    for queue in deferred.queues().filter(|queue| queue.objects() != 0) {
        if let Some(mut held) = queue.lock(&deferred.contention, here!()) {
            held.seal(true, |_| true, start);
        }
    }
    free_waiting(domain, || wait_for(Pace::Usual, caller));
    for queue in deferred.queues().filter(|queue| queue.objects() != 0) {
        free_from(domain, queue, u64::MAX);
        make_calls(domain, queue);
    }
}

/// Frees the spans of typesafe caches that wait for readers, after a grace period, if no others wait for theirs.
pub(super) fn free_waiting(domain: &Domain, wait: impl FnOnce()) {
    let heap = root::is_installed().then(heap);
    heap.inspect(|heap| heap.central().seal_waiting(|| start().number()));
    wait();
    let is_over = |number| domain.grace.is_over(Cookie::from_number(number));
    heap.inspect(|heap| heap.central().free_waiting(is_over, |free| heap.cpu.as_only_drainer(here!(), free)));
}

/// Makes the calls whose time has come. One thread does at a time, so that they are made in the order in which they
/// were deferred in a slot.
fn make_calls(domain: &Domain, queue: &Queue) {
    let caller = &domain.deferred.caller;
    // Acquire pairs with the release below: behind what the last caller did.
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
