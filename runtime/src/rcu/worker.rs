//! The worker: a thread of the runtime's own, which is created when a thread first defers something. It makes sure that
//! all deferred objects and calls are freed and made in the end (`deferred`).
//!
//! Idle, it sleeps until a thread defers something. Awake, it looks over all queues each `rcu.lazy_delay_ms`, until
//! they are empty. After two idle seconds it ends, for the same reason as the shepherd of `upkeep`.
//!
//! Nothing is forgotten: the worker declares itself idle, or none, and then looks whether anything waits. A thread that
//! defers puts something into a queue, and then looks whether the worker is idle, or none. Both sides fence in between,
//! so at least one sees the other.

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

/// The idle time before it ends.
const LONG_NS: u64 = 2_000_000_000;

const LAZY_DELAY: Key = Key::of("rcu.lazy_delay_ms");

/// The state of the worker in this process. All-zero: there is none.
#[repr(C)]
pub(super) struct Worker {
    state: AtomicU32,
    /// Whether it must look at once.
    is_urgent: AtomicU32,
    /// Changes when it must wake up.
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
            // One ring is enough, of all threads that find it idle.
            IDLE if self.state.compare_exchange(IDLE, AWAKE, Ordering::SeqCst, Ordering::Relaxed).is_ok() => {
                self.ring()
            }
            IDLE => {}
            FAILED if put != Put::Enough => {}
            _ => self.make(work),
        }
    }

    /// Makes it look at once.
    #[cold]
    pub(super) fn hurry(&self) {
        if self.is_urgent.swap(1, Ordering::SeqCst) == 0 {
            self.ring();
        }
    }

    #[cold]
    fn ring(&self) {
        self.bell.fetch_add(1, Ordering::SeqCst);
        wake_one(&self.bell);
    }

    /// Not in a sandbox, and not on top of a lock: the C library takes its own ones, and a thread that holds those may
    /// wait for ours. The next thread that defers something tries again.
    #[cold]
    fn make(&self, work: &'static Work) {
        if thread::holds_locks() || sandbox::is_on() {
            return;
        }
        // Without signals: if a handler on it forked, this thread would continue in the child and make another one.
        percpu::for_process(|| {
            let seen = self.state.load(Ordering::Relaxed);
            let is_ours = (seen == NONE || seen == FAILED)
                && self.state.compare_exchange(seen, AWAKE, Ordering::SeqCst, Ordering::Relaxed).is_ok();
            if is_ours && !process::keeping_errno(|| thread::spawn(work)) {
                self.state.store(FAILED, Ordering::SeqCst);
            }
        });
    }

    /// Sleeps between two looks over all queues. False: the worker must end.
    pub(super) fn rest(&self, is_busy: impl Fn() -> bool) -> bool {
        let has_work = || {
            // Pairs with the one in `rouse`, and stands behind a change of the state. If that one comes first, we find
            // what the thread put into a queue; else the thread sees the change.
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
        // A thread that hurries after this rings again. An exchange, so we find what it put into a queue before.
        self.is_urgent.swap(0, Ordering::SeqCst);
        true
    }

    /// Declares that there is none, unless a thread defers something meanwhile. False: go on.
    fn ends(&self, has_work: impl Fn() -> bool) -> bool {
        if self.state.compare_exchange(IDLE, NONE, Ordering::SeqCst, Ordering::Relaxed).is_err() {
            return false;
        }
        // A thread that deferred before found us idle, and rang in vain; one that defers later makes another worker.
        !has_work() || self.state.compare_exchange(NONE, AWAKE, Ordering::SeqCst, Ordering::Relaxed).is_err()
    }
}
