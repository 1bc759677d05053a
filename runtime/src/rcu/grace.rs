//! Grace periods.
//!
//! One at a time, in steps of which none waits: whoever needs one takes the lock, does a step, and lets go again. So
//! callers share grace periods, nobody vanishes in a fork with one in hand for long, and a program that polls drives
//! them as well as one that waits.
//!
//! ```text
//!   idle ─▶ order all readers ─▶ wait for the period that is not in use ─▶ turn ─▶ wait for the one that was ─▶ idle
//!                                                                     └─▶ nobody is there either ───────────────▶
//! ```
//!
//! Turning is for the sake of progress only: new sections are counted elsewhere, so that what is waited for comes to an
//! end. A section that was open when readers were ordered may be in either period.
//!
//! Where the kernel refuses to order readers, as in a sandbox, waiting for their stores to arrive does
//! ([`kick::have_stores_arrived`]): a grace period takes 20 ms more.

use super::domain::{Domain, Place, own_sections};
use crate::misuse::Line;
use crate::settings::{self, Key, Refused};
use core::fmt::{self, Write};
use core::panic::Location;
use machine::sync::{AtomicU32, AtomicU64, Lock, Ordering, fence, order_after_change, spin_loop, wait, wake_all};
use machine::{clock, code, kick, process};

/// Rank of the lock, which is never waited for.
const GRACE_RANK: u8 = 0;

const MINIMUM_INTERVAL: Key = Key::of("rcu.minimum_interval_us");
const FIRST_SCAN: Key = Key::of("rcu.first_scan_us");
const LONGEST_SCAN: Key = Key::of("rcu.longest_scan_us");
const STALL: Key = Key::of("rcu.stall_ms");

const IDLE: u32 = 0;
const ORDERING: u32 = 1;
const WAITING_FOR_REGISTERED: u32 = 2;
const WAITING_FOR_OLD: u32 = 3;
const WAITING_FOR_TURNED: u32 = 4;
const WAITING_FOR_STORES: u32 = 5;

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
    /// Grace periods that are over.
    over: AtomicU64,
    /// When readers were ordered last, and when somebody was told last that this takes long; by the clock.
    ordered_at_ns: AtomicU64,
    reported_at_ns: AtomicU64,
    /// Changes when one is over; who sleeps on it.
    news: AtomicU32,
    sleepers: AtomicU32,
    begun: Begun,
}

/// Grace periods that have begun. In a line of its own, as readers that registered read it when they report, and
/// whoever steps writes all the rest.
#[derive(Debug)]
#[repr(C, align(64))]
struct Begun(AtomicU64);

/// What a step came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// A grace period is over.
    Over,
    /// The one before began too short a time ago.
    TooEarly,
    /// The kernel does not order readers, and what they stored may be on its way.
    Unordered,
    /// Sections are open that this process inherited.
    Inherited,
    /// A reader that registered did not report; the kernel's number of its thread.
    Unreported(u32),
    /// A place is not quiet.
    Open(Place),
}

/// How somebody waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Awake for some microseconds, and not before the minimum interval is over.
    Usual,
    /// Awake for longer, and at once.
    Expedited,
}

/// Who waits, for reports.
#[derive(Clone, Copy, Debug)]
pub enum Caller {
    /// A place in a Rust program.
    Place(&'static Location<'static>),
    /// Whoever called the library that this is a part of.
    OfLibrary,
    /// The runtime, for what was deferred.
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

    /// The number of the last grace period that has begun.
    pub(super) fn number(&self) -> u64 {
        // Acquire: see `qsbr`.
        self.begun.0.load(Ordering::Acquire)
    }

    /// Changes when a grace period is over.
    pub(super) fn news(&self) -> u32 {
        self.news.load(Ordering::SeqCst)
    }

    pub(super) fn is_over(&self, cookie: Cookie) -> bool {
        // Acquire pairs with the release in `end`: what sections did that are over is done.
        self.over.load(Ordering::Acquire) >= cookie.0
    }

