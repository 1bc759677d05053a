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
//! `COMMENSAL_TEST_EFFORT` multiplies how long each of the three modes takes.
//!
//! Planted: readers whose sections are not counted, an updater that waits for every hundredth grace period only, a flood that uses objects
//! again at once, and a registered reader that is offline in its sections.

#[path = "../common/mod.rs"]
mod common;
mod flood;
mod order;
mod registered;

use commensal::machine::slot;
use commensal::rcu;
use common::disturbed::{self, Crowd};
use common::forks::{self, Way};
use common::random::{self, Random};
use common::{PATIENCE, child, seconds};
use flood::FLOODS;
use order::ORDERS;
use std::hint::spin_loop;
use std::process::Command;
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

/// How readers and updaters find each other: RCU, or something planted.
trait Flavour: Copy + Default + Send + Sync + 'static {
    type Guard;
    /// Threads that leave thousands of objects to the runtime at once: none where they would be freed while they are looked at.
    const FLOODERS: u64 = 0;
    /// Whether these use objects again at once.
    const IS_HASTY: bool = false;
    /// Whether the reader that registered is offline in its sections.
    const IS_ABSENT: bool = false;
    /// What is to be found before the time is over; anything, if nothing is said.
    const FINDS: &str = "";
    fn read(self) -> Self::Guard;
    fn wait(self, random: &mut Random);
}

#[derive(Clone, Copy, Default)]
struct Rcu;

impl Flavour for Rcu {
    type Guard = rcu::ReadGuard;
    const FLOODERS: u64 = 2;

    fn read(self) -> rcu::ReadGuard {
        rcu::read()
    }

    fn wait(self, random: &mut Random) {
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
}

#[derive(Clone, Copy, Default)]
struct Uncounted;

impl Flavour for Uncounted {
    type Guard = ();

    fn read(self) {}

    fn wait(self, random: &mut Random) {
        Rcu.wait(random);
    }
}

#[derive(Clone, Copy, Default)]
struct Impatient;

impl Flavour for Impatient {
    type Guard = rcu::ReadGuard;
    const FINDS: &str = "neither of two partners";

    fn read(self) -> rcu::ReadGuard {
        rcu::read()
    }

    fn wait(self, random: &mut Random) {
        if random.once_in(100) {
            Rcu.wait(random);
        }
    }
}

/// RCU, with something else that is amiss.
#[derive(Clone, Copy, Default)]
struct Amiss<const WHAT: usize>;

const HASTY: usize = 0;
const ABSENT: usize = 1;

impl<const WHAT: usize> Flavour for Amiss<WHAT> {
    type Guard = rcu::ReadGuard;
    const FLOODERS: u64 = 2;
    const IS_HASTY: bool = WHAT == HASTY;
    const IS_ABSENT: bool = WHAT == ABSENT;
    const FINDS: &str = ["of a flood", "sections were not waited for"][WHAT];

    fn read(self) -> rcu::ReadGuard {
        rcu::read()
    }

