//! Deferring: what is to be freed, dropped or called after a grace period, by somebody else.
//!
//! Everything waits in the queue of the slot where it was deferred. Who defers tends that queue now and then: asks for
//! a grace period when enough waits to be worth one, and frees a part of what has waited long enough. Whatever is left
//! over, and all calls, are the worker's.
//!
//! Blocks of size classes are retired into a magazine of their slot first, as cheaply as they would be freed: only what
//! fills it, or finds none, comes along the slow way that is told of here.
//!
//! **How much can wait.** In a slot, up to a mark (`rcu.high_mark` objects, `rcu.high_kib`). Beyond it, whoever comes
//! along the slow way is held up until less waits, or until `rcu.hold_up_ms` milliseconds are over: it may have locks
//! that readers wait for, so this cannot be for ever. With sections open, or with a registered reader online, it is not
//! held up, as it would wait for itself. So while readers keep a grace period from ending for T milliseconds, at most
//!
//! ```text
//!   slots in use × (mark + a batch for each size in use)  +  threads that defer outside of sections × (T / hold-up + 1) batches
//! ```
//!
//! wait, and what is deferred inside of sections, and by registered readers that come to no checkpoint. A batch is at
//! most 16 KiB, or two objects if these are more; large blocks come alone.

use super::domain::{Domain, own_sections};
use super::grace::{Caller, Pace, Patience, drive, start, wait_for};
use super::queue::{Head, Held, Put, Queue, bytes_of};
use super::typesafe::does_any_wait;
use crate::caches::heap;
use crate::caches::{Home, enter};
use crate::central::ChunkHead;
use crate::cpu_cache::RetireSlots;
use crate::depot::Batch;
use crate::misuse::{self, Line};
use crate::settings::Key;
use core::fmt::Write;
use core::mem::offset_of;
use core::panic::Location;
use core::ptr::{self, NonNull, null_mut};
use machine::sync::{AtomicPtr, AtomicU32, AtomicU64, Contention, Ordering, Site};
use machine::{clock, here, process, slot, thread, vm};

/// What [`Deferred::readiness`] says. Zero: nobody has deferred what could be laid aside.
const WANTED: u32 = 1;
const TRIED: u32 = 2;

const MICROSECOND: u64 = 1000;
const MILLISECOND: u64 = 1_000_000;

const LAZY_LIMIT: Key = Key::of("rcu.lazy_limit");
const LAZY_KIB: Key = Key::of("rcu.lazy_kib");
const BULK: Key = Key::of("rcu.bulk");
const BATCH_LIMIT: Key = Key::of("rcu.batch_limit");
const BATCH_TIME: Key = Key::of("rcu.batch_time_us");
const HIGH_MARK: Key = Key::of("rcu.high_mark");
const HIGH_KIB: Key = Key::of("rcu.high_kib");
const LOW_MARK: Key = Key::of("rcu.low_percent");
const HOLD_UP: Key = Key::of("rcu.hold_up_ms");
const HAND_BACK: Key = Key::of("rcu.hand_back");

/// Where things wait. Zeroes are a valid one.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Deferred {
    /// Those of all slots but the first; null before there are any.
    queues: AtomicPtr<Queue>,
    /// The arrays that are laid aside; null: there are none, as nobody could take them away, or not yet.
    retire_slots: AtomicPtr<ChunkHead>,
    /// Whether somebody wants them, and whether that was tried.
    readiness: AtomicU32,
    /// Who takes those arrays away from all slots; 0: nobody.
    taker: AtomicU64,
    /// Who makes calls; 0: nobody.
    caller: AtomicU64,
    held_up: AtomicU64,
    lost: AtomicU64,
    contention: Contention,
    first: Queue,
}

