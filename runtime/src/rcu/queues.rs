//! A queue for each slot, and in front of it the slot's magazines of retired objects.

use super::queue::{Held, Put, Queue};
use crate::caches::heap;
use crate::central::ChunkHead;
use crate::cpu_cache::RetireSlots;
use crate::depot::Batch;
use core::ptr::{self, null_mut};
use machine::sync::{AtomicPtr, AtomicU32, AtomicU64, Contention, Ordering, Site};
use machine::{here, root, slot, thread, vm};

/// Values of [`Deferred::readiness`]. Zero: no thread has deferred an object that could be retired.
const WANTED: u32 = 1;
const TRIED: u32 = 2;

/// All queues. All-zero memory is valid: nothing waits.
#[repr(C)]
pub(super) struct Deferred {
    /// The queues of all slots but the first; null before there are any.
    queues: AtomicPtr<Queue>,
    /// The slots' magazines of retired objects; null: not yet, or no thread could take them away again.
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

/// Objects and calls that wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waiting {
    /// Objects and calls.
    pub objects: u64,
    /// Bytes of the objects, and of the calls whose bytes are known.
    pub bytes: u64,
    /// The most bytes of each slot so far, added up.
    pub most_bytes: u64,
    /// How often a thread that deferred was held up.
    pub held_up: u64,
    /// Objects that were not freed: there was no memory for them to wait in, and their thread could not wait.
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

    /// Runs `work` on a slot's queue, or on another one in a handler that interrupted its holder. None: there is no
    /// other.
    fn locked<'d, R>(&'d self, slot: u32, site: Site, work: impl FnOnce(&'d Queue, &mut Held<'_>) -> R) -> Option<R> {
        let slots = (0..slot::MAX as u32).map(|other| slot ^ other);
        let lock = |slot| Some((slot, self.queue(slot), self.queue(slot).lock(&self.contention, site)?));
        let (locked, queue, mut held) = slots.filter_map(lock).next()?;
        if locked != slot {
            slot::count_as_used(locked);
        }
        Some(work(queue, &mut held))
    }

    pub(super) fn want_retire_slots(&self) {
        if self.readiness.load(Ordering::Relaxed) == 0 {
            // An exchange: another thread may have asked, and the worker have answered.
            let _ = self.readiness.compare_exchange(0, WANTED, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// From now on objects are retired into magazines, if a thread wants that and they can be taken away again. The
    /// worker does this: with several threads, the kernel needs milliseconds to register the process for kicks.
    #[cold]
    pub(super) fn make_retire_slots(&self) {
        if self.readiness.load(Ordering::Relaxed) != WANTED {
            return;
        }
        // A fork child may have magazines already, and two workers: one that forked in a call.
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
        // A thread that forked in a call goes on making it, and likewise the taker.
        for doer in [&self.caller, &self.taker] {
            if doer.load(Ordering::Relaxed) != thread::id() {
                doer.store(0, Ordering::Relaxed);
            }
        }
    }

    /// In a fork child with one thread: moves the magazines of retired objects into the queues. So the next thread that
    /// defers takes the slow path, and makes a worker.
    pub(super) fn collect_retired(&self) {
        if let Some(slots) = self.retire_slots() {
            slots.collect(|slot, batch| self.keep(slot, batch));
        }
    }

    /// Moves the magazines of retired objects of all slots into the queues. False: another thread does it already.
    pub(super) fn take_retired(&self) -> bool {
        let Some(slots) = self.retire_slots() else { return true };
        // Acquire pairs with the release below: we come behind the last taker.
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
