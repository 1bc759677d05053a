//! The worker: a thread of the runtime's own, which comes into being when something is deferred for the first time, and
//! sees to it that all of it is freed or called in the end (`deferred`).
//!
//! It is *none*, *awake* or *idle*. Idle, it sleeps until a thread defers something; awake, it looks over all queues
//! each `rcu.lazy_delay_ms`, until they are empty. When no thread defers anything for two seconds it ends, and another
//! one is made when it is needed: a process whose main thread has ended by `pthread_exit` ends with its last thread,
//! which must not be ours.
//!
//! Nothing is forgotten: it says that it is idle, or none, and then looks whether anything waits; a thread that defers
//! puts it into a queue, and then looks whether the worker is idle, or none. Between both there is a full fence on
//! either side, so at least one sees the other.

use super::grace::MILLISECOND;
use super::queue::Put;
use crate::percpu;
use crate::settings::Key;
use machine::sync::{AtomicU32, Ordering, order_after_change, wait, wake_one};
use machine::thread::{self, Work};
use machine::{process, sandbox};

const NONE: u32 = 0;
const AWAKE: u32 = 1;
const IDLE: u32 = 2;
/// There is none, and the last try to make one failed.
const FAILED: u32 = 3;

/// What it sleeps when nothing waits, before it ends.
const LONG_NS: u64 = 2_000_000_000;

const LAZY_DELAY: Key = Key::of("rcu.lazy_delay_ms");

/// What is known of it in this process. Zeroes: there is none.
#[repr(C)]
pub(super) struct Worker {
    state: AtomicU32,
    /// Whether it is to look at once.
    is_urgent: AtomicU32,
    /// Changes when it is to wake up.
    bell: AtomicU32,
}

impl Worker {
    pub(super) fn is_there(&self) -> bool {
        matches!(self.state.load(Ordering::Relaxed), AWAKE | IDLE)
    }

    /// In a fork child: there is none.
    pub(super) fn begin_anew(&self) {
        self.state.store(NONE, Ordering::Relaxed);
        self.is_urgent.store(0, Ordering::Relaxed);
    }

    /// After something was put into a queue: wakes the worker if it is idle, and makes it if there is none. If the last
    /// try to make it failed, only a thread that has put [`Put::Enough`] tries again.
    #[inline]
    pub(super) fn rouse(&self, put: Put, work: &'static Work) {
        // Pairs with the one in `rest`: see above. The change was to the queue's lock.
        order_after_change();
        match self.state.load(Ordering::SeqCst) {
            AWAKE => {}
            IDLE => self.wake(),
            FAILED if put != Put::Enough => {}
            _ => self.make(work),
        }
    }

    /// Has it look at once.
    #[cold]
    pub(super) fn hurry(&self) {
        if self.is_urgent.swap(1, Ordering::SeqCst) == 0 {
            self.ring();
        }
    }

    #[cold]
    fn wake(&self) {
        // One of the threads that find it idle is enough.
        if self.state.compare_exchange(IDLE, AWAKE, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
            self.ring();
        }
    }

    fn ring(&self) {
        self.bell.fetch_add(1, Ordering::SeqCst);
        wake_one(&self.bell);
    }

    /// Not in a sandbox, and not on top of a lock: the C library takes its own ones, and a thread that holds those may
    /// wait for ours. What waits is seen to when another thread defers something.
    #[cold]
    fn make(&self, work: &'static Work) {
        if thread::holds_locks() || sandbox::is_on() {
            return;
        }
        // Without signals: a handler that forks would find it on its way, and this thread would go on in the child and
        // make another one.
        percpu::for_process(|| {
            let seen = self.state.load(Ordering::Relaxed);
            let is_ours = (seen == NONE || seen == FAILED)
                && self.state.compare_exchange(seen, AWAKE, Ordering::SeqCst, Ordering::Relaxed).is_ok();
            if is_ours && !process::keeping_errno(|| thread::spawn(work)) {
                self.state.store(FAILED, Ordering::SeqCst);
            }
        });
    }

    /// What the worker does between two looks over all queues: sleeps. False: it is to end.
    pub(super) fn rest(&self, is_busy: impl Fn() -> bool) -> bool {
        let has_work = || {
            // Pairs with the one in `rouse`, behind a change by which the worker says what it does: if that one comes
            // first, we find what was put into a queue; else the other thread sees that change.
            order_after_change();
            is_busy()
        };
        let seen = self.bell.load(Ordering::SeqCst);
        // SeqCst, both: see above.
        self.state.store(IDLE, Ordering::SeqCst);
        if !has_work() {
            wait(&self.bell, seen, LONG_NS);
        }
        if self.bell.load(Ordering::SeqCst) == seen && !has_work() && self.ends(has_work) {
            return false;
        }
        self.state.store(AWAKE, Ordering::SeqCst);
        let seen = self.bell.load(Ordering::SeqCst);
        if self.is_urgent.load(Ordering::SeqCst) == 0 {
            wait(&self.bell, seen, LAZY_DELAY.get() * MILLISECOND);
        }
        // A thread that hurries after this rings again. An exchange: what was put into a queue before we find.
        self.is_urgent.swap(0, Ordering::SeqCst);
        true
    }

    /// Says that there is none, unless something is deferred meanwhile. False: go on.
    fn ends(&self, has_work: impl Fn() -> bool) -> bool {
        if self.state.compare_exchange(IDLE, NONE, Ordering::SeqCst, Ordering::Relaxed).is_err() {
            return false;
        }
        // A thread that deferred before that found us idle, and rang in vain; one that does later makes another one.
        !has_work() || self.state.compare_exchange(NONE, AWAKE, Ordering::SeqCst, Ordering::Relaxed).is_err()
    }
}