    /// Goes as far as it goes without waiting.
    fn step(&self, domain: &Domain, pace: Pace) -> Step {
        loop {
            match self.stage.load(Ordering::Relaxed) {
                IDLE => {
                    let interval = MINIMUM_INTERVAL.get() * MICROSECOND;
                    if interval > 0 && pace == Pace::Usual && self.age() < interval {
                        return Step::TooEarly;
                    }
                    // Before readers are ordered: who asks for a grace period and sees the number before comes before
                    // that order.
                    self.begun.0.fetch_add(1, Ordering::SeqCst);
                    // Pairs with the fence in `Record::go_online`: if that comes first, we see that the reader is
                    // there; if ours does, the reader sees the number, and with it what was taken away.
                    order_after_change();
                    self.stage.store(ORDERING, Ordering::Relaxed);
                }
                ORDERING => {
                    let is_done = order_readers(domain);
                    let next = if is_done { WAITING_FOR_REGISTERED } else { WAITING_FOR_STORES };
                    self.ordered_at_ns.store(clock::now_ns(), Ordering::Relaxed);
                    self.place.store(0, Ordering::Relaxed);
                    self.stage.store(next, Ordering::Relaxed);
                }
                WAITING_FOR_STORES => {
                    if !kick::have_stores_arrived(self.ordered_at_ns.load(Ordering::Relaxed)) {
                        return Step::Unordered;
                    }
                    self.stage.store(WAITING_FOR_REGISTERED, Ordering::Relaxed);
                }
                WAITING_FOR_REGISTERED => {
                    // Who registered may have forked, too, and not said so yet.
                    if domain.has_inherited() {
                        return Step::Inherited;
                    }
                    if let Some(thread) = domain.first_unreported(self.number(), || self.age()) {
                        return Step::Unreported(thread);
                    }
                    self.stage.store(WAITING_FOR_OLD, Ordering::Relaxed);
                }
                WAITING_FOR_OLD => {
                    let period = domain.period();
                    if let Some(place) = self.first_open(domain, 1 - period) {
                        return Step::Open(place);
                    }
                    self.place.store(0, Ordering::Relaxed);
                    if self.first_open(domain, period).is_none() {
                        return self.end(domain);
                    }
                    domain.turn();
                    self.stage.store(WAITING_FOR_TURNED, Ordering::Relaxed);
                }
                _ => {
                    if let Some(place) = self.first_open(domain, 1 - domain.period()) {
                        return Step::Open(place);
                    }
                    return self.end(domain);
                }
            }
        }
    }

    /// The first place that has not been quiet yet since the stage began, in a period; goes on where it was.
    fn first_open(&self, domain: &Domain, period: usize) -> Option<Place> {
        let first = self.place.load(Ordering::Relaxed) as usize;
        let open = (first..domain.places()).find(|&number| !domain.is_quiet(domain.place(number), period));
        self.place.store(open.unwrap_or(0) as u32, Ordering::Relaxed);
        open.map(|number| domain.place(number))
    }

    /// Nanoseconds since readers were ordered last.
    fn age(&self) -> u64 {
        clock::now_ns().saturating_sub(self.ordered_at_ns.load(Ordering::Relaxed))
    }

    /// Tells once in a while that a grace period takes long, and why.
    #[cold]
    fn report(&self, domain: &Domain, waited_ns: u64, caller: Caller) {
        let patience = STALL.get() * MILLISECOND;
        let (now, last) = (clock::now_ns(), self.reported_at_ns.load(Ordering::Relaxed));
        if patience == 0
            || waited_ns < patience
            || now.saturating_sub(last) < patience
            || self.reported_at_ns.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_err()
        {
            return;
        }
        let mut line = Line::new();
        let _ = write!(line, "commensal: a grace period has been waited for since {} ms: ", waited_ns / MILLISECOND);
        // What it is now: it may be another reason than a moment ago.
        let _ = match self.if_free(|grace| grace.step(domain, Pace::Usual)) {
            Some(Step::Open(Place::Slot(slot))) => {
                write!(line, "a read section is open that was begun in slot {slot}")
            }
            Some(Step::Open(Place::Lane(lane))) => {
                write!(line, "a read section is open that was begun in lane {lane}")
            }
            Some(Step::Unreported(thread)) => {
                write!(line, "a reader that registered has come to no checkpoint, in thread {thread}")
            }
            Some(Step::Inherited) => {
                write!(line, "read sections are open that the thread had when it forked this process")
            }
            Some(Step::Unordered) => {
                write!(line, "the kernel refuses membarrier, so what readers stored has to arrive by itself")
            }
            Some(Step::TooEarly | Step::Over) | None => write!(line, "others are served first"),
        };
        let _ = writeln!(line, "; asked for at {caller}");
        process::complain(line.as_bytes());
    }

