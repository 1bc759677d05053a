//! Sections and grace periods: what a section has found stays until it ends, and grace periods end.

use crate::forks::must_be_well;
use crate::heaps::crowd;
use crate::protocol::{BOTH, NO_SIGNALS, protocols};
use commensal_runtime::rcu::{self, Cookie, ReadGuard};
use fastrand::Rng;
use machine::fault;
use machine::simulation::explore::Outcome;
use machine::simulation::{Rates, fork, fork_on, pause};
use machine::slot::Mode;
use machine::sync::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use machine::thread;
use std::cell::Cell;
use std::ops::RangeInclusive;

protocols! {
    "grace periods":
        "sections that lie inside of others, overlap, migrate and are interrupted by sections, and grace periods of all kinds",
        read_and_update, Rates { signal: 100, ..Rates::USUAL }, BOTH
            => by_ids SectionsGoOn, by_ids StoresOvertake, in_fallback ChangesTear;
    "hand over hand": "a reader that opens the next section before it ends the last one, until a grace period is over",
        hand_over_hand, NO_SIGNALS, BOTH => by_ids SectionsGoOn;
    "sections in sections": "a reader that opens and ends sections inside of one that somebody waits for",
        // A section has to fit between two steps of the updater.
        nested, Rates { switch: 22_000, ..NO_SIGNALS }, BOTH => by_ids KicksGetLost;
    "sections without kicks":
        "a reader whose stores take long to arrive, where the kernel refuses kicks from some moment on",
        without_kicks, Rates { drain: 400, ..NO_SIGNALS }, &[Mode::ConcurrencyId] => by_ids StoresStay;
    "watched slots":
        "readers in all slots, which show that they find nothing old, or do not; grace periods with kicks and without",
        watched, Rates { drain: 400, ..NO_SIGNALS }, &[Mode::ConcurrencyId] => by_ids SectionsGoOn, by_ids StoresOvertake;
    "section forks": "forks with sections open: the child waits for those of the thread that forked, and for no others",
        forked, NO_SIGNALS, BOTH => by_ids NoWipe;
    "section forks in handlers":
        "forks by handlers, on top of threads that are anywhere in opening and ending sections",
        forked_by_handlers, Rates { signal: 400, ..Rates::USUAL }, BOTH => by_ids NoWipe;
}

const READERS: usize = 3;
const UPDATERS: usize = 2;
/// Objects that an updater has: the one that can be found, or one more that cannot.
const EACH: usize = 2;

/// Objects, of which readers find one.
pub(crate) struct Objects {
    are_there: [AtomicBool; 1 + UPDATERS * EACH],
    current: AtomicUsize,
}

impl Objects {
    pub(crate) fn new() -> Self {
        let objects = Objects { are_there: Default::default(), current: AtomicUsize::new(0) };
        objects.are_there[0].store(true, Ordering::SeqCst);
        objects
    }

    pub(crate) fn find(&self) -> usize {
        self.current.load(Ordering::Acquire)
    }

    pub(crate) fn check(&self, found: usize) {
        assert!(self.are_there[found].load(Ordering::Relaxed), "an object is gone in a section that found it");
    }

    /// Puts another object in the current one's place.
    pub(crate) fn replace(&self, other: usize) -> usize {
        self.are_there[other].store(true, Ordering::Relaxed);
        self.current.swap(other, Ordering::AcqRel)
    }

    /// Puts these in the current one's place, one after the other, each of which goes after a grace period.
    fn replace_by(&self, others: RangeInclusive<usize>, random: &mut Rng) {
        for other in others {
            let old = self.replace(other);
            wait_for_readers(random);
            self.remove(old);
        }
    }

    /// After a grace period.
    pub(crate) fn remove(&self, gone: usize) {
        self.are_there[gone].store(false, Ordering::Relaxed);
    }
}

/// The objects that an updater has, and nobody finds.
pub(crate) struct Updater(Vec<usize>);

impl Updater {
    pub(crate) fn new(number: usize) -> Self {
        let first = 1 + number * EACH;
        Updater((first..first + EACH).collect())
    }

    pub(crate) fn update(&mut self, objects: &Objects, wait_for_readers: impl FnOnce()) {
        let old = objects.replace(self.0.pop().expect("an updater has objects"));
        wait_for_readers();
        objects.remove(old);
        self.0.push(old);
    }
}

struct Section {
    #[expect(dead_code, reason = "ends when it is dropped")]
    guard: ReadGuard,
    found: usize,
}

impl Section {
    fn open(objects: &Objects) -> Self {
        let guard = rcu::read();
        Section { guard, found: objects.find() }
    }
}

fn read(open: &mut Vec<Section>, objects: &Objects, random: &mut Rng) {
    match random.u8(..3) {
        0 if open.len() < 3 => open.push(Section::open(objects)),
        1 if !open.is_empty() => drop(open.swap_remove(random.usize(..open.len()))),
        _ => open.iter().for_each(|section| objects.check(section.found)),
    }
}

