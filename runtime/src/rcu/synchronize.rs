//! Steps through grace periods, and waits for them.
//!
//! ```text
//!   idle ─▶ order all readers ─▶ wait for the period that is not in use ─▶ turn ─▶ wait for the one that was ─▶ idle
//!                   ▲                                                 │               │
//!                   │                                                 └─▶ no section is there either ────────────▶
//!                   └─────────────────────────── a slot that is watched does not show itself ◀─┘
//! ```
//!
//! After a kick, turning only makes sure of progress: new sections are counted in the other period, so the wait ends.
//! A section that was open when readers were ordered may be in either period.
//!
//! If threads read in all slots, the kick is left out, and the turn orders readers (`watch`). A kick interrupts each
//! CPU, and takes 300 µs if there are 256.
//!
//! If the kernel refuses to order readers, as in a sandbox, a grace period waits until their stores have arrived
//! ([`kick::have_stores_arrived`]). Then it takes 20 ms more.

use super::domain::{Domain, own_sections};
use super::grace::{
    Caller, Cookie, FENCED, IDLE, MICROSECOND, MILLISECOND, ORDERING, Pace, Patience, RESTARTED, WAITING_FOR_OLD,
    WAITING_FOR_REGISTERED, WAITING_FOR_STORES, WAITING_FOR_TURNED, WATCHED,
};
use super::sections::Place;
use crate::misuse::Line;
use crate::settings::{self, Key, Refused};
use core::fmt::Write;
use core::panic::Location;
use machine::sync::{Ordering, fence};
use machine::{clock, kick, process};

const MINIMUM_INTERVAL: Key = Key::of("rcu.minimum_interval_us");
const STALL: Key = Key::of("rcu.stall_ms");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Over,
    /// The grace period before began too short a time ago.
    TooEarly,
    /// The kernel does not order readers, and their stores may be on their way.
    Unordered,
    Inherited,
    /// A registered reader did not report; the kernel's number of its thread.
    Unreported(u32),
    Open(Place),
}

/// Advances as far as it can without waiting. Under the lock.
fn step(domain: &Domain, pace: Pace) -> Step {
    let (grace, sections) = (&domain.grace, &domain.sections);
    loop {
        match grace.stage.load(Ordering::Relaxed) {
            IDLE => {
                let interval_ns = MINIMUM_INTERVAL.get() * MICROSECOND;
                if interval_ns > 0 && pace == Pace::Usual && grace.age_ns() < interval_ns {
                    return Step::TooEarly;
                }
                grace.begin();
            }
            ORDERING => {
                let order = order_readers(domain);
                let stage = if order.is_ok() { WAITING_FOR_REGISTERED } else { WAITING_FOR_STORES };
                grace.go_on_from_order(order.unwrap_or(FENCED), stage);
            }
            WAITING_FOR_STORES => {
                if !kick::have_stores_arrived(grace.ordered_at_ns.load(Ordering::Relaxed)) {
                    return Step::Unordered;
                }
                grace.stage.store(WAITING_FOR_REGISTERED, Ordering::Relaxed);
            }
            WAITING_FOR_REGISTERED => {
                // A thread with a registered reader may have forked, too, and not said so yet.
                if domain.has_inherited() {
                    return Step::Inherited;
                }
                if let Some(thread) = domain.registered.first_open(grace.number(), || grace.age_ns()) {
                    return Step::Unreported(thread);
                }
                grace.stage.store(WAITING_FOR_OLD, Ordering::Relaxed);
            }
            WAITING_FOR_OLD => {
                let period = sections.period();
                match first_open(domain, 1 - period) {
                    // Rows were zeroed in a fork child, on top of a step of its parent's.
                    Some(Place::Slot(_)) if grace.gives_up_watching(sections.patience_ns()) => continue,
                    Some(place) => return Step::Open(place),
                    None => {}
                }
                // Slots are watched from one turn to the next.
                let needs_turn = grace.order.load(Ordering::Relaxed) != FENCED;
                if !needs_turn && first_open(domain, period).is_none() {
                    return end(domain);
                }
                sections.turn();
                grace.go_on_from_turn();
            }
            _ => match first_open(domain, 1 - sections.period()) {
                None => return end(domain),
                Some(Place::Slot(_)) if grace.gives_up_watching(sections.patience_ns()) => continue,
                Some(place) => return Step::Open(place),
            },
        }
    }
}