/// What waits to be freed or called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Objects and calls.
    pub objects: u64,
    /// The bytes of objects, as far as they are known: not of what calls are about.
    pub bytes: u64,
    /// The most that these have been in each slot, added up.
    pub most_bytes: u64,
    /// How often somebody who deferred was held up.
    pub held_up: u64,
    /// Objects that could neither wait nor be waited for, as there was no memory, and were not freed.
    pub lost: u64,
}

impl Deferred {
    /// The queue of a slot; while there are no others, the first one.
    fn queue(&self, slot: u32) -> &Queue {
        // Acquire pairs with the release below: who sees the queues finds them zeroed.
        let queues = self.queues.load(Ordering::Acquire);
        if slot == 0 || queues.is_null() {
            return &self.first;
        }
        // SAFETY: there is one for each possible slot, and they are never unmapped; zeroes are valid.
        unsafe { &*queues.add(slot as usize) }
    }

    /// The slot of a queue.
    fn slot_of(&self, queue: &Queue) -> u32 {
        // SAFETY: two queues of one array.
        let place = || unsafe { ptr::from_ref(queue).offset_from(self.queues.load(Ordering::Acquire)) as u32 };
        if ptr::eq(queue, &self.first) { 0 } else { place() }
    }

    /// Queues that may hold anything.
    pub(super) fn queues(&self) -> impl Iterator<Item = &Queue> {
        let others = if self.queues.load(Ordering::Acquire).is_null() { 0 } else { slot::in_use() };
        core::iter::once(&self.first).chain((1..others).map(|slot| self.queue(slot)))
    }

    /// Makes queues for all slots, if there is memory.
    #[cold]
    fn make_queues(&self) {
        let bytes = (slot::MAX * size_of::<Queue>()).next_multiple_of(vm::PAGE);
        if let Some(made) = vm::reserve(null_mut(), bytes, vm::Access::ReadWrite) {
            let made = made.cast::<Queue>();
            if self.queues.compare_exchange(null_mut(), made, Ordering::Release, Ordering::Relaxed).is_err() {
                // SAFETY: ours, and nobody has seen it.
                unsafe { vm::release(made.cast(), bytes) };
            }
        }
    }

    /// Has objects laid aside from now on, if somebody wants that and they can be taken away again. The worker's work:
    /// with threads about it takes the kernel milliseconds to register the process for kicks.
    #[cold]
    pub(super) fn make_retire_slots(&self) {
        if self.readiness.load(Ordering::Relaxed) != WANTED {
            return;
        }
        // In a fork child there may be some already, and two workers: one that forked in a call.
        if let Some(made) = RetireSlots::make()
            // Release pairs with the acquire in `retire_slots`: who sees it finds it as it was made.
            && self.retire_slots.compare_exchange(null_mut(), made.base(), Ordering::Release, Ordering::Relaxed).is_err()
        {
            made.unmake();
        }
        self.readiness.store(TRIED, Ordering::Relaxed);
    }

    #[inline(always)]
    fn retire_slots(&self) -> Option<RetireSlots> {
        // SAFETY: stored by `make_retire_slots`, or null. Acquire pairs with the release there.
        unsafe { RetireSlots::at(self.retire_slots.load(Ordering::Acquire)) }
    }

    /// In a fork child.
    pub(super) fn begin_anew(&self) {
        self.queues().for_each(Queue::forget_hands);
        // A thread that forked in a call goes on making it, and so on.
        for who in [&self.caller, &self.taker] {
            if who.load(Ordering::Relaxed) != thread::id() {
                who.store(0, Ordering::Relaxed);
            }
        }
    }

    /// In a fork child that has one thread: takes what is laid aside into the queues, so that the next who defers comes
    /// along, and makes a worker.
    pub(super) fn collect_retired(&self) {
        if let Some(slots) = self.retire_slots() {
            slots.collect(|slot, batch| self.keep(slot, batch));
        }
    }

    /// Puts a batch into a slot's queue.
    fn keep(&self, slot: u32, batch: Batch) {
        self.locked(slot, here!(), |_, held| held.keep(batch));
    }

