//! Torture: sections of all kinds while objects are taken away behind their backs, in the manner of the Linux kernel's rcutorture and of liburcu's
//! tests.
//!
//! An updater puts one object after the other where readers find it. One that was replaced is of age 1, and gets a year older with each grace
//! period since; at [`OLD`] it is used again. A reader looks at the age of what it found when its section *ends*. It may have been replaced in between, so
//! 0 and 1 are well. **Any other age is a section that was not waited for.** How to read the output:
//!
//! ```text
//! ConcurrencyId: 91882311 sections, of age [91862013, 20298, 0, 0, 0, 0, 0, 0, 0, 0]; 28381 grace periods; 40 children, 61 of handlers;
//!                                                 │      └ must be zeroes
//!                                                 └ should not be zero: else nobody was in a section when its object was replaced
//! ```
//!
//! Also checked: an object's contents were complete before it could be found; during a section not more than one grace period is
//! over, the one that had begun before it (*count*); no section is waited for that is over, as the updater would never get on.
//!
//! *Order* and *floods*, whose figures follow, are explained in `order.rs` and `flood.rs`.
//!
//! Readers nest, overlap, sleep, and end anywhere; one of them has registered (`registered.rs`). All threads migrate, are interrupted by signals whose handlers read, and have their restartable sections
//! aborted; threads end and others begin; everything stops now and then, so that grace periods are asked for by one thread again (*stutter*).
//! Threads and handlers fork, in each way there is, in sections and outside: a child must wait for the sections of its thread, and for no others.

#[path = "../common/mod.rs"]
mod common;
mod flood;
mod order;
mod registered;

use commensal_runtime::machine::slot;
use commensal_runtime::rcu::{self, ReadGuard};
use common::disturbed::{self, Crowd};
use common::forks::{self, Way};
use common::random::{self, Random};
use common::{PATIENCE, child, seconds};
use std::hint::spin_loop;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The age at which an object is used again.
const OLD: usize = 10;
const READERS: usize = 4;
/// Threads that only ask for grace periods.
const ASKERS: usize = 2;
/// For each of the modes. `cargo xtask torture` counts on its being one.
const USUAL_SECONDS: f64 = 1.0;

/// What is wrong on purpose.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Planted {
    Nothing,
    /// Sections are not counted.
    Uncounted,
    /// The updater waits for every hundredth grace period only.
    Impatient,
    /// Floods use objects again at once.
    Hasty,
    /// The reader that registered is offline in its sections.
    Absent,
}

const PLANTED_BUGS: [Planted; 4] = [Planted::Uncounted, Planted::Impatient, Planted::Hasty, Planted::Absent];

static PLANTED: OnceLock<Planted> = OnceLock::new();

impl Planted {
    fn is_here(self) -> bool {
        PLANTED.get() == Some(&self)
    }

    /// What is to be found before the time is over; anything, if nothing is said.
    fn finds(self) -> &'static str {
        match self {
            Planted::Nothing | Planted::Uncounted => "",
            Planted::Impatient => "neither of two partners",
            Planted::Hasty => "of a flood",
            Planted::Absent => "sections were not waited for",
        }
    }

    /// Threads that leave thousands of objects to the runtime at once: none where they would be freed while they are looked at.
    fn flooders(self) -> u64 {
        if matches!(self, Planted::Uncounted | Planted::Impatient) { 0 } else { 2 }
    }
}

fn read_guard() -> Option<ReadGuard> {
    (!Planted::Uncounted.is_here()).then(rcu::read)
}

/// Waits for readers, in any way there is.
fn wait(random: &mut Random) {
    if Planted::Impatient.is_here() && !random.once_in(100) {
        return;
    }
    // With kicks, and without on machines with few CPUs, too.
    rcu::set_knob("watch_slots", if random.once_in(3) { 1000 } else { 1 }).unwrap();
    match random.below(4) {
        0 => rcu::synchronize_expedited(),
        1 => {
            let cookie = rcu::start();
            while !rcu::is_over(cookie) {
                thread::yield_now();
            }
        }
        _ => rcu::synchronize(),
    }
}

