//! What is deferred: nothing goes in a section that could have found it, and everything goes in the end.

use crate::forks::crowd_with_a_child;
use crate::heaps::crowd;
use crate::protocol::{BOTH, NO_SIGNALS, protocols};
use commensal_runtime::heap;
use commensal_runtime::rcu::{self, Head};
use fastrand::Rng;
use machine::simulation::explore::Outcome;
use machine::simulation::{Rates, pause, sleep};
use machine::sync::{AtomicPtr, AtomicU64, Ordering};
use std::cell::Cell;
use std::ptr::null_mut;

protocols! {
    "deferred":
        "objects that are replaced, and then freed, called for or dropped by the runtime, with barriers, and handlers that defer",
        replaced, Rates { signal: 60, ..Rates::USUAL }, BOTH
            => by_ids KicksGetLost, by_ids SectionsGoOn, in_fallback ChangesTear;
    "worker": "a process that defers something now and then, and asks for nothing: all of it goes",
        left_alone, NO_SIGNALS, BOTH => in_fallback ChangesTear;
    "deferred forks":
        "forks while objects wait, are taken out and are freed: the child frees what waits, and not too early",
        forked, NO_SIGNALS, BOTH => by_ids NoWipe;
}

const READERS: usize = 2;
const UPDATERS: usize = 2;

/// What readers find: the contents say whether it is still what it was.
#[repr(C)]
struct Object {
    head: Head,
    stamp: AtomicU64,
}

/// So large that arrays hold few, and what was freed is used again soon.
const BYTES: usize = 20_000;

/// Counts of what the whole simulation does; one runs at a time.
#[derive(Debug, Default)]
struct Counts {
    stamps: AtomicU64,
    calls: AtomicU64,
    called: AtomicU64,
}

impl Counts {
    fn object(&self) -> *mut Object {
        let place = heap::allocate(BYTES).cast::<Object>();
        assert!(!place.is_null(), "there is memory");
        let stamp = self.stamps.fetch_add(1, Ordering::Relaxed) + 1;
        // SAFETY: ours.
        unsafe { place.write(Object { head: Head::new(), stamp: AtomicU64::new(stamp) }) };
        place
    }
}

thread_local! {
    /// Those of the simulation that runs here: a deferred call has only its head.
    static COUNTS: Cell<*const Counts> = const { Cell::new(std::ptr::null()) };
}

unsafe extern "C" fn free_it(head: *mut Head) {
    let object = head.cast::<Object>();
    // SAFETY: it was deferred, and is ours now. The counts outlive all calls, which barriers wait for.
    unsafe {
        (*object).stamp.store(0, Ordering::Relaxed);
        (*COUNTS.get()).called.fetch_add(1, Ordering::Relaxed);
        heap::free(object.cast());
    }
}

struct Dropped(*mut Object);

// SAFETY: whoever has it has the object to himself.
unsafe impl Send for Dropped {}

impl Drop for Dropped {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { free_it(self.0.cast()) };
    }
}

/// Small limits, so that segments change places, and nobody is held up in vain.
fn set_settings() {
    let set = [
        ("lazy_limit", 3),
        ("bulk", 2),
        ("batch_limit", 2),
        ("lazy_delay_ms", 1),
        ("high_mark", 12),
        ("hold_up_ms", 1),
    ];
    set.into_iter().for_each(|(name, value)| rcu::set_knob(name, value).expect("a value in range"));
}

fn defer(counts: &Counts, object: *mut Object, random: u8) {
    if !random.is_multiple_of(3) {
        counts.calls.fetch_add(1, Ordering::Relaxed);
    }
    // SAFETY: nobody finds it any more.
    unsafe {
        match random % 3 {
            0 => rcu::defer_free(object.cast()),
            1 => rcu::call(object.cast(), free_it),
            _ => rcu::defer_drop(Dropped(object)),
        }
    }
}

fn read(current: &AtomicPtr<Object>, random: &mut Rng) {
    let _section = rcu::read();
    let object = current.load(Ordering::Acquire);
    // SAFETY: it stays while the section is open.
    let stamp = unsafe { &(*object).stamp };
    let first = stamp.load(Ordering::Relaxed);
    // Now and then for longer than it takes others to free what waits for nobody.
    let looks = if random.u8(..3) == 0 { 300 } else { 20 };
    for _ in 0..random.usize(..looks) {
        assert_eq!(stamp.load(Ordering::Relaxed), first, "an object was used again in a section that found it");
    }
}

fn update(counts: &Counts, current: &AtomicPtr<Object>, random: &mut Rng) {
    let old = current.swap(counts.object(), Ordering::AcqRel);
    defer(counts, old, random.u8(..));
    // What was freed is used again.
    let others: Vec<_> = (0..random.usize(..4)).map(|_| counts.object()).collect();
    // SAFETY: ours.
    others.into_iter().for_each(|other| unsafe { heap::free(other.cast()) });
}

