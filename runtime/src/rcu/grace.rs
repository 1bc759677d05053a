//! Grace periods: their numbers, the progress of the one under way, and the threads that sleep.
//!
//! One grace period is under way at a time, in steps that never wait: a thread that needs one takes the lock, does a
//! step, and lets go again (`synchronize`). So callers share grace periods, and a thread that vanishes in a fork holds
//! the lock for a short time only. A program that polls drives them as well as one that waits.

use crate::caches::heap;
use crate::settings::Key;
use core::fmt;
use core::panic::Location;
use machine::sync::{AtomicU32, AtomicU64, Lock, Ordering, order_after_change, spin_loop, wait, wake_all};
use machine::{clock, code, here, root};

/// Rank of the lock, for which no thread waits.
const GRACE_RANK: u8 = 0;

/// Grace periods with kicks after one that watched in vain.
const WATCHES_AFTER: u64 = 8;

const FIRST_SCAN: Key = Key::of("rcu.first_scan_us");
const LONGEST_SCAN: Key = Key::of("rcu.longest_scan_us");

pub(super) const MICROSECOND: u64 = 1000;
pub(super) const MILLISECOND: u64 = 1_000_000;

// Stages of a grace period.
pub(super) const IDLE: u32 = 0;
pub(super) const ORDERING: u32 = 1;
pub(super) const WAITING_FOR_REGISTERED: u32 = 2;
pub(super) const WAITING_FOR_OLD: u32 = 3;
pub(super) const WAITING_FOR_TURNED: u32 = 4;
pub(super) const WAITING_FOR_STORES: u32 = 5;

// How the readers of a grace period are ordered.
/// By the kernel's fence, by a fence of their own, or by time.
pub(super) const FENCED: u32 = 0;
/// By the kernel. No begin of a section that was in flight then is counted in the period of an earlier turn.
pub(super) const RESTARTED: u32 = 1;
/// By the first section that each slot counts after the turn (`watch`).
pub(super) const WATCHED: u32 = 2;

/// The number of a grace period, which [`start`](super::start) returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Cookie(pub u64);

#[repr(C)]
pub(super) struct Grace {
    lock: Lock<GRACE_RANK>,
    /// Under the lock, as the fields below.
    pub(super) stage: AtomicU32,
    /// The first place that was not quiet yet.
    pub(super) place: AtomicU32,
    pub(super) order: AtomicU32,
    over: AtomicU64,
    /// When readers were ordered last, and when a thread last reported a long wait; by the clock.
    pub(super) ordered_at_ns: AtomicU64,
    pub(super) reported_at_ns: AtomicU64,
    /// The first grace period that may watch slots again, after one has done so in vain.
    watches_from: AtomicU64,
    /// Changes when a grace period is over; threads sleep on it.
    news: AtomicU32,
    sleepers: AtomicU32,
    begun: Begun,
}

/// Grace periods that have begun. In a line of its own: registered readers read it when they report, and each step
/// writes the rest.
#[repr(C, align(64))]
struct Begun(AtomicU64);

impl Grace {
    /// Runs `work` under the lock, unless a thread holds it that is still there.
    pub(super) fn if_free<R>(&self, work: impl FnOnce(&Self) -> R) -> Option<R> {
        if !self.lock.try_acquire() && !self.lock.try_inherit() {
            return None;
        }
        if root::is_installed() {
            self.lock.measure_hold(&heap().locks().grace_periods, here!());
        }
        let result = work(self);
        // SAFETY: acquired above.
        unsafe { self.lock.release() };
        Some(result)
    }

    /// In a fork child: the grace period under way must order readers again, and no thread sleeps.
    pub(super) fn begin_anew(&self) {
        if self.stage.load(Ordering::Relaxed) != IDLE {
            self.stage.store(ORDERING, Ordering::Relaxed);
        }
        self.sleepers.store(0, Ordering::Relaxed);
    }

    pub(super) fn number(&self) -> u64 {
        // Acquire: see `qsbr`.
        self.begun.0.load(Ordering::Acquire)
    }

    pub(super) fn next(&self) -> Cookie {
        Cookie(self.begun.0.load(Ordering::SeqCst) + 1)
    }

    pub(super) fn news(&self) -> u32 {
        self.news.load(Ordering::SeqCst)
    }

    pub(super) fn over(&self) -> u64 {
        // Acquire pairs with the release in `end`: the reads in sections that ended come before.
        self.over.load(Ordering::Acquire)
    }

    pub(super) fn is_over(&self, cookie: Cookie) -> bool {
        self.over() >= cookie.0
    }

    pub(super) fn age_ns(&self) -> u64 {
        clock::now_ns().saturating_sub(self.ordered_at_ns.load(Ordering::Relaxed))
    }