#[derive(Default)]
struct Object {
    age: AtomicU32,
    /// Complete as long as it can be found.
    contents: [AtomicU64; 2],
}

/// What readers find.
static CURRENT: AtomicPtr<Object> = AtomicPtr::new(std::ptr::null_mut());
static CROWD: Crowd = Crowd::new();
static STOP: AtomicBool = AtomicBool::new(false);
static STUTTER: AtomicBool = AtomicBool::new(false);

/// Sections by the age of what they found.
static AGES: [AtomicU64; OLD + 1] = [const { AtomicU64::new(0) }; OLD + 1];
static INCOMPLETE: AtomicU64 = AtomicU64::new(0);
/// Sections in which more than one grace period was over.
static SURPASSED: AtomicU64 = AtomicU64::new(0);
static CHILDREN: AtomicU64 = AtomicU64::new(0);
static CHILDREN_OF_HANDLERS: AtomicU64 = AtomicU64::new(0);
static FAILED_CHILDREN: AtomicU64 = AtomicU64::new(0);

fn count(word: &AtomicU64) {
    word.fetch_add(1, Ordering::Relaxed);
}

fn of(word: &AtomicU64) -> u64 {
    word.load(Ordering::Relaxed)
}

/// A section that found an object.
struct Section<G> {
    object: &'static Object,
    flooded: Option<flood::Found>,
    begun_at: u64,
    #[expect(dead_code, reason = "ends when it is dropped")]
    guard: G,
}

impl<G> Section<G> {
    fn with(guard: G) -> Self {
        let begun_at = rcu::grace_periods();
        // SAFETY: objects live as long as the process.
        let object = unsafe { &*CURRENT.load(Ordering::Acquire) };
        let [first, last] = object.contents.each_ref().map(of);
        if first != last {
            count(&INCOMPLETE);
        }
        Section { object, flooded: flood::Found::now(), begun_at, guard }
    }

    fn end(self) {
        count(&AGES[(self.object.age.load(Ordering::Relaxed) as usize).min(OLD)]);
        self.flooded.iter().for_each(flood::Found::check);
        if rcu::grace_periods() > self.begun_at + 1 {
            count(&SURPASSED);
        }
    }
}

fn goes_on() -> bool {
    while STUTTER.load(Ordering::Relaxed) && !STOP.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(1));
    }
    !STOP.load(Ordering::Relaxed)
}

fn dawdle(random: &mut Random) {
    match random.below(1000) {
        0 => thread::sleep(Duration::from_micros(random.below(2000) as u64)),
        1..20 => thread::yield_now(),
        20..300 => (0..random.below(200)).for_each(|_| spin_loop()),
        _ => {}
    }
}

/// A reader until it is told to stop, or has had enough: then another one begins.
fn read(random: &mut Random) {
    let _member = CROWD.enrol();
    let mut open = Vec::new();
    let enough = 20_000 + random.below(200_000);
    for _ in 0..enough {
        match random.below(8) {
            0..4 if open.len() < 4 => open.push(Section::with(read_guard())),
            4 if open.len() == 4 => drop(open.drain(..2).map(Section::end).collect::<Vec<_>>()),
            _ if !open.is_empty() => open.swap_remove(random.below(open.len())).end(),
            _ if !goes_on() => break,
            _ => {}
        }
        dawdle(random);
        if random.once_in(20_000) {
            fork(&mut open, random);
        }
    }
    open.into_iter().for_each(Section::end);
}