fn all_gone(counts: &Counts) -> Result<(), &'static str> {
    let (calls, called) = (counts.calls.load(Ordering::Relaxed), counts.called.load(Ordering::Relaxed));
    match (rcu::waiting(), calls == called) {
        (rcu::Waiting { objects: 0, bytes: 0, .. }, true) => Ok(()),
        (rcu::Waiting { objects: 0, bytes: 0, .. }, false) => Err("calls were not made, or made twice"),
        _ => Err("something waits after a barrier"),
    }
}

fn begin() -> Counts {
    set_settings();
    let counts = Counts::default();
    // Every process has allocated before it has a second thread.
    // SAFETY: ours.
    unsafe { heap::free(counts.object().cast()) };
    counts
}

fn replaced(seed: u64) -> Outcome {
    let counts = begin();
    COUNTS.set(&counts);
    let current = AtomicPtr::new(counts.object());
    let spare: AtomicPtr<Object> = AtomicPtr::new(null_mut());
    let handler = || {
        let taken = spare.swap(null_mut(), Ordering::Relaxed);
        if !taken.is_null() {
            defer(&counts, taken, 0);
        }
    };
    crowd(READERS + UPDATERS, seed, Some(&handler), &|thread, random| {
        for step in 0..12 {
            if thread < READERS {
                read(&current, random);
                continue;
            }
            update(&counts, &current, random);
            let stocked = spare.swap(counts.object(), Ordering::Relaxed);
            if !stocked.is_null() {
                defer(&counts, stocked, 1);
            }
            if step % 2 == 1 {
                rcu::barrier();
            }
        }
    });
    let last = [current, spare].map(|place| place.load(Ordering::Relaxed));
    last.into_iter().filter(|last| !last.is_null()).for_each(|last| defer(&counts, last, 1));
    // All is done for each of those who wait for that at the same time, whoever does it.
    crowd(UPDATERS, seed, None, &|_, _| {
        rcu::barrier();
        assert_eq!(all_gone(&counts), Ok(()));
    });
    Ok(())
}

fn left_alone(seed: u64) -> Outcome {
    /// Looks that the worker may take, a hundred of which last as long as its delay.
    const PATIENCE: usize = 3000;
    let counts = begin();
    COUNTS.set(&counts);
    crowd(2, seed, None, &|_, random| {
        for _ in 0..4 {
            for _ in 0..random.usize(1..3) {
                defer(&counts, counts.object(), random.u8(..));
            }
            // Until the worker is about to go to sleep, or does.
            while random.u8(..4) > 0 && rcu::waiting().objects > 0 {
                sleep(100_000);
            }
            (0..random.usize(..40)).for_each(|_| pause());
        }
    });
    let is_gone = (0..PATIENCE).any(|_| {
        sleep(10_000);
        pause();
        all_gone(&counts).is_ok()
    });
    if is_gone { Ok(()) } else { Err("what was deferred waits for ever".into()) }
}

fn forked(seed: u64) -> Outcome {
    let counts = begin();
    COUNTS.set(&counts);
    let current = AtomicPtr::new(counts.object());
    let step = |thread, _: &mut (), random: &mut Rng| {
        if thread < UPDATERS { update(&counts, &current, random) } else { read(&current, random) }
    };
    crowd_with_a_child((READERS + UPDATERS, 10), seed, &step, &|_, random| live(&counts, &current, random), &drop);
    defer(&counts, current.load(Ordering::Relaxed), 1);
    rcu::barrier();
    all_gone(&counts)?;
    Ok(())
}

/// What a child does: what others had in their hands is lost there, but nothing that waits is.
fn live(counts: &Counts, current: &AtomicPtr<Object>, random: &mut Rng) -> Result<(), &'static str> {
    let (calls, called) = (&counts.calls, &counts.called);
    let before = called.load(Ordering::Relaxed);
    let section = rcu::read();
    let waited = calls.load(Ordering::Relaxed) - before;
    let found = current.load(Ordering::Acquire);
    // SAFETY: it stays while the section is open.
    let stamp = unsafe { &(*found).stamp };
    let first = stamp.load(Ordering::Relaxed);
    for _ in 0..6 {
        update(counts, current, random);
        if stamp.load(Ordering::Relaxed) != first {
            return Err("an object was used again in a child's section");
        }
    }
    drop(section);
    rcu::barrier();
    let (made, deferred) = (called.load(Ordering::Relaxed) - before, calls.load(Ordering::Relaxed) - before);
    if rcu::waiting().objects != 0 {
        return Err("something waits in a child after a barrier");
    }
    if made > deferred || made < deferred - waited {
        return Err("calls were not made in a child, or made twice");
    }
    Ok(())
}