/// Orders all readers' sections, or has them watched. Of each section, either we see its begin afterwards, or it sees
/// what was written before.
fn order_readers(domain: &Domain) -> Result<u32, kick::Refused> {
    let (grace, sections) = (&domain.grace, &domain.sections);
    // No section was ever opened. A thread that opens the first one takes the lock of grace periods after us, or fences
    // behind the bit of its lane. If we do not see that bit, the fence comes behind the raised number, and the section
    // does not find what was taken away before.
    if sections.are_unused() {
        return Ok(FENCED);
    }
    // Pairs with the fence in `begin_in_lane`, and with the locked additions beside counts.
    fence(Ordering::SeqCst);
    if !sections.uses_rows() {
        return Ok(FENCED);
    }
    let is_watchable = sections.are_watchable();
    if is_watchable && grace.may_watch() && sections.have_all_shown() {
        return Ok(WATCHED);
    }
    // Pairs with the compiler barriers of restartable additions: a full fence on each thread that runs. If it comes
    // behind a begin, we see that; if before, the section does not find what was taken away. A fence on this thread
    // alone would miss a begin that no other thread sees yet, of a thread that has read already.
    match is_watchable {
        true => kick::restart_all().map(|()| RESTARTED),
        false => kick::fence_all().map(|()| FENCED),
    }
}

/// The first place of a period that was not quiet yet since the stage began. Continues where the last call stopped.
fn first_open(domain: &Domain, period: usize) -> Option<Place> {
    let (grace, sections) = (&domain.grace, &domain.sections);
    let first = grace.place.load(Ordering::Relaxed) as usize;
    let is_over = |place| match (place, grace.order.load(Ordering::Relaxed)) {
        (Place::Slot(slot), WATCHED) => sections.has_shown(slot),
        (Place::Slot(slot), RESTARTED) => sections.is_quiet_and_noted(slot),
        (place, _) => sections.is_quiet(place, period),
    };
    let open = (first..sections.places()).find(|&number| !is_over(sections.place(number)));
    grace.place.store(open.unwrap_or(0) as u32, Ordering::Relaxed);
    open.map(|number| sections.place(number))
}

fn end(domain: &Domain) -> Step {
    // A handler may have forked on top of this step, in a section, and this may be the child: then the step has looked
    // at the parent's counts. If a fork comes after this, the step has waited for all that the child inherits.
    if domain.has_inherited() {
        domain.grace.stage.store(ORDERING, Ordering::Relaxed);
        return Step::Inherited;
    }
    domain.grace.end();
    Step::Over
}