    /// Begins the next one. Under the lock, as are the functions below.
    pub(super) fn begin(&self) {
        // Before readers are ordered. Pairs with the fence in `start`: a thread that sees the old number has unlinked
        // before that order.
        self.begun.0.fetch_add(1, Ordering::SeqCst);
        // Pairs with the fence in `Record::go_online`. If that comes first, we see that the reader is there; if ours
        // does, the reader sees the number, and no longer finds what was taken away.
        order_after_change();
        self.stage.store(ORDERING, Ordering::Relaxed);
    }

    pub(super) fn go_on_from_order(&self, order: u32, stage: u32) {
        self.order.store(order, Ordering::Relaxed);
        self.ordered_at_ns.store(clock::now_ns(), Ordering::Relaxed);
        self.place.store(0, Ordering::Relaxed);
        self.stage.store(stage, Ordering::Relaxed);
    }

    pub(super) fn go_on_from_turn(&self) {
        match self.is_watching() {
            // The turn orders readers.
            true => self.ordered_at_ns.store(clock::now_ns(), Ordering::Relaxed),
            // Also slots that were restarted may now hold the address from before the turn.
            false => self.order.store(FENCED, Ordering::Relaxed),
        }
        self.stage.store(WAITING_FOR_TURNED, Ordering::Relaxed);
    }

    pub(super) fn is_watching(&self) -> bool {
        self.order.load(Ordering::Relaxed) == WATCHED
    }

    pub(super) fn may_watch(&self) -> bool {
        self.number() >= self.watches_from.load(Ordering::Relaxed)
    }

    /// Orders readers by a kick after all, if a slot has not shown itself for this long.
    pub(super) fn gives_up_watching(&self, patience_ns: u64) -> bool {
        let gives_up = self.is_watching() && self.age_ns() >= patience_ns;
        if gives_up {
            self.watches_from.store(self.number() + WATCHES_AFTER, Ordering::Relaxed);
            self.stage.store(ORDERING, Ordering::Relaxed);
        }
        gives_up
    }

    pub(super) fn end(&self) {
        self.stage.store(IDLE, Ordering::Relaxed);
        // Release pairs with the acquire in `over`.
        self.over.store(self.begun.0.load(Ordering::Relaxed), Ordering::Release);
        // SeqCst: either we see that a thread is about to sleep, or it sees the news (`Patience::rest`).
        self.news.fetch_add(1, Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            wake_all(&self.news);
        }
    }
}

/// How a thread waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Awake for some microseconds, and not before the minimum interval is over.
    Usual,
    /// Awake for longer, and at once.
    Expedited,
}

/// The waiting code, for reports.
#[derive(Clone, Copy, Debug)]
pub enum Caller {
    /// A place in a Rust program.
    Place(&'static Location<'static>),
    /// The code that called this library.
    OfLibrary,
    /// The runtime, for what threads deferred.
    Deferred,
}

impl fmt::Display for Caller {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Caller::Place(place) => write!(formatter, "{}:{}", place.file(), place.line()),
            Caller::Deferred => formatter.write_str("the runtime, which has something to free"),
            Caller::OfLibrary => {
                code::prepare();
                let call = code::calls(0)[0];
                match code::place_of(call) {
                    Some((file, at)) => write!(formatter, "{call:#x} ({}+{at:#x})", file.to_str().unwrap_or("?")),
                    None => write!(formatter, "{call:#x}"),
                }
            }
        }
    }
}

/// A wait: the thread is awake at first, then asleep for longer and longer.
pub(super) struct Patience {
    glances: u32,
    sleep_ns: u64,
    longest_ns: u64,
}

/// Looks at the readers before going to sleep: some ten microseconds, and some hundreds.
const GLANCES: u32 = 300;
const EXPEDITED_GLANCES: u32 = 10_000;

impl Patience {
    pub(super) fn new(pace: Pace) -> Self {
        let glances = if pace == Pace::Expedited { EXPEDITED_GLANCES } else { GLANCES };
        let [sleep_ns, longest_ns] = [FIRST_SCAN, LONGEST_SCAN].map(|key| key.get() * MICROSECOND);
        Patience { glances, sleep_ns, longest_ns }
    }

    /// Waits a little. Returns whether the thread was asleep.
    pub(super) fn rest(&mut self, grace: &Grace, seen: u32) -> bool {
        if self.glances > 0 {
            self.glances -= 1;
            spin_loop();
            return false;
        }
        // SeqCst: see `Grace::end`.
        grace.sleepers.fetch_add(1, Ordering::SeqCst);
        wait(&grace.news, seen, self.sleep_ns);
        // Not below zero: a fork child begins with none.
        let less = |sleepers: u32| sleepers.checked_sub(1);
        let _ = grace.sleepers.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        self.sleep_ns = (2 * self.sleep_ns).min(self.longest_ns.max(1));
        true
    }
}
