//! Where things wait: a queue for each slot, and before it the magazines of retired objects.

use super::queue::{Held, Put, Queue};
use crate::caches::heap;
use crate::central::ChunkHead;
use crate::cpu_cache::RetireSlots;
use crate::depot::Batch;
use core::ptr::{self, null_mut};
use machine::sync::{AtomicPtr, AtomicU32, AtomicU64, Contention, Ordering, Site};
use machine::{here, root, slot, thread, vm};

/// What [`Deferred::readiness`] says. Zero: no thread has deferred what could be retired.
const WANTED: u32 = 1;
const TRIED: u32 = 2;

/// All that waits in queues. Zeroes are valid: nothing does.
#[repr(C)]
pub(super) struct Deferred {
    /// Those of all slots but the first; null before there are any.
    queues: AtomicPtr<Queue>,
    /// Where the slots' magazines of retired objects are; null: not yet, or they could not be taken away again.
    retire_slots: AtomicPtr<ChunkHead>,
    /// Whether a thread wants them, and whether that was tried.
    readiness: AtomicU32,
    /// The thread that takes those magazines away from all slots; 0: none.
    taker: AtomicU64,
    /// The thread that makes calls; 0: none.
    pub(super) caller: AtomicU64,
    pub(super) held_up: AtomicU64,
    pub(super) lost: AtomicU64,
    pub(super) contention: Contention,
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
    /// How often a thread that deferred was held up.
    pub held_up: u64,
    /// Objects that could neither wait nor be waited for, as there was no memory, and were not freed.
    pub lost: u64,
}

impl Deferred {
    /// The queue of a slot; while there are no others, the first one.
    fn queue(&self, slot: u32) -> &Queue {
        // Acquire pairs with the release below: a thread that sees the queues finds them zeroed.
        let queues = self.queues.load(Ordering::Acquire);
        if slot == 0 || queues.is_null() {
            return &self.first;
        }
        // SAFETY: there is one for each possible slot, and they are never unmapped; zeroes are valid.
        unsafe { &*queues.add(slot as usize) }
    }

    pub(super) fn slot_of(&self, queue: &Queue) -> u32 {
        // SAFETY: two queues of one mapping.
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
                // SAFETY: ours, and no other thread has seen it.
                unsafe { vm::release(made.cast(), bytes) };
            }
        }
    }

    pub(super) fn put(&self, put: impl FnOnce(&mut Held<'_>, u32) -> Put) -> (&Queue, Put) {
        if self.queues.load(Ordering::Relaxed).is_null() {
            self.make_queues();
        }
        let own = slot::current().unwrap_or(0);
        let done = self.locked(own, here!(), |queue, held| (queue, put(held, own)));
        done.unwrap_or((&self.first, Put::NoMemory))
    }

    /// Does something with a slot's queue, or with another one in a handler that interrupted its holder. None: there is
    /// none but that.
    fn locked<'d, R>(&'d self, slot: u32, site: Site, work: impl FnOnce(&'d Queue, &mut Held<'_>) -> R) -> Option<R> {
        let slots = (0..slot::MAX as u32).map(|other| slot ^ other);
        let lock = |slot| Some((slot, self.queue(slot), self.queue(slot).lock(&self.contention, site)?));
        let (locked, queue, mut held) = slots.filter_map(lock).next()?;
        if locked != slot {
            slot::count_as_used(locked);
        }
        Some(work(queue, &mut held))
    }

    /// Asks the worker for magazines of retired objects.
    pub(super) fn want_retire_slots(&self) {
        if self.readiness.load(Ordering::Relaxed) == 0 {
            // An exchange: another thread may have asked, and the worker have answered.
            let _ = self.readiness.compare_exchange(0, WANTED, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Has objects retired into magazines from now on, if a thread wants that and they can be taken away again. The
    /// worker's work: in a process with several threads it takes the kernel milliseconds to register it for kicks.
    #[cold]
    pub(super) fn make_retire_slots(&self) {
        if self.readiness.load(Ordering::Relaxed) != WANTED {
            return;
        }
        // In a fork child there may be some already, and two workers: one that forked in a call.
        let word = &self.retire_slots;
        if let Some(made) = RetireSlots::make()
            // Release pairs with the acquire in `retire_slots`: a thread that sees it finds it as it was made.
            && word.compare_exchange(null_mut(), made.base(), Ordering::Release, Ordering::Relaxed).is_err()
        {
            made.unmake();
        }
        self.readiness.store(TRIED, Ordering::Relaxed);
    }

    #[inline(always)]
    pub(super) fn retire_slots(&self) -> Option<RetireSlots> {
        // SAFETY: stored by `make_retire_slots`, or null. Acquire pairs with the release there.
        unsafe { RetireSlots::at(self.retire_slots.load(Ordering::Acquire)) }
    }

    /// In a fork child.
    pub(super) fn begin_anew(&self) {
        self.queues().for_each(Queue::forget_hands);
        // A thread that forked in a call goes on making it, and so on.
        for doer in [&self.caller, &self.taker] {
            if doer.load(Ordering::Relaxed) != thread::id() {
                doer.store(0, Ordering::Relaxed);
            }
        }
    }

    /// In a fork child that has one thread: takes the magazines of retired objects into the queues, so that the next
    /// thread that defers takes the slow path, and makes a worker.
    pub(super) fn collect_retired(&self) {
        if let Some(slots) = self.retire_slots() {
            slots.collect(|slot, batch| self.keep(slot, batch));
        }
    }

    /// Takes the magazines of retired objects of all slots into their queues. False: another thread is at it.
    pub(super) fn take_retired(&self) -> bool {
        let Some(slots) = self.retire_slots() else { return true };
        // Acquire pairs with the release below: behind what the last one did.
        if self.taker.compare_exchange(0, thread::id(), Ordering::Acquire, Ordering::Relaxed).is_err() {
            return false;
        }
        heap().cpu.take_retired(slots, |slot, batch| self.keep(slot, batch));
        self.taker.store(0, Ordering::Release);
        true
    }

    fn keep(&self, slot: u32, batch: Batch) {
        self.locked(slot, here!(), |_, held| held.keep(batch));
    }

    pub(super) fn is_busy(&self) -> bool {
        self.queues().any(Queue::is_busy) || self.retire_slots().is_some_and(RetireSlots::is_used) || does_any_wait()
    }

    pub(super) fn is_caller(&self) -> bool {
        self.caller.load(Ordering::Relaxed) == thread::id()
    }

    pub(super) fn waiting(&self) -> Waiting {
        let mut waiting = Waiting {
            held_up: self.held_up.load(Ordering::Relaxed),
            lost: self.lost.load(Ordering::Relaxed),
            ..Waiting::default()
        };
        if let Some(slots) = self.retire_slots() {
            (waiting.objects, waiting.bytes) = slots.count();
        }
        for queue in self.queues() {
            waiting.objects += queue.objects();
            waiting.bytes += queue.bytes();
            waiting.most_bytes += queue.most_bytes();
        }
        waiting
    }
}

/// Whether spans of any typesafe cache wait for readers.
pub(super) fn does_any_wait() -> bool {
    root::is_installed() && heap().central().has_waiting()
}
