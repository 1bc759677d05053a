//! `machine::kick`: orders memory on all CPUs that run this process, or restarts what they have in flight.
//!
//! The stress is store buffering, the one reordering that this kind of machine does. `x` and `y` are zero; one side is
//! fast and the other side pays for both:
//!
//! ```text
//!   x = 1                  y = 1
//!   compiler fence         fence_all()
//!   a = y                  b = x           never a = 0 and b = 0
//! ```
//!
//! Restarting is specified and tested with the slots: [`crate::slot::Operations::restart`].

use crate::case::{Findings, Outcome, demand, ensure, operations};
use crate::runner::{Job, Placement, Runner, in_children, random, wait_until};
use machine::kick::{self, Refused};
use machine::sync::{AtomicU64, Ordering, compiler_fence, fence};
use machine::{clock, fault, thread};

operations! {
    /// Says that kicks will come. Cheap while the process has one thread.
    ///
    /// ```text
    /// register():
    ///     if the system refuses: return Refused       and so do all kicks from now on
    ///     from now on kicks are possible, in this process and in its fork children
    /// ```
    ///
    /// A second call does nothing, and answers the same.
    register: fn() -> Result<(), Refused> = kick::register,

    /// A full memory barrier everywhere.
    ///
    /// ```text
    /// fence_all():
    ///     register()
    ///     if the system refuses: refused += 1; return Refused      and nothing was ordered
    ///     on each CPU that runs a thread of this process: a full memory barrier, between two instructions
    ///     on the calling one too
    ///     kicks += 1
    /// ```
    fence_all: fn() -> Result<(), Refused> = kick::fence_all,

    /// A [`fence_all`](Self::fence_all) that restarts a slot besides.
    restart: fn(slot: u32) -> Result<(), Refused> = kick::restart,

    /// The same for all slots at once.
    restart_all: fn() -> Result<(), Refused> = kick::restart_all,

    /// Whether waiting has been a fence everywhere.
    ///
    /// ```text
    /// have_stores_arrived(since):
    ///     if it is less than since + the longest that a store stays unseen: return false
    ///     a full memory barrier on the calling CPU
    ///     return true        and what others did before `since`, and they alone saw, everybody sees
    /// ```
    have_stores_arrived: fn(since_ns: u64) -> bool = kick::have_stores_arrived,

    /// `(kicks, refused)` of this process so far.
    counts: fn() -> (u64, u64) = kick::counts,
}

crate::cases! {
    CASES of Operations::MACHINE;
    "kick::register" => registered, {
        "refuses" { register: || Err(Refused) }
    }
    "kick::fence_all" => |runner, operations| buffered(runner, &|| (operations.fence_all)()), {
        "no fence" { fence_all: || Ok(()) }
    }
    "kick::restart is a fence" => |runner, operations| buffered(runner, &|| (operations.restart)(0)), {
        "no fence" { restart: |_| Ok(()) }
    }
    "kick::restart_all is a fence" => |runner, operations| buffered(runner, &|| (operations.restart_all)()), {
        "no fence" { restart_all: || Ok(()) }
    }
    "kick::have_stores_arrived" => |runner, operations| buffered(runner, &|| outwait(runner, operations)), {
        "at once" { have_stores_arrived: |_| true }
    }
    "kick::counts" => counted, {
        "refusals are not counted" { counts: || (kick::counts().0, 0) }
    }
}

type Fence<'a> = &'a (dyn Fn() -> Result<(), Refused> + Sync);

fn outwait(runner: &dyn Runner, operations: &Operations) -> Result<(), Refused> {
    fence(Ordering::SeqCst);
    let since = clock::now_ns();
    wait_until(runner, || (operations.have_stores_arrived)(since));
    Ok(())
}

