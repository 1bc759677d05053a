//! Grace periods.
//!
//! One at a time, in steps of which none waits: whoever needs one takes the lock, does a step, and lets go again. So callers share grace periods,
//! nobody vanishes in a fork with one in hand for long, and a program that polls drives them as well as one that waits.
//!
//! ```text
//!   idle ─▶ order all readers ─▶ wait for the period that is not in use ─▶ turn ─▶ wait for the one that was ─▶ idle
//!                                                                     └─▶ nobody is there either ───────────────▶
//! ```
//!
//! Turning is for the sake of progress only: new sections are counted elsewhere, so that what is waited for comes to an end. A section that was
//! open when readers were ordered may be in either period.

use super::domain::Domain;
use machine::sync::{AtomicU32, AtomicU64, Lock, Ordering, fence, spin_loop, wait, wake_all};
use machine::{kick, process, thread};

/// Rank of the lock, which is never waited for.
const GRACE_RANK: u8 = 0;

const IDLE: u32 = 0;
const ORDERING: u32 = 1;
const WAITING_FOR_OLD: u32 = 2;
const WAITING_FOR_TURNED: u32 = 3;

/// What callers of [`start`] get: the number of a grace period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Cookie(u64);

impl Cookie {
    /// As a number, which [`from_number`](Self::from_number) takes back.
    pub const fn number(self) -> u64 {
        self.0
    }

    /// What [`number`](Self::number) said.
    pub const fn from_number(number: u64) -> Self {
        Cookie(number)
    }
}

/// Who steps, and how far the grace period has come.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Grace {
    lock: Lock<GRACE_RANK>,
    /// Under the lock, as what follows.
    stage: AtomicU32,
    /// The first place that was not quiet yet.
    place: AtomicU32,
    /// Grace periods begun, and over.
    begun: AtomicU64,
    over: AtomicU64,
    /// Changes when one is over; who sleeps on it.
    news: AtomicU32,
    sleepers: AtomicU32,
}

/// What a step came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// A grace period is over.
    Over,
    /// The kernel does not order readers.
    Refused,
    /// Sections are open that this process inherited.
    Inherited,
    /// A place is not quiet.
    Open,
}

impl Grace {
    /// Does `work` under the lock, if nobody holds it who is still there.
    pub(super) fn if_free<R>(&self, work: impl FnOnce(&Self) -> R) -> Option<R> {
        if !self.lock.try_acquire() && !self.lock.try_inherit() {
            return None;
        }
        let result = work(self);
        // SAFETY: acquired above.
        unsafe { self.lock.release() };
        Some(result)
    }

    /// In a fork child: what was under way has to order readers again, and nobody sleeps.
    pub(super) fn begin_anew(&self) {
        if self.stage.load(Ordering::Relaxed) != IDLE {
            self.stage.store(ORDERING, Ordering::Relaxed);
        }
        self.sleepers.store(0, Ordering::Relaxed);
    }

    fn is_over(&self, cookie: Cookie) -> bool {
        // Acquire pairs with the release in `end`: what sections did that are over is done.
        self.over.load(Ordering::Acquire) >= cookie.0
    }

    /// Goes as far as it goes without waiting.
    fn step(&self, domain: &Domain) -> Step {
        loop {
            match self.stage.load(Ordering::Relaxed) {
                IDLE => {
                    // Before readers are ordered: who asks for a grace period and sees the number before comes before that order.
                    self.begun.fetch_add(1, Ordering::SeqCst);
                    self.stage.store(ORDERING, Ordering::Relaxed);
                }
                ORDERING => {
                    if domain.is_untried() {
                        domain.try_rows();
                    }
                    if !order_readers(domain) {
                        domain.hide_rows();
                        return Step::Refused;
                    }
                    self.go_to(WAITING_FOR_OLD);
                }
                WAITING_FOR_OLD => {
                    let period = domain.period();
                    if domain.has_inherited() {
                        return Step::Inherited;
                    }
                    if !self.is_quiet(domain, 1 - period) {
                        return Step::Open;
                    }
                    self.place.store(0, Ordering::Relaxed);
                    if self.is_quiet(domain, period) {
                        return self.end();
                    }
                    domain.turn();
                    self.stage.store(WAITING_FOR_TURNED, Ordering::Relaxed);
                }
                _ => {
                    if !self.is_quiet(domain, 1 - domain.period()) {
                        return Step::Open;
                    }
                    return self.end();
                }
            }
        }
    }

    fn go_to(&self, stage: u32) {
        self.place.store(0, Ordering::Relaxed);
        self.stage.store(stage, Ordering::Relaxed);
    }