/// What a child checks; nothing in it allocates. Those of its thread's sections that are open come to their end one by one.
fn live(mut open: impl Iterator<Item = impl Sized>, count: usize) -> Result<(), i32> {
    const EARLY: i32 = 2;
    let cookie = rcu::start();
    for _ in 0..count {
        if rcu::is_over(cookie) || rcu::is_over(cookie) {
            return Err(EARLY);
        }
        drop(open.next());
    }
    rcu::synchronize();
    drop(rcu::read());
    rcu::synchronize_expedited();
    Ok(())
}

fn fork<G>(open: &mut Vec<Section<G>>, random: &mut Random) {
    let way = Way::ALL[random.below(3)];
    let length = open.len();
    let child = way.fork_and(|| live(open.drain(..), length));
    count(&CHILDREN);
    wait_for_child(child);
}

fn wait_for_child(child: libc::pid_t) {
    if forks::wait_for(child, PATIENCE) != Some(forks::FINE) {
        count(&FAILED_CHILDREN);
    }
}

/// A handler reads, and forks now and then.
extern "C" fn interrupt(_: libc::c_int) {
    static SIGNALS: AtomicU32 = AtomicU32::new(0);
    // SAFETY: the location is the thread's own, and what was interrupted may be about to look at it.
    let errno = unsafe { *libc::__errno_location() };
    let section = Section::with(read_guard());
    if SIGNALS.fetch_add(1, Ordering::Relaxed).is_multiple_of(512) && !STOP.load(Ordering::Relaxed) {
        // What is interrupted goes on in the parent only: it may have sections open that the child can't end. So only that nothing ends early.
        let child = Way::Bare.fork_and(|| {
            let cookie = rcu::start();
            drop(rcu::read());
            if rcu::is_over(cookie) { Err(2) } else { Ok(()) }
        });
        count(&CHILDREN_OF_HANDLERS);
        wait_for_child(child);
    }
    section.end();
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

fn update(random: &mut Random) {
    let mut free: Vec<&'static Object> = Vec::new();
    let mut replaced: Vec<&'static Object> = Vec::new();
    let mut number = 0;
    while goes_on() {
        number += 1;
        let object = free.pop().unwrap_or_else(|| Box::leak(Box::default()));
        object.age.store(0, Ordering::Relaxed);
        object.contents.iter().for_each(|part| part.store(number, Ordering::Relaxed));
        let old = CURRENT.swap((&raw const *object).cast_mut(), Ordering::AcqRel);
        // SAFETY: objects live as long as the process.
        if let Some(old) = unsafe { old.as_ref() } {
            old.age.store(1, Ordering::Relaxed);
            replaced.push(old);
        }
        wait(random);
        replaced.retain(|object| {
            let age = object.age.fetch_add(1, Ordering::Relaxed) + 1;
            if age as usize >= OLD {
                free.push(object);
            }
            (age as usize) < OLD
        });
        if random.once_in(64) {
            thread::sleep(Duration::from_micros(random.below(3000) as u64));
        }
    }
}

/// The whole torture, in this process. An error says what was found.
fn torture(planted: Planted, seed: u64, duration: Duration) -> Result<(), String> {
    PLANTED.set(planted).expect("it is planted once");
    CURRENT.store(Box::leak(Box::default()), Ordering::Release);
    disturbed::handle(interrupt);
    let before = rcu::grace_periods();
    CROWD.disturb_while(seed, || {
        thread::scope(|scope| {
            let random = |stream| Random::new(seed, stream);
            for reader in 0..READERS as u64 {
                scope.spawn(move || {
                    for life in 0.. {
                        let mut random = random(100 + reader + 1000 * life);
                        thread::scope(|scope| drop(scope.spawn(move || read(&mut random))));
                        if !goes_on() {
                            break;
                        }
                    }
                });
            }
            for asker in 0..ASKERS as u64 {
                scope.spawn(move || {
                    let mut random = random(200 + asker);
                    while goes_on() {
                        wait(&mut random);
                        thread::sleep(Duration::from_micros(random.below(500) as u64));
                    }
                });
            }
            scope.spawn(move || update(&mut random(300)));
            scope.spawn(move || registered::read(&mut random(303)));
            scope.spawn(move || order::lead(&mut random(301)));
            scope.spawn(move || order::follow(&mut random(302)));
            for flooder in 0..planted.flooders() {
                scope.spawn(move || flood::flood(&mut random(310 + flooder)));
            }
            let end = Instant::now() + duration;
            let mut random = random(400);
            let is_enough = || of(&AGES[1]) > 0 && order::both_were_first();
            while common::goes_on(end, is_enough()) && !failure().is_some_and(|found| found.contains(planted.finds())) {
                thread::sleep(Duration::from_millis(50 + random.below(300) as u64));
                STUTTER.store(true, Ordering::Relaxed);
                thread::sleep(Duration::from_millis(random.below(30) as u64));
                STUTTER.store(false, Ordering::Relaxed);
                registered::choose(&mut random);
            }
            STOP.store(true, Ordering::Relaxed);
        });
    });
    let ages = AGES.each_ref().map(of);
    let grace_periods = rcu::grace_periods() - before;
    let over = flood::is_over(&mut Random::new(seed, 500));
    println!(
        "{:?}: {} sections, of age {ages:?}; {grace_periods} grace periods; {} children, {} of handlers; \
         {}; {}",
        slot::mode(),
        ages.iter().sum::<u64>(),
        of(&CHILDREN),
        of(&CHILDREN_OF_HANDLERS),
        order::report(),
        flood::report(),
    );
    match failure() {
        Some(what) => Err(what),
        None if ages[1] == 0 => Err("no object was replaced while it was looked at".into()),
        None if !order::both_were_first() => Err("partners did not meet".into()),
        None => over,
    }
}

fn failure() -> Option<String> {
    let aged: u64 = AGES[2..].iter().map(of).sum();
    let found = [
        (aged, "sections were not waited for"),
        (of(&INCOMPLETE), "sections found an object whose contents were not complete"),
        (of(&SURPASSED), "sections saw more than one grace period end"),
        (of(&FAILED_CHILDREN), "children did not end well"),
        (order::failures(), "times neither of two partners saw what the other one wrote"),
        (flood::failures(), "sections found an object of a flood that was used again"),
    ];
    let found = found.into_iter().filter(|(times, _)| *times > 0).map(|(times, what)| format!("{times} {what}"));
    Some(found.collect::<Vec<_>>().join(", ")).filter(|found| !found.is_empty())
}

fn act_out(prepare: impl FnOnce(&mut Command) -> &mut Command) {
    let duration = Duration::from_secs_f64(seconds(USUAL_SECONDS));
    child::act_out_prepared(prepare, |seed| torture(Planted::Nothing, seed, duration));
}

#[test]
fn with_concurrency_ids() {
    act_out(|command| command);
}

#[test]
fn without_restartable_sequences() {
    act_out(|command| command.envs([child::FALLBACK]));
    assert!(child::case().is_none() || slot::mode() == slot::Mode::PerThread);
}

#[test]
fn without_membarrier() {
    act_out(child::refuse_membarrier);
    assert!(child::case().is_none() || commensal_runtime::machine::kick::fence_all().is_err());
}

#[test]
fn planted_bugs_are_found() {
    if let Some(case) = child::case() {
        let planted = PLANTED_BUGS.into_iter().find(|planted| format!("{planted:?}") == case).expect("it is known");
        let found = torture(planted, random::seed(), PATIENCE).expect_err("the planted bug was not found");
        assert!(found.contains(planted.finds()), "found was something else: {found}");
        return println!("found: {found}");
    }
    for planted in PLANTED_BUGS {
        let outcome = child::run(&mut child::command(&format!("{planted:?}")));
        assert!(outcome.stdout.contains("found: "), "{planted:?}: {}", outcome.report());
        println!("{}", outcome.stdout.trim());
    }
}