    /// Does something with a slot's queue; in a handler that interrupted whoever has that, with another one. None:
    /// there is none but that.
    fn locked<'d, R>(&'d self, slot: u32, site: Site, work: impl FnOnce(&'d Queue, &mut Held<'_>) -> R) -> Option<R> {
        let slots = (0..slot::MAX as u32).map(|other| slot ^ other);
        let lock = |slot| Some((slot, self.queue(slot), self.queue(slot).lock(&self.contention, site)?));
        let (locked, queue, mut held) = slots.filter_map(lock).next()?;
        if locked != slot {
            slot::count_as_used(locked);
        }
        Some(work(queue, &mut held))
    }

    /// Whether anything waits.
    pub(super) fn is_busy(&self) -> bool {
        self.queues().any(Queue::is_busy) || self.retire_slots().is_some_and(RetireSlots::is_used) || does_any_wait()
    }

    /// Takes what is laid aside in all slots into their queues. False: another one is at it.
    fn take_retired(&self) -> bool {
        let Some(slots) = self.retire_slots() else { return true };
        // Acquire pairs with the release below: behind what the last one did.
        if self.taker.compare_exchange(0, thread::id(), Ordering::Acquire, Ordering::Relaxed).is_err() {
            return false;
        }
        heap().cpu.take_retired(slots, |slot, batch| self.keep(slot, batch));
        self.taker.store(0, Ordering::Release);
        true
    }
}