    /// Whether all places have been quiet since the stage began, in a period; goes on where it was.
    fn is_quiet(&self, domain: &Domain, period: usize) -> bool {
        let first = self.place.load(Ordering::Relaxed) as usize;
        let open = (first..domain.places()).find(|&number| !domain.is_quiet(domain.place(number), period));
        self.place.store(open.unwrap_or(0) as u32, Ordering::Relaxed);
        open.is_none()
    }

    fn end(&self) -> Step {
        self.stage.store(IDLE, Ordering::Relaxed);
        // Release pairs with the acquire in `is_over`.
        self.over.store(self.begun.load(Ordering::Relaxed), Ordering::Release);
        // SeqCst: either we see that somebody is about to sleep, or that one sees the news (`Patience::rest`).
        self.news.fetch_add(1, Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            wake_all(&self.news);
        }
        Step::Over
    }
}

/// Orders all readers' sections: of each, either what it counted when it was opened is seen afterwards, or it sees what was written before.
fn order_readers(domain: &Domain) -> bool {
    // Pairs with the compiler barriers of restartable additions: a full fence on each thread that runs. A fence on this thread alone would leave
    // begins that wait in the store buffers of others, who have read already.
    if domain.uses_rows() {
        return kick::fence_all().is_ok();
    }
    // Pairs with the locked additions in lanes.
    fence(Ordering::SeqCst);
    true
}

/// How somebody waits: awake at first, then asleep for longer and longer.
#[derive(Debug)]
struct Patience {
    glances: u32,
    sleep_ns: u64,
}

const GLANCES: u32 = 300;
const EXPEDITED_GLANCES: u32 = 10_000;
const FIRST_SLEEP_NS: u64 = 20_000;
const LONGEST_SLEEP_NS: u64 = 1_000_000;

impl Patience {
    fn new(glances: u32) -> Self {
        Patience { glances, sleep_ns: FIRST_SLEEP_NS }
    }

    fn rest(&mut self, grace: &Grace, seen: u32) {
        if self.glances > 0 {
            self.glances -= 1;
            spin_loop();
            return;
        }
        // SeqCst: see `end`.
        grace.sleepers.fetch_add(1, Ordering::SeqCst);
        wait(&grace.news, seen, self.sleep_ns);
        // Not below zero: in a fork child nobody was counted.
        let less = |sleepers: u32| sleepers.checked_sub(1);
        let _ = grace.sleepers.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        self.sleep_ns = (2 * self.sleep_ns).min(LONGEST_SLEEP_NS);
    }
}

/// How many grace periods have been over in this process and its ancestors.
pub fn grace_periods() -> u64 {
    Domain::of_process().grace.over.load(Ordering::Acquire)
}

/// Asks for a grace period: all sections that are open now will have ended when it [`is_over`]. Nobody has to wait for it, but somebody has to
/// ask whether it is.
pub fn start() -> Cookie {
    let domain = Domain::enter();
    domain.watch_forks();
    let grace = &domain.grace;
    // What the caller unlinked comes before the number is read; pairs with the addition in `step`: who reads the number before the
    // addition is ordered before the readers are.
    fence(Ordering::SeqCst);
    Cookie(grace.begun.load(Ordering::SeqCst) + 1)
}

/// Whether a grace period is over; goes a step further with one that is not. Never waits.
pub fn is_over(cookie: Cookie) -> bool {
    let domain = Domain::enter();
    let grace = &domain.grace;
    // The first may only end the one before.
    (0..2).any(|_| {
        grace.is_over(cookie) || {
            grace.if_free(|grace| (!grace.is_over(cookie)).then(|| grace.step(domain)));
            grace.is_over(cookie)
        }
    })
}

/// Waits until all sections that are open now have ended. Callers share grace periods. Must not be called in a section, nor in a signal
/// handler that may have interrupted one: it would wait for itself, and ends the program instead.
pub fn synchronize() {
    wait_for(GLANCES);
}

/// The same, awake for longer: where some microseconds are worth a CPU's time.
pub fn synchronize_expedited() {
    wait_for(EXPEDITED_GLANCES);
}

fn wait_for(glances: u32) {
    let domain = Domain::enter();
    if thread::depth() != 0 {
        process::complain(
            b"commensal: synchronize inside of a read section: it would wait for itself; end the section before\n",
        );
        process::die();
    }
    let cookie = start();
    let mut patience = Patience::new(glances);
    loop {
        let seen = domain.grace.news.load(Ordering::SeqCst);
        if is_over(cookie) {
            return;
        }
        patience.rest(&domain.grace, seen);
    }
}
