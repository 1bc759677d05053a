//! Groups that make caches, and caches whose arrays are replaced, while a thread is busy on every other CPU: how often
//! others are interrupted for it.

use crate::Threads;
use crate::shared::{Array, Outcome};
use crate::timing::long_or_short;
use commensal_runtime::caches::{ObjectCache, Wanted};
use commensal_runtime::group::{Entry, Group};
use commensal_runtime::heap;
use commensal_runtime::upkeep;
use core::array;
use machine::clock::now_ns;
use machine::kick;
use machine::sync::{AtomicBool, AtomicU64, Ordering};

/// Objects of these sizes are each group's first: a cache for each. The document's groups had about as many.
const SIZES: [usize; 5] = [24, 100, 200, 500, 1000];
/// Each group's limit.
const LIMIT: u64 = 1 << 30;
/// Limits of a cache's arrays that alternate, and batches.
const TUNINGS: [(usize, usize); 2] = [(64, 32), (32, 16)];
/// One in so many groups comes again.
const WARM_PART: usize = 10;
/// What a busy thread does between two looks at whether it is to go on.
const BUSY_NS: u64 = long_or_short(2_000, 40_000);
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

/// How many interrupts of this kind the machine has counted.
pub type Interrupts<'a> = &'a (dyn Fn() -> u64 + Sync);

/// Kicks by this process, interrupts that all CPUs were sent, and nanoseconds: so far, or between two looks.
type Counts = [u64; 3];

fn count(interrupts: Interrupts<'_>) -> Counts {
    [kick::counts().0, interrupts(), now_ns()]
}

fn since(before: Counts, interrupts: Interrupts<'_>) -> Counts {
    let now = count(interrupts);
    array::from_fn(|at| now[at] - before[at])
}

/// Creates so many groups with a limit, enters each, and allocates first objects there; then destroys them all; and
/// does a part of it again. Meanwhile so many other threads are busy. None: no memory, or a kick was refused.
///
/// The figures of `among_busy` for creating, entering and first objects; nanoseconds of a first object, in the mean,
/// where its memory is touched for the first time, and in groups that come after others have gone; and seconds of
/// destroying everything.
pub fn groups(many: usize, kick: Kick, busy: (u32, &dyn Threads), interrupts: Interrupts<'_>) -> Option<[f64; 7]> {
    let ([kicks, sent, background, elapsed_s], [first_ns, warm_ns, teardown_s]) =
        among_busy(busy, interrupts, &|| (), || {
            let (counts, first_ns, teardown_s) = round(many, kick, interrupts)?;
            let (_, warm_ns, _) = round(many.div_ceil(WARM_PART), kick, interrupts)?;
            Some((counts, [first_ns, warm_ns, teardown_s]))
        })?;
    Some([kicks, sent, background, elapsed_s, first_ns, warm_ns, teardown_s])
}

fn round(many: usize, kick: Kick, interrupts: Interrupts<'_>) -> Option<(Counts, f64, f64)> {
    let mut places = Array::of(many, |_| None)?;
    let (before, mut first_ns) = (count(interrupts), 0);
    let all = places.iter_mut().try_for_each(|place| {
        let group = place.insert(Group::new("tenant").ok()?);
        group.set_limit(Some(LIMIT));
        first_ns += first_objects(group, kick)?;
        Some(())
    });
    let counts = since(before, interrupts);
    let start = now_ns();
    places.iter_mut().for_each(|place| drop(place.take()));
    let teardown_s = (now_ns() - start) as f64 / 1e9;
    all.map(|()| (counts, first_ns as f64 / (many * SIZES.len()) as f64, teardown_s))
}

/// Nanoseconds of the first object of each size, in a group that is entered for it. They are released with the group.
fn first_objects(group: &Group<'_>, kick: Kick) -> Option<u64> {
    let mut entry = Entry::new();
    // SAFETY: the entry stays here until it is left; the group outlives it, and so does nothing that is allocated
    // inside.
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

/// Replaces a cache's arrays so many times while each busy thread uses the cache: the figures of `among_busy`. None:
/// no memory, or a kick was refused.
pub fn replacements(many: usize, busy: (u32, &dyn Threads), interrupts: Interrupts<'_>) -> Option<[f64; 4]> {
    let cache = ObjectCache::create(&Wanted::plain(b"live", 64, 8)).ok()?;
    let use_it = || {
        let object = cache.allocate();
        if !object.is_null() {
            // SAFETY: it was allocated here.
            unsafe { cache.free(object) };
        }
    };
    let figures = among_busy(busy, interrupts, &use_it, || {
        let (before, mut tuning_ns) = (count(interrupts), 0);
        for at in 0..many {
            let (limit, batch) = TUNINGS[at % TUNINGS.len()];
            // So that all of them have arrays again.
            busy.1.busy(2 * BUSY_NS);
            let start = now_ns();
            cache.tune(limit, batch).ok()?;
            tuning_ns += now_ns() - start;
        }
        Some((since(before, interrupts), tuning_ns))
    });
    // SAFETY: the threads have ended.
    let is_gone = unsafe { cache.destroy() }.is_ok();
    let ([kicks, sent, background, _], tuning_ns) = figures.filter(|_| is_gone)?;
    Some([kicks, sent, background, tuning_ns as f64 / 1e9])
}

/// Does the work in one thread while the others are busy, and then as long as that nothing: so it is known what comes
/// by itself.
///
/// Kicks by this process, interrupts that all CPUs were sent for the work, as many as would have been sent without it,
/// and seconds.
fn among_busy<T: Send>(
    (busy, threads): (u32, &dyn Threads), interrupts: Interrupts<'_>, meanwhile: &(dyn Fn() + Sync),
    work: impl Fn() -> Option<(Counts, T)> + Sync,
) -> Option<([f64; 4], T)> {
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
        // What is set up at the first kick counts for nobody.
        let worked = kick::restart_all().ok().and_then(|()| work());
        let worked = worked.map(|([kicks, sent, elapsed_ns], figures)| {
            let before = count(interrupts);
            threads.busy(elapsed_ns.max(LEAST_BACKGROUND_NS));
            let [_, quiet, quiet_ns] = since(before, interrupts);
            let background = quiet as f64 * elapsed_ns as f64 / quiet_ns as f64;
            let own = (sent as f64 - background).max(0.0);
            ([kicks as f64, own, background, elapsed_ns as f64 / 1e9], figures)
        });
        is_over.store(true, Ordering::Relaxed);
        // SAFETY: this thread alone uses it before all have ended.
        unsafe { *outcome.place() = worked };
    });
    outcome.into_inner()
}