impl Domain {
    /// Puts something into the slot's queue.
    fn put(&self, put: impl FnOnce(&mut Held<'_>, u32) -> Put) -> (&Queue, Put) {
        let deferred = &self.deferred;
        if deferred.queues.load(Ordering::Relaxed).is_null() {
            deferred.make_queues();
        }
        let own = slot::current().unwrap_or(0);
        let done = deferred.locked(own, here!(), |queue, held| (queue, put(held, own)));
        done.unwrap_or((&deferred.first, Put::NoMemory))
    }

    /// After something was put into a queue.
    #[inline]
    fn has_put(&self, queue: &Queue, put: Put) {
        if put == Put::Enough {
            self.tend(queue, false);
        }
        self.rouse(put == Put::Enough);
        if self.is_above(queue, 100) {
            self.hold_up(queue);
        }
    }

    fn is_above(&self, queue: &Queue, percent: u64) -> bool {
        queue.objects() * 100 > HIGH_MARK.get() * percent || queue.bytes() * 100 > (HIGH_KIB.get() << 10) * percent
    }

    /// Asks for a grace period if enough waits, and frees a part of what has waited for long enough, or all of it.
    fn tend(&self, queue: &Queue, is_urgent: bool) {
        let is_worth = |queue: &Queue| queue.objects() >= LAZY_LIMIT.get() || queue.bytes() >= LAZY_KIB.get() << 10;
        let Some(mut held) = queue.lock(&self.deferred.contention, here!()) else { return };
        held.seal(is_urgent, is_worth, start);
        let Some(cookie) = held.sealed() else { return };
        drop(held);
        let is_needed = is_urgent || is_worth(queue);
        let pace = if is_urgent { Pace::Expedited } else { Pace::Usual };
        if if is_needed { drive(self, cookie, pace) } else { self.grace.is_over(cookie) } {
            let most = if is_urgent { u64::MAX } else { BATCH_LIMIT.get() };
            self.free_from(queue, most);
        }
    }

    /// Frees what has waited for long enough, up to so many objects.
    fn free_from(&self, queue: &Queue, most: u64) {
        let (mut freed, mut since) = (0, 0);
        while let Some((batch, objects, segment)) = self.take_batch(queue) {
            // SAFETY: a grace period is over since the objects were deferred.
            unsafe { heap().free_batch(batch, self.home_of(queue)) };
            queue.put_down(segment);
            freed += objects as u64;
            if freed >= most {
                return;
            }
            if most != u64::MAX {
                let now = clock::now_ns();
                since = if since == 0 { now } else { since };
                if now - since >= BATCH_TIME.get() * MICROSECOND {
                    return;
                }
            }
        }
    }

    /// The slot that what has waited in a queue goes back to, and the bytes that are kept there in any case; none:
    /// wherever it is freed.
    ///
    /// A slot that goes on as it did takes as many objects until the next ones come back as wait now, and will until a
    /// grace period is worth it. Kept anywhere else, they would have to be fetched from where all slots meet; put into
    /// their spans, one by one, they would be collected again.
    fn home_of(&self, queue: &Queue) -> Option<Home> {
        let kept = queue.bytes() + (LAZY_KIB.get() << 10);
        (HAND_BACK.get() == 1).then(|| Home { slot: self.deferred.slot_of(queue), kept_bytes: kept as usize })
    }

    fn take_batch(&self, queue: &Queue) -> Option<(Batch, usize, usize)> {
        let mut held = queue.lock(&self.deferred.contention, here!())?;
        if self.grace.is_over(held.sealed()?) { held.take_batch() } else { None }
    }

    /// Waits until less waits in a queue, but not for long.
    #[cold]
    fn hold_up(&self, queue: &Queue) {
        let most = HOLD_UP.get() * MILLISECOND;
        // What it waits for could be its own section, or its own call.
        if most == 0 || self.waits_for_itself() {
            return;
        }
        self.deferred.held_up.fetch_add(1, Ordering::Relaxed);
        self.hurry();
        let (mut patience, start) = (Patience::new(Pace::Usual), clock::now_ns());
        loop {
            let seen = self.grace.news();
            self.tend(queue, true);
            if !self.is_above(queue, LOW_MARK.get()) || clock::now_ns() - start >= most {
                return;
            }
            patience.rest(&self.grace, seen);
        }
    }

    /// Whether a grace period, or whoever makes calls, would wait for the calling thread.
    pub(super) fn waits_for_itself(&self) -> bool {
        own_sections() != 0 || self.is_caller() || self.registered.is_own_online()
    }

    /// Whether the calling thread makes calls.
    fn is_caller(&self) -> bool {
        self.deferred.caller.load(Ordering::Relaxed) == thread::id()
    }

    /// Frees, and calls, all that waits now in the sealed segments, or if those are empty in the open ones.
    pub(super) fn free_all(&self, caller: Caller) {
        self.deferred.take_retired();
        for queue in self.deferred.queues().filter(|queue| queue.objects() != 0) {
            if let Some(mut held) = queue.lock(&self.deferred.contention, here!()) {
                held.seal(true, |_| true, start);
            }
        }
        self.free_waiting(|| wait_for(Pace::Usual, caller));
        for queue in self.deferred.queues().filter(|queue| queue.objects() != 0) {
            self.free_from(queue, u64::MAX);
            self.make_calls(queue);
        }
    }

    /// Makes the calls whose time has come. One thread does at a time, so that they are made in the order in which they
    /// were deferred in a slot.
    fn make_calls(&self, queue: &Queue) {
        let caller = &self.deferred.caller;
        let me = thread::id();
        // Acquire pairs with the release below: behind what the last caller did.
        if caller.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return;
        }
        let take = || {
            let mut held = queue.lock(&self.deferred.contention, here!())?;
            if self.grace.is_over(held.sealed()?) { held.take_calls() } else { None }
        };
        if let Some((calls, segment)) = take() {
            // SAFETY: a grace period is over since they were deferred.
            unsafe { calls.make() };
            queue.put_down(segment);
        }
        caller.store(0, Ordering::Release);
    }