fn wait_for_readers(random: &mut Rng) {
    match random.u8(..3) {
        0 => rcu::synchronize(),
        1 => rcu::synchronize_expedited(),
        _ => {
            let cookie = rcu::start();
            while !rcu::is_over(cookie) {
                pause();
            }
        }
    }
}

/// Whether grace periods may do without kicks, with as few slots as there are here.
fn may_watch(may: bool) {
    rcu::set_knob("watch_slots", if may { 1 } else { 1000 }).expect("there is such a setting");
}

fn read_and_update(seed: u64) -> Outcome {
    may_watch((seed / 5).is_multiple_of(2));
    let objects = Objects::new();
    let handler = || {
        let section = Section::open(&objects);
        objects.check(section.found);
    };
    crowd(READERS + UPDATERS, seed, Some(&handler), &|thread, random| {
        if thread < READERS {
            let mut open = Vec::new();
            for _ in 0..30 {
                read(&mut open, &objects, random);
            }
            return;
        }
        let mut updater = Updater::new(thread - READERS);
        (0..4).for_each(|_| updater.update(&objects, || wait_for_readers(random)));
    });
    Ok(())
}

/// An updater that replaces so many objects, and readers that begin with a section and go from it to the next one.
fn readers_beside_an_updater(
    readers: usize, updates: usize, seed: u64, next: impl Fn(Section, &Objects, &mut Rng) -> Section,
) -> Outcome {
    may_watch((seed / 5).is_multiple_of(2));
    let (objects, is_done) = (Objects::new(), AtomicBool::new(false));
    crowd(1 + readers, seed, None, &|thread, random| {
        if thread == 0 {
            objects.replace_by(1..=updates, random);
            return is_done.store(true, Ordering::SeqCst);
        }
        let mut section = Section::open(&objects);
        while !is_done.load(Ordering::SeqCst) {
            section = next(section, &objects, random);
        }
    });
    Ok(())
}

fn hand_over_hand(seed: u64) -> Outcome {
    readers_beside_an_updater(2, 2, seed, |section, objects, _| {
        let next = Section::open(objects);
        objects.check(section.found);
        drop(section);
        pause();
        next
    })
}

/// A reader that opens one section after the other and does something in it.
fn one_reader(seed: u64, in_section: impl Fn(&Objects, usize, &mut Rng)) -> Outcome {
    readers_beside_an_updater(1, 3, seed, |section, objects, random| {
        in_section(objects, section.found, random);
        drop(section);
        pause();
        Section::open(objects)
    })
}

fn nested(seed: u64) -> Outcome {
    one_reader(seed, |objects, found, random| {
        // Longer than it takes to look at all slots.
        for _ in 0..random.usize(..100) {
            drop(rcu::read());
            objects.check(found);
        }
    })
}

fn watched(seed: u64) -> Outcome {
    let (objects, is_done) = (Objects::new(), AtomicBool::new(false));
    crowd(3, seed, None, &|thread, random| {
        if thread == 0 {
            let mut updater = Updater::new(0);
            for _ in 0..12 {
                may_watch(random.u8(..4) > 0);
                updater.update(&objects, rcu::synchronize);
            }
            return is_done.store(true, Ordering::SeqCst);
        }
        while !is_done.load(Ordering::SeqCst) {
            let section = Section::open(&objects);
            (0..random.usize(..4)).for_each(|_| objects.check(section.found));
            drop(section);
            if random.u8(..8) == 0 {
                pause();
            }
        }
    });
    Ok(())
}

fn without_kicks(seed: u64) -> Outcome {
    fault::arm(fault::Point::Kick, fault::Plan::Always { skip: (seed % 3) as u32 });
    // Loads only, which push no store out of the buffer.
    one_reader(seed, |objects, found, random| (0..random.usize(..60)).for_each(|_| objects.check(found)))
}

/// Polls that a grace period takes at most when nobody is in its way.
pub(crate) const POLLS: usize = 200;

/// A grace period that must come to an end, since nothing is open that it waits for.
pub(crate) fn must_end(cookie: Cookie) -> Result<(), &'static str> {
    let ended = (0..POLLS).any(|_| {
        pause();
        rcu::is_over(cookie)
    });
    if ended { Ok(()) } else { Err("a grace period does not end in a child") }
}

