//! The worker: a thread of the runtime's own, which comes into being when something is deferred for the first time, and
//! sees to it that all of it is freed or called in the end.
//!
//! It is *none*, *awake* or *idle*. Idle, it sleeps until somebody defers something; awake, it looks over all queues
//! each `rcu.lazy_delay_ms`, until they are empty. When nobody defers anything for two seconds it ends, and another one
//! is made when it is needed: a process whose main thread has ended by `pthread_exit` ends with its last thread, which
//! must not be ours.
//!
//! Nothing is forgotten: it says that it is idle, or none, and then looks whether anything waits; who defers puts it
//! into a queue, and then looks whether the worker is idle, or none. Between both there is a full fence on either side,
//! so at least one sees the other.

use super::domain::Domain;
use super::grace::Caller;
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
const MILLISECOND: u64 = 1_000_000;

const LAZY_DELAY: Key = Key::of("rcu.lazy_delay_ms");

static WORK: Work = Work { name: c"commensal-rcu", job: work };

/// What is known of it. Zeroes: there is none.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Worker {
    state: AtomicU32,
    /// Whether it is to look at once.
    is_urgent: AtomicU32,
    /// Changes when it is to wake up.
    bell: AtomicU32,
}

impl Worker {
    /// In a fork child: there is none.
    pub(super) fn begin_anew(&self) {
        self.state.store(NONE, Ordering::Relaxed);
        self.is_urgent.store(0, Ordering::Relaxed);
    }

    /// Says that there is none, unless somebody defers something meanwhile. False: go on.
    fn ends(&self, domain: &Domain) -> bool {
        if self.state.compare_exchange(IDLE, NONE, Ordering::SeqCst, Ordering::Relaxed).is_err() {
            return false;
        }
        // Who deferred before that found us idle, and rang in vain; who does later makes another one.
        !domain.has_work() || self.state.compare_exchange(NONE, AWAKE, Ordering::SeqCst, Ordering::Relaxed).is_err()
    }

    fn ring(&self) {
        self.bell.fetch_add(1, Ordering::SeqCst);
        wake_one(&self.bell);
    }
}

/// Whether there is one in this process.
pub(crate) fn is_there() -> bool {
    matches!(Domain::of_process().worker.state.load(Ordering::Relaxed), AWAKE | IDLE)
}

impl Domain {
    /// After something was put into a queue.
    #[inline]
    pub(super) fn rouse(&self, may_try_again: bool) {
        // Pairs with the one in `has_work`: see above. The change was to the queue's lock.
        order_after_change();
        match self.worker.state.load(Ordering::SeqCst) {
            AWAKE => {}
            IDLE => self.wake_worker(),
            FAILED if !may_try_again => {}
            _ => self.make_worker(),
        }
    }

    /// Whether anything waits. Asked by the worker behind a change by which it says what it does.
    fn has_work(&self) -> bool {
        // Pairs with the one in `rouse`: if that comes first, we find what was put into a queue; else it sees that
        // change.
        order_after_change();
        self.deferred.is_busy()
    }

    /// Has the worker look at once.
    #[cold]
    pub(super) fn hurry(&self) {
        if self.worker.is_urgent.swap(1, Ordering::SeqCst) == 0 {
            self.worker.ring();
        }
    }

    #[cold]
    fn wake_worker(&self) {
        // One of those who find it idle is enough.
        if self.worker.state.compare_exchange(IDLE, AWAKE, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
            self.worker.ring();
        }
    }

    /// Not in a sandbox, and not on top of a lock: the C library takes its own ones, and who holds those may wait for
    /// ours. What waits is seen to when another one comes along.
    #[cold]
    fn make_worker(&self) {
        if thread::holds_locks() || sandbox::is_on() {
            return;
        }
        // Without signals: a handler that forks would find it on its way, and this thread would go on in the child and
        // make another one.
        percpu::for_process(|| {
            let state = &self.worker.state;
            let seen = state.load(Ordering::Relaxed);
            let is_ours = (seen == NONE || seen == FAILED)
                && state.compare_exchange(seen, AWAKE, Ordering::SeqCst, Ordering::Relaxed).is_ok();
            if is_ours && !process::keeping_errno(|| thread::spawn(&WORK)) {
                state.store(FAILED, Ordering::SeqCst);
            }
        });
    }
}

fn work() {
    loop {
        let domain = Domain::enter();
        domain.deferred.make_retire_slots();
        let worker = &domain.worker;
        let seen = worker.bell.load(Ordering::SeqCst);
        // SeqCst, both: see above.
        worker.state.store(IDLE, Ordering::SeqCst);
        if !domain.has_work() {
            wait(&worker.bell, seen, LONG_NS);
        }
        if worker.bell.load(Ordering::SeqCst) == seen && !domain.has_work() && worker.ends(domain) {
            return;
        }
        worker.state.store(AWAKE, Ordering::SeqCst);
        let seen = worker.bell.load(Ordering::SeqCst);
        if worker.is_urgent.load(Ordering::SeqCst) == 0 {
            wait(&worker.bell, seen, LAZY_DELAY.get() * MILLISECOND);
        }
        // Who hurries after this rings again. An exchange: what was put into a queue before we find.
        worker.is_urgent.swap(0, Ordering::SeqCst);
        domain.free_all(Caller::Deferred);
    }
}