    /// There is no memory for anything to wait in: waits itself, if that can be; whether it did.
    #[cold]
    fn wait_instead(&self) -> bool {
        if self.waits_for_itself() {
            self.deferred.lost.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        wait_for(Pace::Usual, Caller::Deferred);
        true
    }
}

/// What waits to be freed or called; exact at rest.
pub fn waiting() -> Waiting {
    let deferred = &Domain::of_process().deferred;
    let mut waiting = Waiting {
        held_up: deferred.held_up.load(Ordering::Relaxed),
        lost: deferred.lost.load(Ordering::Relaxed),
        ..Waiting::default()
    };
    if let Some(slots) = deferred.retire_slots() {
        (waiting.objects, waiting.bytes) = slots.count();
    }
    for queue in deferred.queues() {
        waiting.objects += queue.objects();
        waiting.bytes += queue.bytes();
        waiting.most_bytes += queue.most_bytes();
    }
    waiting
}

/// What waiting for the queues' locks cost.
pub fn contention() -> &'static Contention {
    &Domain::of_process().deferred.contention
}

/// Frees a block after a grace period: when all sections that are open now have ended. Any block of the heap, of a
/// group or of an object cache. Null is nothing. It costs about as much as to free the block and to lock the slot's
/// queue; from time to time a grace period, and at the mark (see the module) some milliseconds. Nothing has to be done
/// for it to be freed, not even ever.
///
/// In a process with one thread, outside of sections, the block is freed at once. The first who defers something in a
/// process makes the worker, and so must not be a signal handler; later ones may. A fork child frees what waited when
/// it forked as soon as it defers something itself, or asks for [`barrier`].
///
/// # Safety
/// The block is the caller's to give up, but that readers may find it in sections that are open.
#[inline(always)]
pub unsafe fn defer_free(block: *mut u8) {
    // Where there are retire slots, there is a heap.
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
        misuse::die(misuse::Found::Foreign, block);
    }
    let heap = heap();
    let class = heap.class_at(block);
    if class == 0 && heap.central().cache_at(block).is_none() {
        heap.demand_large(block);
    }
    if thread::is_alone() && !domain.waits_for_itself() {
        // SAFETY: passed on; there is nobody who could be in a section.
        return unsafe { heap.free_any(block) };
    }
    let deferred = &domain.deferred;
    if class != 0 && deferred.readiness.load(Ordering::Relaxed) == 0 {
        // To the worker, whom this very call wakes. An exchange: another one may have asked, and the worker have
        // answered.
        let _ = deferred.readiness.compare_exchange(0, WANTED, Ordering::Relaxed, Ordering::Relaxed);
    }
    let slots = deferred.retire_slots().filter(|_| class != 0 && slot::current().is_some());
    let most = BULK.get() as usize;
    let put = |held: &mut Held<'_>, slot| match slots {
        // SAFETY: passed on.
        Some(slots) => unsafe { held.put_retired(slots, slot, class, block, most) },
        // SAFETY: passed on.
        None => unsafe { held.put(class, block, bytes_of(class, block), most) },
    };
    match domain.put(put) {
        (_, Put::NoMemory) => {
            if domain.wait_instead() {
                // SAFETY: passed on, and a grace period is over.
                unsafe { heap.free_any(block) };
            }
        }
        (queue, put) => domain.has_put(queue, put),
    }
}

/// Calls a function after a grace period, on a thread of the runtime's, with no locks held; calls that were deferred in
/// the same slot come in this order. Never fails, and allocates nothing. The function may do anything but wait for
/// [`barrier`]; others wait as long as it takes.
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

/// The same for something of so many bytes, which count towards the mark.
///
/// # Safety
/// As for [`call`].
pub unsafe fn call_of(head: *mut Head, function: unsafe extern "C" fn(*mut Head), bytes: usize) {
    let domain = Domain::enter();
    enter();
    // SAFETY: passed on.
    match domain.put(|held, _| unsafe { held.put_call(head, function, bytes) }) {
        // There is one queue only, and this is a handler on top of whoever has it.
        (_, Put::NoMemory) => {
            if domain.wait_instead() {
                // SAFETY: passed on, and a grace period is over.
                unsafe { function(head) };
            }
        }
        (queue, put) => {
            domain.has_put(queue, put);
            if put == Put::Enough && queue.objects() >= LAZY_LIMIT.get() {
                domain.hurry();
            }
        }
    }
}