pub fn registered(runner: &dyn Runner, operations: &Operations) -> Outcome {
    ensure!((operations.register)() == Ok(()), "the system refuses kicks");
    ensure!((operations.register)() == Ok(()), "the system refuses kicks at the second time");
    in_children(runner, |_| {
        let done = (operations.fence_all)().and((operations.restart)(0)).and((operations.restart_all)());
        done.map_err(|Refused| "a fork child cannot kick")
    })
}

pub fn counted(_: &dyn Runner, operations: &Operations) -> Outcome {
    ensure!((operations.counts)() == (0, 0), "a process that never kicked counts {:?}", (operations.counts)());
    for number in [1, 2, 3] {
        let kick = || match number {
            1 => (operations.fence_all)(),
            2 => (operations.restart)(0),
            _ => (operations.restart_all)(),
        };
        fault::arm(fault::Point::Kick, fault::Plan::Once { skip: 0 });
        ensure!(kick() == Err(Refused), "a kick that had to be refused was not");
        ensure!(kick() == Ok(()), "the kick after a refused one was refused, too");
        let counts = (operations.counts)();
        ensure!(counts == (number, number), "{number} kicks and as many refusals were counted as {counts:?}");
    }
    Ok(())
}

#[repr(align(128))]
#[derive(Default)]
struct Line(AtomicU64);

#[derive(Default)]
struct Buffers {
    x: Line,
    y: Line,
    start: Line,
    /// Twice the round, plus one if the fast side saw `y`.
    answer: Line,
    /// Lines that the other side wrote last. Stores to them keep that to `x` in the CPU's buffer for longer.
    ahead: [Line; 8],
}

/// The body of [`Operations::fence_all`]. Instead of going back to zero, `x` and `y` are numbers of rounds.
pub fn buffered(runner: &dyn Runner, fence: Fence<'_>) -> Outcome {
    let (buffers, findings) = (Buffers::default(), Findings::new());
    let fast: Job<'_> = Box::new(|| fast_side(runner, &buffers));
    let slow: Job<'_> = Box::new(|| slow_side(runner, &buffers, fence, &findings));
    runner.run(Placement::Apart, vec![fast, slow], None);
    findings.outcome()
}

const OVER: u64 = u64::MAX;

fn fast_side(runner: &dyn Runner, buffers: &Buffers) {
    for round in 1.. {
        loop {
            match buffers.start.0.load(Ordering::Acquire) {
                OVER => return,
                now if now == round => break,
                _ => runner.pause(),
            }
        }
        buffers.ahead.iter().for_each(|line| line.0.store(round, Ordering::Relaxed));
        buffers.x.0.store(round, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        let seen = buffers.y.0.load(Ordering::Relaxed) == round;
        buffers.answer.0.store(round * 2 + seen as u64, Ordering::Release);
    }
}

fn slow_side(runner: &dyn Runner, buffers: &Buffers, fence: Fence<'_>, findings: &Findings) {
    thread::enter();
    let mut random = random(runner, 1);
    let mut round = 0;
    while runner.goes_on() && findings.none() {
        round += 1;
        // As many steps as the other side's reading of `start` may take: mostly few.
        let range = 2 << random.u32(0..7);
        let steps = random.u32(0..range);
        buffers.ahead.iter().for_each(|line| line.0.store(0, Ordering::Relaxed));
        buffers.start.0.store(round, Ordering::Release);
        (0..steps).for_each(|_| core::hint::spin_loop());
        buffers.y.0.store(round, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        demand!(findings, fence().is_ok(), "a fence was refused", round);
        compiler_fence(Ordering::SeqCst);
        let seen = buffers.x.0.load(Ordering::Relaxed) == round;
        let answer = loop {
            match buffers.answer.0.load(Ordering::Acquire) {
                answer if answer / 2 == round => break answer % 2 == 1,
                _ => runner.pause(),
            }
        };
        demand!(findings, seen || answer, "neither side saw the other's store: round", round);
    }
    buffers.start.0.store(OVER, Ordering::Release);
}