    fn end(&self, domain: &Domain) -> Step {
        // A handler may have forked on top of this step, in a section, and this be the child: then what was looked at
        // was the parent's. If one comes after this, all that it inherits has been waited for.
        if domain.has_inherited() {
            self.stage.store(ORDERING, Ordering::Relaxed);
            return Step::Inherited;
        }
        self.stage.store(IDLE, Ordering::Relaxed);
        // Release pairs with the acquire in `is_over`.
        self.over.store(self.begun.0.load(Ordering::Relaxed), Ordering::Release);
        // SeqCst: either we see that somebody is about to sleep, or that one sees the news (`Patience::rest`).
        self.news.fetch_add(1, Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            wake_all(&self.news);
        }
        Step::Over
    }
}

/// Orders all readers' sections: of each, either what it counted when it was opened is seen afterwards, or it sees what
/// was written before. False: the kernel refuses.
fn order_readers(domain: &Domain) -> bool {
    // Then whoever opens a first section takes the lock of grace periods after us, or fences behind the bit of its
    // lane. If that is not seen here, it comes behind the number that was raised, and does not find what was taken away
    // before.
    if domain.has_no_sections() {
        return true;
    }
    // Pairs with the compiler barriers of restartable additions: a full fence on each thread that runs. If it comes
    // behind a begin, we see that; if before, the section does not find what was taken away. A fence on this thread
    // alone would miss begins that nobody sees yet, of threads that have read already.
    if domain.uses_rows() {
        return kick::fence_all().is_ok();
    }
    // Pairs with the fence in `begin_in_lane`.
    fence(Ordering::SeqCst);
    true
}

/// How somebody waits: awake at first, then asleep for longer and longer.
#[derive(Debug)]
pub(super) struct Patience {
    glances: u32,
    sleep_ns: u64,
    longest_ns: u64,
}

/// Looks at the readers before going to sleep: some ten microseconds, and some hundreds.
const GLANCES: u32 = 300;
const EXPEDITED_GLANCES: u32 = 10_000;
const MICROSECOND: u64 = 1000;
const MILLISECOND: u64 = 1_000_000;

impl Patience {
    pub(super) fn new(pace: Pace) -> Self {
        let glances = if pace == Pace::Expedited { EXPEDITED_GLANCES } else { GLANCES };
        let [sleep_ns, longest_ns] = [FIRST_SCAN, LONGEST_SCAN].map(|key| key.get() * MICROSECOND);
        Patience { glances, sleep_ns, longest_ns }
    }

    /// Whether it was asleep.
    pub(super) fn rest(&mut self, grace: &Grace, seen: u32) -> bool {
        if self.glances > 0 {
            self.glances -= 1;
            spin_loop();
            return false;
        }
        // SeqCst: see `end`.
        grace.sleepers.fetch_add(1, Ordering::SeqCst);
        wait(&grace.news, seen, self.sleep_ns);
        // Not below zero: in a fork child nobody was counted.
        let less = |sleepers: u32| sleepers.checked_sub(1);
        let _ = grace.sleepers.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        self.sleep_ns = (2 * self.sleep_ns).min(self.longest_ns.max(1));
        true
    }
}

/// Sets what can be set about grace periods and what waits for them, by the name behind `rcu.` in `settings::TABLE`,
/// also while some are under way. An error: it stays as it is.
pub fn set_knob(name: &str, value: u32) -> Result<(), Refused> {
    settings::set("rcu", name, value)
}

/// How many grace periods have been over in this process and its ancestors.
pub fn grace_periods() -> u64 {
    Domain::of_process().grace.over.load(Ordering::Acquire)
}