    fn wait(self, random: &mut Random) {
        Rcu.wait(random);
    }
}

struct Object {
    age: AtomicU32,
    /// Complete as long as it can be found.
    contents: [AtomicU64; 2],
}

/// What is tortured; for the life of the process, as handlers use it.
struct Rig {
    current: AtomicPtr<Object>,
    /// Sections by the age of what they found.
    ages: [AtomicU64; OLD + 1],
    incomplete: AtomicU64,
    /// Sections in which more than one grace period was over.
    surpassed: AtomicU64,
    stop: AtomicBool,
    stutter: AtomicBool,
    children: AtomicU64,
    children_of_handlers: AtomicU64,
    failed_children: AtomicU64,
    crowd: Crowd,
}

static RIG: Rig = Rig {
    current: AtomicPtr::new(std::ptr::null_mut()),
    ages: [const { AtomicU64::new(0) }; OLD + 1],
    incomplete: AtomicU64::new(0),
    surpassed: AtomicU64::new(0),
    stop: AtomicBool::new(false),
    stutter: AtomicBool::new(false),
    children: AtomicU64::new(0),
    children_of_handlers: AtomicU64::new(0),
    failed_children: AtomicU64::new(0),
    crowd: Crowd::new(),
};

fn count(word: &AtomicU64) {
    word.fetch_add(1, Ordering::Relaxed);
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
    fn open<F: Flavour<Guard = G>>(flavour: F) -> Self {
        Section::with(flavour.read())
    }

    fn with(guard: G) -> Self {
        let begun_at = rcu::grace_periods();
        // SAFETY: objects live as long as the process.
        let object = unsafe { &*RIG.current.load(Ordering::Acquire) };
        if object.contents.iter().any(|part| part.load(Ordering::Relaxed) != object.contents[0].load(Ordering::Relaxed))
        {
            count(&RIG.incomplete);
        }
        Section { object, flooded: flood::Found::now(), begun_at, guard }
    }

    fn end(self) {
        count(&RIG.ages[(self.object.age.load(Ordering::Relaxed) as usize).min(OLD)]);
        self.flooded.iter().for_each(flood::Found::check);
        if rcu::grace_periods() > self.begun_at + 1 {
            count(&RIG.surpassed);
        }
    }
}

fn goes_on() -> bool {
    while RIG.stutter.load(Ordering::Relaxed) && !RIG.stop.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(1));
    }
    !RIG.stop.load(Ordering::Relaxed)
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
fn read<F: Flavour>(flavour: F, random: &mut Random) {
    let _member = RIG.crowd.enrol();
    let mut open: Vec<Section<F::Guard>> = Vec::new();
    let enough = 20_000 + random.below(200_000);
    for _ in 0..enough {
        match random.below(8) {
            0..4 if open.len() < 4 => open.push(Section::open(flavour)),
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
    count(&RIG.children);
    wait_for_child(child);
}

fn wait_for_child(child: libc::pid_t) {
    if forks::wait_for(child, PATIENCE) != Some(forks::FINE) {
        count(&RIG.failed_children);
    }
}

/// A handler reads, and forks now and then.
extern "C" fn interrupt<F: Flavour>(_: libc::c_int) {
    static SIGNALS: AtomicU32 = AtomicU32::new(0);
    // SAFETY: the location is the thread's own, and what was interrupted may be about to look at it.
    let errno = unsafe { *libc::__errno_location() };
    let section = Section::open(F::default());
    if SIGNALS.fetch_add(1, Ordering::Relaxed).is_multiple_of(512) && !RIG.stop.load(Ordering::Relaxed) {
        // What is interrupted goes on in the parent only: it may have sections open that the child can't end. So only that nothing ends early.
        let child = Way::Bare.fork_and(|| {
            let cookie = rcu::start();
            drop(rcu::read());
            if rcu::is_over(cookie) { Err(2) } else { Ok(()) }
        });
        count(&RIG.children_of_handlers);
        wait_for_child(child);
    }
    section.end();
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

fn update<F: Flavour>(flavour: F, random: &mut Random) {
    let mut free: Vec<&'static Object> = Vec::new();
    let mut replaced: Vec<&'static Object> = Vec::new();
    let mut number = 0;
    while goes_on() {
        number += 1;
        let object = free.pop().unwrap_or_else(|| {
            Box::leak(Box::new(Object { age: AtomicU32::new(0), contents: [const { AtomicU64::new(0) }; 2] }))
        });
        object.age.store(0, Ordering::Relaxed);
        object.contents.iter().for_each(|part| part.store(number, Ordering::Relaxed));
        let old = RIG.current.swap((&raw const *object).cast_mut(), Ordering::AcqRel);
        // SAFETY: objects live as long as the process.
        if let Some(old) = unsafe { old.as_ref() } {
            old.age.store(1, Ordering::Relaxed);
            replaced.push(old);
        }
        flavour.wait(random);
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
fn torture<F: Flavour>(seed: u64, duration: Duration) -> Result<(), String> {
    let flavour = F::default();
    let first = Object { age: AtomicU32::new(0), contents: [const { AtomicU64::new(0) }; 2] };
    RIG.current.store(Box::leak(Box::new(first)), Ordering::Release);
    disturbed::handle(interrupt::<F>);
    let before = rcu::grace_periods();
    RIG.crowd.disturb_while(seed, || {
        thread::scope(|scope| {
            let random = |stream| Random::new(seed, stream);
            for reader in 0..READERS as u64 {
                scope.spawn(move || {
                    for life in 0.. {
                        let mut random = random(100 + reader + 1000 * life);
                        thread::scope(|scope| drop(scope.spawn(move || read(flavour, &mut random))));
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
                        flavour.wait(&mut random);
                        thread::sleep(Duration::from_micros(random.below(500) as u64));
                    }
                });
            }
            scope.spawn(move || update(flavour, &mut random(300)));
            scope.spawn(move || registered::read::<F>(&mut random(303)));
            scope.spawn(move || order::lead(flavour, &mut random(301)));
            scope.spawn(move || order::follow(flavour, &mut random(302)));
            for flooder in 0..F::FLOODERS {
                scope.spawn(move || flood::flood::<F>(&mut random(310 + flooder)));
            }
            let end = Instant::now() + duration;
            let mut random = random(400);
            let is_enough = || RIG.ages[1].load(Ordering::Relaxed) > 0 && ORDERS.met();
            while common::goes_on(end, is_enough()) && !failure().is_some_and(|found| found.contains(F::FINDS)) {
                thread::sleep(Duration::from_millis(50 + random.below(300) as u64));
                RIG.stutter.store(true, Ordering::Relaxed);
                thread::sleep(Duration::from_millis(random.below(30) as u64));
                RIG.stutter.store(false, Ordering::Relaxed);
                registered::choose(&mut random);
            }
            RIG.stop.store(true, Ordering::Relaxed);
        });
    });
    let ages = RIG.ages.each_ref().map(|age| age.load(Ordering::Relaxed));
    let grace_periods = rcu::grace_periods() - before;
    let of = |word: &AtomicU64| word.load(Ordering::Relaxed);
    let over = flood::is_over::<F>(&mut Random::new(seed, 500));
    println!(
        "{:?}: {} sections, of age {ages:?}; {grace_periods} grace periods; {} children, {} of handlers; \
         {ORDERS}; {FLOODS}",
        slot::mode(),
        ages.iter().sum::<u64>(),
        of(&RIG.children),
        of(&RIG.children_of_handlers),
    );
    match failure() {
        Some(what) => Err(what),
        None if ages[1] == 0 => Err("no object was replaced while it was looked at".into()),
        None if !ORDERS.met() => Err("partners did not meet".into()),
        None => over,
    }
}

fn failure() -> Option<String> {
    let of = |word: &AtomicU64| word.load(Ordering::Relaxed);
    let aged: u64 = RIG.ages[2..].iter().map(of).sum();
    let found = [
        (aged, "sections were not waited for"),
        (of(&RIG.incomplete), "sections found an object whose contents were not complete"),
        (of(&RIG.surpassed), "sections saw more than one grace period end"),
        (of(&RIG.failed_children), "children did not end well"),
        (ORDERS.failures(), "times neither of two partners saw what the other one wrote"),
        (FLOODS.failures(), "sections found an object of a flood that was used again"),
    ];
    let found = found.into_iter().filter(|(times, _)| *times > 0).map(|(times, what)| format!("{times} {what}"));
    Some(found.collect::<Vec<_>>().join(", ")).filter(|found| !found.is_empty())
}

/// Tortures in a process that is prepared so.
fn act_out(prepare: impl FnOnce(&mut Command) -> &mut Command) {
    if child::case().is_some() {
        let seed = random::seed();
        let result = torture::<Rcu>(seed, Duration::from_secs_f64(seconds(USUAL_SECONDS)));
        return result.unwrap_or_else(|found| panic!("{found}\n{}", random::replay(seed)));
    }
    let outcome = child::run(prepare(&mut child::command("torture")));
    outcome.expect_success();
    println!("{}", outcome.stdout.trim());
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
    assert!(child::case().is_none() || commensal::machine::kick::fence_all().is_err());
}

fn must_find<F: Flavour>() {
    if child::case().is_some() {
        let found = torture::<F>(random::seed(), PATIENCE).expect_err("the planted bug was not found");
        assert!(found.contains(F::FINDS), "found was something else: {found}");
        return println!("found: {found}");
    }
    let outcome = child::run(&mut child::command("planted"));
    assert!(outcome.stdout.contains("found: "), "{}", outcome.report());
    println!("{}", outcome.stdout.trim());
}

#[test]
fn planted_sections_that_are_not_counted() {
    must_find::<Uncounted>();
}

#[test]
fn planted_an_impatient_updater() {
    must_find::<Impatient>();
}

#[test]
fn planted_a_hasty_flood() {
    must_find::<Amiss<HASTY>>();
}

#[test]
fn planted_a_registered_reader_that_is_offline() {
    must_find::<Amiss<ABSENT>>();
}