/// What a child does with the sections that its thread has open, on its own and with others.
fn live(open: &mut Vec<Section>, objects: &Objects, random: &mut Rng) -> Result<(), &'static str> {
    const EARLY: &str = "a grace period ended in a child before sections that its thread had open";
    let spare = (1..objects.are_there.len()).find(|&spare| spare != objects.find()).expect("there are several");
    let old = objects.replace(spare);
    let cookie = rcu::start();
    if random.bool() {
        let inherited = !open.is_empty();
        crowd(2, random.u64(..), None, &|_, random| {
            let mut open = Vec::new();
            (0..10).for_each(|_| read(&mut open, objects, random));
            assert!(!(inherited && rcu::is_over(cookie)), "{EARLY}");
        });
    }
    let mut younger = Vec::new();
    while !open.is_empty() {
        open.iter().for_each(|section| objects.check(section.found));
        if rcu::is_over(cookie) {
            return Err(EARLY);
        }
        for _ in 0..random.usize(..6) {
            match random.bool() {
                true => younger.push(Section::open(objects)),
                false => drop(younger.pop()),
            }
        }
        if random.bool() {
            drop(open.swap_remove(random.usize(..open.len())));
        }
    }
    drop(younger);
    must_end(cookie)?;
    objects.remove(old);
    let grandchild = &mut || must_end(rcu::start());
    must_be_well(fork(random.bool(), grandchild));
    crowd(2, random.u64(..), None, &|thread, random| {
        let mut open = Vec::new();
        (0..10).for_each(|_| read(&mut open, objects, random));
        drop(open);
        if thread == 0 {
            wait_for_readers(random);
        }
    });
    Ok(())
}

fn forked(seed: u64) -> Outcome {
    may_watch((seed / 5).is_multiple_of(2));
    let objects = Objects::new();
    crowd(READERS + 1, seed, None, &|thread, random| {
        if thread == READERS {
            return objects.replace_by(1..=3, random);
        }
        let mut open = Vec::new();
        let when = if thread == 0 { random.usize(..20) } else { usize::MAX };
        for step in 0..20 {
            read(&mut open, &objects, random);
            if step == when {
                let mut random = random.fork();
                must_be_well(fork(random.bool(), &mut || live(&mut open, &objects, &mut random)));
            }
        }
    });
    Ok(())
}

/// What a handler needs to know of the thread that it interrupts.
#[derive(Debug, Default)]
struct Interrupted {
    id: AtomicU64,
    /// Sections that are surely open.
    open: AtomicUsize,
    /// In a child that a handler forked on this thread: the grace period that was asked for then, and how many of the thread's oldest sections
    /// it has to wait for. Zero: in no such child.
    cookie: AtomicU64,
    must_wait_for: AtomicUsize,
}

fn forked_by_handlers(seed: u64) -> Outcome {
    const THREADS: usize = 3;
    may_watch((seed / 5).is_multiple_of(2));
    let threads: [Interrupted; THREADS] = Default::default();
    let forks = Cell::new(0);
    let handler = || {
        let id = thread::id();
        let Some(own) = threads.iter().find(|thread| thread.id.load(Ordering::Relaxed) == id) else { return };
        drop(rcu::read());
        forks.set(forks.get() + 1);
        if forks.get() > 2 || own.cookie.load(Ordering::Relaxed) != 0 {
            return;
        }
        let is_inside = forks.get() == 2;
        let guard = is_inside.then(rcu::read);
        match fork_on(seed.is_multiple_of(2)) {
            Some(child) => must_be_well(child),
            None => {
                let cookie = rcu::start();
                let open = own.open.load(Ordering::Relaxed);
                own.must_wait_for.store(open, Ordering::Relaxed);
                own.cookie.store(cookie.0, Ordering::Relaxed);
                drop(rcu::read());
                assert!(!(rcu::is_over(cookie) && (open > 0 || is_inside)), "a grace period ended in its child");
            }
        }
        drop(guard);
    };
    crowd(THREADS, seed, Some(&handler), &|number, random| {
        let own = &threads[number];
        own.id.store(thread::id(), Ordering::SeqCst);
        let mut open = Vec::new();
        for _ in 0..30 {
            if number == 0 && open.is_empty() && random.bool() {
                rcu::synchronize();
            } else if random.bool() && open.len() < 3 {
                open.push(rcu::read());
                own.open.store(open.len(), Ordering::SeqCst);
            } else if !open.is_empty() {
                own.open.store(open.len() - 1, Ordering::SeqCst);
                own.must_wait_for.store(own.must_wait_for.load(Ordering::SeqCst).min(open.len() - 1), Ordering::SeqCst);
                open.pop();
            }
            if !open.is_empty() && random.u8(..3) == 0 {
                // Who asks in a section drives grace periods, too, and a handler may fork on top of that.
                assert!(!rcu::is_over(rcu::start()), "a grace period ended in a section that asked for it");
            }
            let cookie = own.cookie.load(Ordering::SeqCst);
            if cookie != 0 && own.must_wait_for.load(Ordering::SeqCst) > 0 {
                assert!(!rcu::is_over(Cookie(cookie)), "a grace period ended in a handler's child");
            }
            if cookie != 0 && !open.is_empty() {
                let younger = rcu::start();
                assert!(!rcu::is_over(younger), "a grace period of an open section ended in its child");
            }
        }
        // Another thread may get the id.
        own.id.store(0, Ordering::SeqCst);
        drop(open);
        let cookie = own.cookie.load(Ordering::SeqCst);
        if cookie != 0 {
            must_end(Cookie(cookie)).expect("in a handler's child");
            must_end(rcu::start()).expect("in a handler's child, another one");
        }
    });
    Ok(())
}