/// How far grace periods have come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Those that are over.
    pub over: u64,
    /// For how long the one under way has been waiting for readers; 0: none is.
    pub waiting_ns: u64,
    /// Slots and lanes in which a section is open that it is held up by.
    pub hold_outs: u32,
}

/// How far grace periods have come: a reading without a lock, each figure as it is at some moment.
pub fn standing() -> Standing {
    let domain = Domain::of_process();
    let grace = &domain.grace;
    let stage = grace.stage.load(Ordering::Relaxed);
    let waits = matches!(stage, WAITING_FOR_REGISTERED | WAITING_FOR_OLD | WAITING_FOR_TURNED);
    // Of registered readers nobody knows without asking them one by one.
    let is_held_up = |&number: &usize| !domain.is_quiet(domain.place(number), 1 - domain.period());
    let places = if waits { domain.places() } else { 0 };
    Standing {
        over: grace_periods(),
        waiting_ns: if waits { grace.age() } else { 0 },
        hold_outs: (0..places).filter(is_held_up).count() as u32,
    }
}

/// Asks for a grace period: all sections that are open now will have ended when it [`is_over`]. Nobody has to wait for
/// it, but somebody has to ask whether it is.
pub fn start() -> Cookie {
    let domain = Domain::enter();
    let grace = &domain.grace;
    // What the caller unlinked comes before the number is read; pairs with the addition in `step`: who reads the number
    // before the addition is ordered before the readers are.
    fence(Ordering::SeqCst);
    Cookie(grace.begun.0.load(Ordering::SeqCst) + 1)
}

/// Whether a grace period is over; goes a step further with one that is not. Never waits.
pub fn is_over(cookie: Cookie) -> bool {
    drive(Domain::enter(), cookie, Pace::Usual)
}

pub(super) fn drive(domain: &Domain, cookie: Cookie, pace: Pace) -> bool {
    let grace = &domain.grace;
    // The first may only end the one before.
    (0..2).any(|_| {
        grace.is_over(cookie) || {
            grace.if_free(|grace| (!grace.is_over(cookie)).then(|| grace.step(domain, pace)));
            grace.is_over(cookie)
        }
    })
}

/// Waits until all sections that are open now have ended. Callers share grace periods. Must not be called in a section,
/// nor in a signal handler that may have interrupted one: it would wait for itself, and ends the program instead.
#[track_caller]
pub fn synchronize() {
    wait_for(Pace::Usual, Caller::Place(Location::caller()));
}

/// The same, awake for longer, and at once whatever the minimum interval: where some microseconds are worth a CPU's
/// time.
#[track_caller]
pub fn synchronize_expedited() {
    wait_for(Pace::Expedited, Caller::Place(Location::caller()));
}

/// What both of them are made of.
pub fn wait_for(pace: Pace, caller: Caller) {
    let domain = Domain::enter();
    if domain.registered.is_own_online() {
        let mut line = Line::new();
        let _ = writeln!(
            line,
            "commensal: {caller} waits for readers in a thread that registered as one, and so for itself: go offline, or wait by the reader"
        );
        process::complain(line.as_bytes());
        process::die();
    }
    wait_for_registered(pace, caller);
}

/// The same for who registered, and is offline.
pub(super) fn wait_for_registered(pace: Pace, caller: Caller) {
    Domain::enter();
    if own_sections() != 0 {
        let mut line = Line::new();
        let _ = writeln!(
            line,
            "commensal: {caller} waits for readers in a read section, and so for itself: end the section before"
        );
        process::complain(line.as_bytes());
        process::die();
    }
    let cookie = start();
    let mut patience = Patience::new(pace);
    let mut asleep_since = 0;
    loop {
        // Again each time: a handler may have forked meanwhile, and this be the child.
        let domain = Domain::enter();
        let seen = domain.grace.news();
        if drive(domain, cookie, pace) {
            return;
        }
        if patience.rest(&domain.grace, seen) {
            let now = clock::now_ns();
            if asleep_since == 0 {
                asleep_since = now;
            }
            domain.grace.report(domain, now - asleep_since, caller);
        }
    }
}
