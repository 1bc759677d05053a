//! Typesafe caches: what a section has found stays an object of its type, whoever frees it, uses it again, trims the cache,
//! waits for it to be empty, or forks.

use crate::forks::must_be_well;
use crate::heaps::crowd;
use crate::protocol::{BOTH, protocols};
use commensal_runtime::heap;
use commensal_runtime::rcu::{self, Link, ReadGuard, TypesafeCache};
use fastrand::Rng;
use machine::kick;
use machine::simulation::explore::Outcome;
use machine::simulation::{Rates, fork};
use machine::slot::{self, Mode};
use machine::sync::{AtomicU64, Ordering};
use std::cell::Cell;

protocols! {
    "typesafe":
        "objects that are found, freed, used again and trimmed at the same time, also in a child, and memory that becomes something else as soon as it may",
        found, Rates { signal: 60, ..Rates::USUAL }, BOTH
            => by_ids RestartIsFence, by_ids SectionsGoOn, in_fallback ChangesTear;
}

const READERS: usize = 2;
const UPDATERS: usize = 2;
/// Those who wait until what was given up is gone.
const SWEEPERS: usize = 2;
const MAGIC: u64 = 0x600d_0b1e_c700_0001;
const OTHER: u64 = 0x5555_5555_5555_5555;
/// So large that a span has few of them, and is given up soon.
const BYTES: usize = 20_000;

/// Says whether it is one.
#[repr(C)]
struct Object {
    magic: AtomicU64,
    /// Changes with each use.
    user: AtomicU64,
    rest: [u64; BYTES / 8 - 2],
}

#[derive(Debug, Default)]
struct Counts {
    made: AtomicU64,
    dropped: AtomicU64,
}

thread_local! {
    /// Those of the simulation that runs here: constructors and destructors have nothing else.
    static COUNTS: Cell<*const Counts> = const { Cell::new(std::ptr::null()) };
}

fn counts() -> &'static Counts {
    // SAFETY: they outlive the cache.
    unsafe { &*COUNTS.get() }
}

impl Object {
    fn new() -> Self {
        counts().made.fetch_add(1, Ordering::Relaxed);
        Object { magic: AtomicU64::new(MAGIC), user: AtomicU64::new(0), rest: [0; BYTES / 8 - 2] }
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        assert_eq!(self.magic.swap(0, Ordering::Relaxed), MAGIC, "what is no object was dropped");
        counts().dropped.fetch_add(1, Ordering::Relaxed);
    }
}

/// Memory that the cache gave back, and others use.
fn write_elsewhere(random: &mut Rng) {
    let blocks: Vec<_> = (0..random.usize(1..4)).map(|_| heap::allocate(BYTES).cast::<AtomicU64>()).collect();
    for block in blocks {
        assert!(!block.is_null(), "there is memory");
        // SAFETY: ours.
        unsafe {
            (*block).store(OTHER, Ordering::Relaxed);
            heap::free(block.cast());
        }
    }
}

fn read(links: &[Link<'_, Object>], random: &mut Rng) {
    let section = rcu::read();
    let Some(object) = links[random.usize(..links.len())].load(&section) else { return };
    // Now and then longer than a grace period takes that does not wait for it.
    let looks = if random.u8(..4) == 0 { 300 } else { 10 };
    for _ in 0..random.usize(1..looks) {
        assert_eq!(object.magic.load(Ordering::Relaxed), MAGIC, "an object became something else in a section");
    }
}

fn update(cache: &TypesafeCache<Object>, links: &[Link<'_, Object>], random: &mut Rng) {
    let link = &links[random.usize(..links.len())];
    match random.u8(..8) {
        0..=2 => drop(link.swap(cache.get())),
        3 => drop(link.swap(None)),
        4 | 5 => _ = cache.shrink(),
        _ => {
            // One owner at a time.
            let several: Vec<_> = (0..random.usize(1..6)).map(|_| cache.get().expect("there is memory")).collect();
            let mine = random.u64(..);
            several.iter().for_each(|object| object.user.store(mine, Ordering::Relaxed));
            write_elsewhere(random);
            let is_mine = |object: &rcu::TypesafeBox<'_, Object>| object.user.load(Ordering::Relaxed) == mine;
            assert!(several.iter().all(is_mine), "an object has two owners");
        }
    }
}

fn found(seed: u64) -> Outcome {
    let ours = Counts::default();
    COUNTS.set(&ours);
    let cache = TypesafeCache::new("object", Object::new);
    let links = [const { None::<Link<'_, Object>> }; 2].map(|_| Link::new(&cache));
    let handler = || {
        // Signal handlers use no slots in fallback mode.
        if slot::mode() == Mode::ConcurrencyId {
            drop(links[0].swap(cache.get()));
        }
    };
    // What a child found before the fork stays until the section ends there, too.
    let live = |found: Option<*const Object>, section: Option<ReadGuard>, random: &mut Rng| {
        drop(links[0].swap(None));
        (0..6).for_each(|_| update(&cache, &links, random));
        // SAFETY: it stays while the section is open.
        let is_whole = found.is_none_or(|object| unsafe { (*object).magic.load(Ordering::Relaxed) } == MAGIC);
        drop(section);
        rcu::barrier();
        (0..6).for_each(|_| update(&cache, &links, random));
        if is_whole { Ok(()) } else { Err("an object became something else in a child's section") }
    };
    crowd(READERS + UPDATERS + SWEEPERS, seed, Some(&handler), &|thread, random| {
        let when = if thread == 0 { random.usize(..40) } else { usize::MAX };
        for step in 0..20 {
            if step == when {
                let (mut section, mut child_random) = (Some(rcu::read()), random.fork());
                let found = section.as_ref().and_then(|section| links[0].load(section)).map(std::ptr::from_ref);
                must_be_well(fork(random.bool(), &mut || live(found, section.take(), &mut child_random)));
            }
            if thread < READERS {
                read(&links, random);
            } else if thread < READERS + UPDATERS {
                update(&cache, &links, random);
            } else {
                rcu::barrier();
                write_elsewhere(random);
            }
        }
    });
    drop(links);
    let all_gone = || match [&ours.made, &ours.dropped].map(|count| count.load(Ordering::Relaxed)) {
        [made, dropped] if made == dropped => Ok(()),
        [made, dropped] => Err(format!("{made} objects were made, {dropped} dropped: memory stays behind")),
    };
    cache.shrink();
    if cache.alive() != 0 {
        return Err("objects are alive that nobody has".into());
    }
    // All is gone for each of those who wait for that at the same time, whoever frees it.
    crowd(SWEEPERS, seed, None, &|_, _| {
        rcu::barrier();
        // Where the machine refuses kicks, arrays of other slots keep what they have until the cache goes.
        if kick::register().is_ok() {
            assert_eq!(all_gone(), Ok(()));
        }
    });
    drop(cache);
    all_gone()?;
    Ok(())
}