/// A value, and what it needs to wait until it is dropped.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Dropped<T> {
    pub(super) head: Head,
    pub(super) value: T,
}

const _: () = assert!(offset_of!(Dropped<u64>, head) == 0);

unsafe extern "C" fn drop_it<T>(head: *mut Head) {
    // SAFETY: the head is the first field of what `retire` was given, which is nobody else's any more.
    unsafe {
        head.cast::<Dropped<T>>().drop_in_place();
        heap().free_any(head.cast());
    }
}

/// Drops a value and frees its place after a grace period: by a call, if there is anything to drop.
///
/// # Safety
/// The place is one of [`take_place`], and the caller's to give up, but that readers may find it in sections that are
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

/// Drops a value after a grace period, on a thread of the runtime's, as [`call`] does: a box with an object that
/// readers may have found, say, or anything else that must not go before they are done. Up to some 32 KiB; larger ones
/// belong into a box.
///
/// If there is no memory for the value to wait in, the caller waits for a grace period itself. In a section it cannot,
/// and the value is not dropped, which [`Waiting::lost`] counts.
pub fn defer_drop<T: Send + 'static>(value: T) {
    let domain = Domain::enter();
    let place = if enter() { take_place::<Dropped<T>>() } else { None };
    match place.and_then(NonNull::new) {
        // SAFETY: a place for it, and ours.
        Some(place) => unsafe {
            place.write(Dropped { head: Head::new(), value });
            call_of(place.as_ptr().cast(), drop_it::<T>, size_of::<Dropped<T>>());
        },
        None if domain.wait_instead() => drop(value),
        None => core::mem::forget(value),
    }
}

/// Memory for a value; none: there is none.
pub(super) fn take_place<T>() -> Option<*mut T> {
    const {
        assert!(size_of::<T>() <= crate::central::size_class::LARGEST, "put large values into a box");
        assert!(align_of::<T>() <= crate::page_heap::PAGE);
    }
    let class = crate::central::size_class::class_for_aligned(size_of::<T>(), align_of::<T>())?;
    let object = heap().take(crate::central::size_class::size(class));
    if object.is_null() {
        return heap().refill(class, size_of::<T>(), 0).map(<*mut u8>::cast);
    }
    Some(object.cast())
}

/// Waits until all that was deferred before, by whomever, is freed, dropped and called, and what typesafe caches gave
/// up is given back. Must not be called in a section, nor by what is called: it would wait for itself, and ends the
/// program instead. Nor in signal handlers.
#[track_caller]
pub fn barrier() {
    barrier_for(Caller::Place(Location::caller()));
}

/// What it is made of.
pub fn barrier_for(caller: Caller) {
    let domain = Domain::enter();
    if own_sections() != 0 || domain.is_caller() {
        let mut line = Line::new();
        let _ = writeln!(
            line,
            "commensal: {caller} waits for what was deferred in a read section, or in a deferred call, and so for itself: do it elsewhere"
        );
        process::complain(line.as_bytes());
        process::die();
    }
    let deferred = &domain.deferred;
    let mut patience = Patience::new(Pace::Usual);
    // Entered again each time: a handler may have forked meanwhile, and this be the child.
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
            domain.free_all(caller);
            if !has_left() {
                // Another one makes calls.
                patience.rest(&domain.grace, seen);
            }
        }
        // What had left before, and what has since: each segment's hands were empty at some moment.
        for segment in [0, 1] {
            while queue.is_in_hands(segment) {
                Domain::enter();
                patience.rest(&domain.grace, domain.grace.news());
            }
        }
    }
    // Twice: the first may only free those that were sealed before.
    for _ in 0..2 {
        domain.free_waiting(|| {
            if does_any_wait() {
                wait_for(Pace::Usual, caller);
            }
        });
    }
}
