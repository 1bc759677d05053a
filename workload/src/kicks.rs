//! Groups that make caches, and caches whose arrays are replaced, while a thread is busy on every other CPU: how often others are interrupted for it.

use crate::Threads;
use crate::shared::{Array, Outcome};
use crate::timing::long_or_short;
use commensal::caches::{ObjectCache, Wanted};
use commensal::group::{Entry, Group};
use commensal::heap;
use commensal::upkeep;
use machine::clock::now_ns;
use machine::kick;
use machine::sync::{AtomicBool, AtomicU64, Ordering};

/// Objects of these sizes are each group's first: a cache for each. The document's groups had about as many.
pub const SIZES: [usize; 5] = [24, 100, 200, 500, 1000];
/// Each group's limit.
const LIMIT: u64 = 1 << 30;
/// Limits of a cache's arrays that alternate, and batches.
const TUNINGS: [(usize, usize); 2] = [(64, 32), (32, 16)];
/// One in so many groups comes again.
const WARM_PART: usize = 10;
/// What a busy thread does between two looks at whether it is to go on.
const BUSY_NS: u64 = long_or_short(2_000, 20_000);
/// Background is looked at for at least so long.
const LEAST_BACKGROUND_NS: u64 = long_or_short(20_000_000, 200_000);

words! {
    /// When others are kicked.
    pub enum Kick {
        /// Whenever a cache gets its first arrays, as if somebody might have seen others there.
        OnCreate = "kick-on-create",
        /// When arrays are replaced that somebody may use, as the runtime does it.
        OnReplaceOnly = "kick-on-replace-only",
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Happened {
    /// Kicks by this process.
    pub kicks: u64,
    /// Interrupts that all CPUs were sent.
    pub interrupts: u64,
    /// As many would have been without any of this.
    pub background: f64,
    /// How long it took.
    pub elapsed_ns: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Groups {
    /// Creating, entering and first objects.
    pub happened: Happened,
    /// A first object, in the mean, where its memory is touched for the first time.
    pub first_object_ns: f64,
    /// Likewise, of groups that come after others have gone.
    pub warm_first_object_ns: f64,
    /// Destroying all of them, and everything in them.
    pub teardown_ns: u64,
}

/// How many interrupts of this kind the machine has counted.
pub type Interrupts<'a> = &'a (dyn Fn() -> u64 + Sync);

/// Creates so many groups with a limit, enters each, and allocates first objects there; then destroys them all; and does a part of it again.
/// Meanwhile so many other threads are busy. None: no memory, or a kick was refused.
pub fn groups(many: usize, kick: Kick, busy: (u32, &dyn Threads), interrupts: Interrupts<'_>) -> Option<Groups> {
    let both = among_busy(busy, interrupts, &|| (), |watch| {
        let (cold, warm) = (round(many, kick, watch)?, round(many.div_ceil(WARM_PART), kick, watch)?);
        let warm_first_object_ns = warm.first_object_ns;
        Some((Groups { warm_first_object_ns, ..cold }, cold.happened))
    });
    both.map(|(figures, happened)| Groups { happened, ..figures })
}

fn round(many: usize, kick: Kick, watch: &Watch<'_>) -> Option<Groups> {
    let mut places = Array::of(many, |_| None)?;
    let (before, mut first_ns) = (watch.look(), 0);
    let all = places.iter_mut().try_for_each(|place| {
        let group = place.insert(Group::new("tenant").ok()?);
        group.set_limit(Some(LIMIT));
        first_ns += first_objects(group, kick)?;
        Some(())
    });
    let happened = watch.since(before);
    let start = now_ns();
    places.iter_mut().for_each(|place| drop(place.take()));
    let teardown_ns = now_ns() - start;
    let first_object_ns = first_ns as f64 / (many * SIZES.len()) as f64;
    all.map(|()| Groups { happened, first_object_ns, warm_first_object_ns: 0.0, teardown_ns })
}

/// Nanoseconds of the first object of each size, in a group that is entered for it. They are released with the group.
fn first_objects(group: &Group<'_>, kick: Kick) -> Option<u64> {
    let mut entry = Entry::new();
    // SAFETY: the entry stays here until it is left; the group outlives it, and so does nothing that is allocated inside.
    let is_inside = unsafe { Entry::enter(&raw mut entry, group.core()) };
    let start = now_ns();
    let all = SIZES.iter().all(|&bytes| {
        let object = heap::allocate(bytes);
        !object.is_null() && (kick == Kick::OnReplaceOnly || kick::restart_all().is_ok())
    });
    let elapsed = now_ns() - start;
    // SAFETY: it was entered here.
    let has_left = is_inside && unsafe { Entry::leave(&raw mut entry) }.is_ok();
    (all && has_left).then_some(elapsed)
}

/// Replaces a cache's arrays so many times while each busy thread uses the cache. None: no memory, or a kick was refused.
pub fn replacements(many: usize, busy: (u32, &dyn Threads), interrupts: Interrupts<'_>) -> Option<Happened> {
    let cache = ObjectCache::create(&Wanted::plain(b"live", 64, 8)).ok()?;
    let use_it = || {
        let object = cache.allocate();
        if !object.is_null() {
            // SAFETY: it was allocated here.
            unsafe { cache.free(object) };
        }
    };
    let happened = among_busy(busy, interrupts, &use_it, |watch| {
        let (before, mut tuning_ns) = (watch.look(), 0);
        for at in 0..many {
            let (limit, batch) = TUNINGS[at % TUNINGS.len()];
            // So that all of them have arrays again.
            busy.1.busy(2 * BUSY_NS);
            let start = now_ns();
            cache.tune(limit, batch).ok()?;
            tuning_ns += now_ns() - start;
        }
        Some((tuning_ns, watch.since(before)))
    });
    // SAFETY: the threads have ended.
    let is_gone = unsafe { cache.destroy() }.is_ok();
    happened.filter(|_| is_gone).map(|(tuning_ns, happened)| Happened { elapsed_ns: tuning_ns, ..happened })
}

struct Watch<'a> {
    interrupts: Interrupts<'a>,
}

#[derive(Clone, Copy)]
struct Moment {
    kicks: u64,
    interrupts: u64,
    at_ns: u64,
}

impl Watch<'_> {
    fn look(&self) -> Moment {
        Moment { kicks: kick::counts().0, interrupts: (self.interrupts)(), at_ns: now_ns() }
    }

    fn since(&self, before: Moment) -> Happened {
        let elapsed_ns = now_ns() - before.at_ns;
        let interrupts = (self.interrupts)() - before.interrupts;
        Happened { kicks: kick::counts().0 - before.kicks, interrupts, background: 0.0, elapsed_ns }
    }
}

/// Does the work in one thread while the others are busy, and then as long as that nothing: so it is known what comes by itself.
fn among_busy<T: Send>(
    (busy, threads): (u32, &dyn Threads), interrupts: Interrupts<'_>, meanwhile: &(dyn Fn() + Sync),
    work: impl Fn(&Watch<'_>) -> Option<(T, Happened)> + Sync,
) -> Option<(T, Happened)> {
    // What is counted is what is done here: upkeep has kicks of its own, for slots that rest.
    upkeep::set_knob("on", 0).ok()?;
    let (came, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let outcome = Outcome::new();
    threads.run(busy + 1, &|number| {
        if number > 0 {
            // The first time is before anything is counted.
            meanwhile();
            came.fetch_add(1, Ordering::Relaxed);
            while !is_over.load(Ordering::Relaxed) {
                threads.busy(BUSY_NS);
                meanwhile();
            }
            return;
        }
        while came.load(Ordering::Relaxed) < u64::from(busy) {
            threads.busy(BUSY_NS);
        }
        let watch = Watch { interrupts };
        // What is set up at the first kick counts for nobody.
        let worked = kick::restart_all().ok().and_then(|()| work(&watch));
        let worked = worked.map(|(figures, happened)| {
            let before = watch.look();
            let quiet_ns = happened.elapsed_ns.max(LEAST_BACKGROUND_NS);
            threads.busy(quiet_ns);
            let quiet = watch.since(before);
            let background = quiet.interrupts as f64 * happened.elapsed_ns as f64 / quiet.elapsed_ns as f64;
            (figures, Happened { background, ..happened })
        });
        is_over.store(true, Ordering::Relaxed);
        // SAFETY: this thread alone uses it before all have ended.
        unsafe { *outcome.place() = worked };
    });
    outcome.into_inner()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::threads::OfStd;

    const GROUPS: usize = 50;

    /// A machine whose interrupts are its kicks, and one more at each look.
    fn interrupts() -> u64 {
        static LOOKS: AtomicU64 = AtomicU64::new(0);
        kick::counts().0 + LOOKS.fetch_add(1, Ordering::Relaxed)
    }

    #[test]
    fn creating_kicks_nobody_unless_it_is_told_to() {
        const ALONE: &str = "COMMENSAL_TEST_ALONE";
        if std::env::var_os(ALONE).is_none() {
            let this = std::env::current_exe().expect("this program");
            let name = "kicks::tests::creating_kicks_nobody_unless_it_is_told_to";
            let child =
                std::process::Command::new(this).args(["--exact", name, "--nocapture"]).env(ALONE, "1").status();
            return assert!(child.expect("the test runs again").success());
        }
        let [on_create, on_replace] = Kick::ALL.map(|kick| groups(GROUPS, kick, (1, &OfStd), &interrupts).unwrap());
        assert_eq!((on_create.happened.kicks, on_replace.happened.kicks), ((GROUPS * SIZES.len()) as u64, 0));
        assert!(on_create.happened.interrupts >= on_create.happened.kicks, "{on_create:?}");
        assert_eq!(on_replace.happened.interrupts, 1);
        assert!(on_replace.happened.background > 0.0, "one is counted at each look, whatever happens");
        assert!(on_replace.first_object_ns > 0.0 && on_replace.warm_first_object_ns > 0.0);

        // As long as both threads are on one CPU they share its arrays, so this goes on until the scheduler has seen them.
        let kicks = || replacements(100 * GROUPS, (1, &OfStd), &interrupts).unwrap().kicks;
        assert!((0..100).any(|_| kicks() > 0), "the busy thread's arrays were in use");
        assert_eq!(replacements(GROUPS, (0, &OfStd), &interrupts).unwrap().kicks, 0, "nobody else has an array");
    }
}