/// Reports once in a while that a grace period takes long, and why.
#[cold]
fn report(domain: &Domain, waited_ns: u64, caller: Caller) {
    let (reported_at_ns, patience_ns) = (&domain.grace.reported_at_ns, STALL.get() * MILLISECOND);
    let (now, last) = (clock::now_ns(), reported_at_ns.load(Ordering::Relaxed));
    if patience_ns == 0
        || waited_ns < patience_ns
        || now.saturating_sub(last) < patience_ns
        || reported_at_ns.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_err()
    {
        return;
    }
    let mut line = Line::new();
    let _ = write!(line, "commensal: a grace period has been waited for since {} ms: ", waited_ns / MILLISECOND);
    // The reason now, which may be another one than a moment ago.
    let _ = match domain.grace.if_free(|_| step(domain, Pace::Usual)) {
        Some(Step::Open(Place::Slot(slot))) => write!(line, "a read section is open that was begun in slot {slot}"),
        Some(Step::Open(Place::Lane(lane))) => write!(line, "a read section is open that was begun in lane {lane}"),
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

/// Sets a setting of RCU, also during a grace period. `name` is its key without `rcu.`, such as `lazy_delay_ms`.
///
/// # Errors
/// There is no such setting, or the value is out of its range. Nothing has changed.
pub fn set_knob(name: &str, value: u32) -> Result<(), Refused> {
    settings::set("rcu", name, value)
}

/// Returns the number of grace periods that have ended in this process and its ancestors.
pub fn grace_periods() -> u64 {
    Domain::of_process().grace.over()
}

/// The progress of grace periods, each figure as it is at some moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Standing {
    pub over: u64,
    /// Nanoseconds that the current one has been waiting for readers; 0: none is.
    pub waiting_ns: u64,
    /// Slots and lanes with an open section that holds it up.
    pub hold_outs: u32,
}

/// Reads the progress of grace periods without a lock.
pub(crate) fn standing() -> Standing {
    let domain = Domain::of_process();
    let (grace, sections) = (&domain.grace, &domain.sections);
    let stage = grace.stage.load(Ordering::Relaxed);
    let waits = matches!(stage, WAITING_FOR_REGISTERED | WAITING_FOR_OLD | WAITING_FOR_TURNED);
    // Registered readers are left out: they would have to be asked one by one.
    let is_held_up = |&number: &usize| !sections.is_quiet(sections.place(number), 1 - sections.period());
    let places = if waits { sections.places() } else { 0 };
    Standing {
        over: grace.over(),
        waiting_ns: if waits { grace.age_ns() } else { 0 },
        hold_outs: (0..places).filter(is_held_up).count() as u32,
    }
}

/// Requests a grace period without waiting. When it [`is_over`], all sections that are open now have ended. The program
/// must ask for that: the calls drive the grace period.
pub fn start() -> Cookie {
    let domain = Domain::enter();
    // The caller has unlinked before. Pairs with the addition in `Grace::begin`: if our read comes before it, so does
    // the unlinking, and readers are ordered later; else the caller gets a later number.
    fence(Ordering::SeqCst);
    domain.grace.next()
}

/// Returns whether a grace period is over. If not, takes a step towards its end. Never waits.
pub fn is_over(cookie: Cookie) -> bool {
    drive(Domain::enter(), cookie, Pace::Usual)
}

pub(super) fn drive(domain: &Domain, cookie: Cookie, pace: Pace) -> bool {
    let grace = &domain.grace;
    // The first step may only end the grace period before.
    (0..2).any(|_| {
        grace.is_over(cookie) || {
            grace.if_free(|grace| (!grace.is_over(cookie)).then(|| step(domain, pace)));
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

/// Waits like [`synchronize()`], but stays awake for longer, and ignores `rcu.minimum_interval_us`. Use it if some
/// microseconds are worth a CPU's time.
#[track_caller]
pub fn synchronize_expedited() {
    wait_for(Pace::Expedited, Caller::Place(Location::caller()));
}

/// Both of them, on behalf of a caller.
pub fn wait_for(pace: Pace, caller: Caller) {
    let domain = Domain::enter();
    if domain.registered.is_own_online() {
        die_waiting(caller, "readers in a thread that registered as one", "go offline, or wait by the reader");
    }
    wait_for_registered(pace, caller);
}

/// The same for a thread whose registered readers are offline.
pub(super) fn wait_for_registered(pace: Pace, caller: Caller) {
    Domain::enter();
    if own_sections() != 0 {
        die_waiting(caller, "readers in a read section", "end the section before");
    }
    let cookie = start();
    let mut patience = Patience::new(pace);
    let mut asleep_since = 0;
    loop {
        // Again each time: a handler may have forked meanwhile, and this may be the child.
        let domain = Domain::enter();
        let seen = domain.grace.news();
        if drive(domain, cookie, pace) {
            return;
        }
        if patience.rest(&domain.grace, seen) {
            let now = clock::now_ns();
            asleep_since = if asleep_since == 0 { now } else { asleep_since };
            report(domain, now - asleep_since, caller);
        }
    }
}

#[cold]
pub(super) fn die_waiting(caller: Caller, what: &str, advice: &str) -> ! {
    let mut line = Line::new();
    let _ = writeln!(line, "commensal: {caller} waits for {what}, and so for itself: {advice}");
    process::complain(line.as_bytes());
    process::die();
}
