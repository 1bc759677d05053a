//! One update: of a counter that the thread owns, of one that it does not own, and of an upgraded one; against words
//! that are added to plainly or atomically, and with the path told instead of chosen.
//!
//! Sixteen updates stand in a row, for every arm alike; and words that are compared lie alike: some processors write
//! two words of a line at a time, so that words that lie close together are not compared with counters that do not.

use super::word::{
    Atomic, Called, Calls, Checked, CheckedSet, IN_TURN, Plain, Spaced, Striped, Told, Word, add_if_unchanged,
};
use crate::Threads;
use crate::threads::Meeting;
use crate::timing::{self, long_or_short, sixteen_times, task_floor_ns};
use commensal_runtime::counter::{CounterSet, LazyCounter, PerCpuSet};
use core::array;
use core::hint::black_box;
use core::ptr::null_mut;
use machine::clock::{IS_STEADY, now_ns};
use machine::sync::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

/// Counters that somebody else owns. Each is added to so seldom that it is not upgraded.
const OTHERS: usize = 64;
const ADDITIONS_EACH: u32 = 32;
const ROUNDS_OF_OTHERS: u64 = long_or_short(150, 5);
/// Times sixteen additions, between two looks at the clock.
const CHUNK: u32 = 64;
/// The same for counters with cells, of which each 512th addition restocks one: where a round may be no longer than
/// what is between two looks, it has to have some of these.
const CHUNK_OF_CELLS: u32 = if IS_STEADY { 4 * CHUNK } else { CHUNK };

words! {
    /// What is updated, and how.
    pub enum Updates {
        /// A word by its only thread: what a single-threaded program would do.
        Plain = "plain",
        /// Likewise, after a look at the word beside it: the least that a counter does which has a state.
        Checked = "checked",
        /// A word by an atomic addition.
        Atomic = "atomic",
        /// One of sixteen words, by whichever thread: each of these has one that it shares with others.
        Striped = "striped",
        /// A counter that has its cells from the beginning.
        PerCpu = "per-cpu",
        /// A lazy counter by `add`, which finds out whose it is.
        Lazy = "lazy",
        /// A lazy counter by a caller who says whether it is the owner.
        Told = "told",
    }
}

words! {
    /// Which of its counters a thread updates.
    pub enum Turns {
        /// One, so that each update waits for the one before.
        One = "one",
        /// `IN_TURN`, each a counter of its own.
        Apart = "apart",
        /// As many of one set, so that the words that are added to lie side by side.
        InSet = "in-set",
    }
}

/// Nanoseconds of an update by the owner. None: a sum was wrong.
pub fn add_own_ns(updates: Updates, turns: Turns) -> Option<f64> {
    let is_set = turns == Turns::InSet;
    match updates {
        Updates::Plain if is_set => own_ns(turns, Plain::default),
        Updates::Plain => own_ns(turns, Spaced::<Plain>::default),
        Updates::Checked if is_set => {
            let CheckedSet { state, words } = &CheckedSet::default();
            row_ns(turns, |at| add_if_unchanged(state, &words[at], 1), |at| words[at].sum())
        }
        Updates::Checked => own_ns(turns, Checked::default),
        Updates::Atomic if is_set => own_ns(turns, Atomic::default),
        Updates::Atomic => own_ns(turns, Spaced::<Atomic>::default),
        Updates::Striped => own_ns(turns, Striped::default),
        Updates::PerCpu if is_set => {
            let set = PerCpuSet::<IN_TURN>::new().ok()?;
            row_ns(turns, |at| set.add(at, 1), |at| set.sum(at))
        }
        Updates::PerCpu => own_ns(turns, per_cpu),
        Updates::Lazy if is_set => {
            let set = CounterSet::<IN_TURN>::bound();
            row_ns(turns, |at| set.add(at, 1), |at| set.sum(at))
        }
        Updates::Lazy => own_ns(turns, LazyCounter::bound),
        Updates::Told if is_set => {
            let set = CounterSet::<IN_TURN>::bound();
            // SAFETY: the thread that made it adds.
            row_ns(turns, |at| unsafe { set.add_local(at, 1) }, |at| set.sum(at))
        }
        Updates::Told => own_ns(turns, told_own),
    }
}

fn per_cpu() -> PerCpuSet<1> {
    PerCpuSet::new().expect("no memory for a per-CPU counter")
}

fn told_own() -> Told<true> {
    Told(LazyCounter::bound())
}

fn called(calls: Calls) -> Called {
    Called { calls, words: Default::default() }
}

fn own_ns<W: Word>(turns: Turns, new: impl Fn() -> W) -> Option<f64> {
    let words: [W; IN_TURN] = array::from_fn(|_| new());
    row_ns(turns, |at| words[at].add(1), |at| words[at].sum())
}

/// [`IN_TURN`] words in turn, or the first one each time.
fn row_ns(turns: Turns, add: impl Fn(usize), sum: impl Fn(usize) -> i64) -> Option<f64> {
    fn sixteen_ns<const ALL: bool>(add: impl Fn(usize), done: &mut i64) -> f64 {
        task_floor_ns(|| {
            *done += IN_TURN as i64;
            let add = black_box(&add);
            sixteen_times!(|at| add(if ALL { at } else { 0 }));
        })
    }
    let mut done = 0;
    let time = match turns {
        Turns::One => sixteen_ns::<false>(add, &mut done),
        Turns::Apart | Turns::InSet => sixteen_ns::<true>(add, &mut done),
    };
    ((0..IN_TURN).map(sum).sum::<i64>() == done).then_some(time / IN_TURN as f64)
}

/// Nanoseconds of an update through a call, by the counter's owner. None: the sum was wrong.
pub fn add_called_ns(calls: Calls) -> Option<f64> {
    own_ns(Turns::One, || called(calls))
}

/// Nanoseconds of an update of a counter that another thread owns and that is not upgraded. None for a plain word, to
/// which nobody else may add; or a sum was wrong, or there is no memory.
pub fn add_others_ns(updates: Updates, threads: &dyn Threads) -> Option<f64> {
    match updates {
        Updates::Plain | Updates::Checked => None,
        Updates::Atomic => others_ns(Atomic::default, threads),
        Updates::Striped => others_ns(Striped::default, threads),
        Updates::PerCpu => others_ns(per_cpu, threads),
        Updates::Lazy => others_ns(LazyCounter::bound, threads),
        Updates::Told => others_ns(|| Told::<false>(LazyCounter::bound()), threads),
    }
}

/// Two threads at the same time, one of which makes the counters anew before each round of the other.
fn others_ns<W: Word>(new: impl Fn() -> W + Sync, threads: &dyn Threads) -> Option<f64> {
    let (best, are_right) = (AtomicU64::new(u64::MAX), AtomicBool::new(true));
    let (turn, table) = (Meeting::of(2), AtomicPtr::<[W; OTHERS]>::new(null_mut()));
    let own = || {
        let words: [W; OTHERS] = array::from_fn(|_| new());
        table.store((&raw const words).cast_mut(), Ordering::Relaxed);
        turn.wait();
        // The other thread adds.
        turn.wait();
    };
    let add = || {
        turn.wait();
        // SAFETY: the owner's words, which stay until the next meeting; it filled them before the last one.
        let words = unsafe { &*table.load(Ordering::Relaxed) };
        let start = now_ns();
        for word in black_box(words) {
            (0..ADDITIONS_EACH / 16).for_each(|_| sixteen_times!(|at| word.add(1)));
        }
        best.fetch_min(now_ns() - start, Ordering::Relaxed);
        if words.iter().any(|word| word.sum() != i64::from(ADDITIONS_EACH)) {
            are_right.store(false, Ordering::Relaxed);
        }
        turn.wait();
    };
    threads.run(2, &|number| {
        (0..ROUNDS_OF_OTHERS).for_each(|_| if number == 0 { own() } else { add() });
    });
    are_right.into_inner().then(|| best.into_inner() as f64 / (OTHERS as f64 * f64::from(ADDITIONS_EACH)))
}

/// Nanoseconds of an update of a shared counter by each of so many threads at once. None for a plain word, to which
/// only one may add; or a sum was wrong.
pub fn add_upgraded_ns(updates: Updates, threads: (u32, &dyn Threads)) -> Option<f64> {
    match updates {
        Updates::Plain | Updates::Checked => None,
        Updates::Atomic => together_ns(&Atomic::default(), threads, CHUNK),
        Updates::Striped => together_ns(&Striped::default(), threads, CHUNK),
        Updates::PerCpu => together_ns(&PerCpuSet::<1>::new().ok()?, threads, CHUNK_OF_CELLS),
        Updates::Lazy => together_ns(&LazyCounter::new(), threads, CHUNK_OF_CELLS),
        Updates::Told => together_ns(&told_own(), threads, CHUNK_OF_CELLS),
    }
}

/// The same through a call, of a counter that is shared.
pub fn add_called_upgraded_ns(calls: Calls, threads: (u32, &dyn Threads)) -> Option<f64> {
    together_ns(&called(calls), threads, CHUNK_OF_CELLS)
}

fn together_ns(word: &impl Word, threads: (u32, &dyn Threads), chunk: u32) -> Option<f64> {
    word.share()?;
    let batch = || {
        sixteen_times!(|at| black_box(word).add(1));
        Some(16)
    };
    let (time, added) = timing::together_ns(threads, chunk, batch)?;
    (word.sum() as u64 == added).then_some(time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::threads::OfStd;

    /// Each looks at its sums at the end.
    #[test]
    fn update_arms_all_count_right() {
        let is_time = |time: Option<f64>| time.is_some_and(|time| time > 0.0);
        for updates in Updates::ALL {
            for turns in Turns::ALL {
                assert!(is_time(add_own_ns(updates, turns)), "{updates:?}, {turns:?}");
            }
            let others = [
                add_others_ns(updates, &OfStd),
                add_upgraded_ns(updates, (1, &OfStd)),
                add_upgraded_ns(updates, (2, &OfStd)),
            ];
            // A plain word would lose what two threads add.
            let is_shared = !matches!(updates, Updates::Plain | Updates::Checked);
            assert!(others.into_iter().all(|time| is_time(time) == is_shared), "{updates:?}: {others:?}");
        }
    }

    /// Loses what is added to it.
    struct Lossy;

    impl Word for Lossy {
        fn add(&self, _: i64) {}

        fn sum(&self) -> i64 {
            -1
        }
    }

    #[test]
    fn words_that_count_wrong_have_no_figures() {
        assert_eq!(Turns::ALL.map(|turns| own_ns(turns, || Lossy)), [None; 3]);
        assert_eq!((others_ns(|| Lossy, &OfStd), together_ns(&Lossy, (2, &OfStd), CHUNK)), (None, None));
    }

    /// Otherwise the row would tell what an upgraded one costs.
    #[test]
    fn others_counters_are_not_upgraded_by_so_few_additions() {
        let (counter, is_shared) = (LazyCounter::bound(), AtomicBool::new(true));
        OfStd.run(1, &|_| {
            (0..ADDITIONS_EACH).for_each(|_| counter.add(1));
            is_shared.store(counter.is_shared(), Ordering::Relaxed);
        });
        assert!(!is_shared.into_inner());
        OfStd.run(1, &|_| (0..2000).for_each(|_| counter.add(1)));
        assert!(counter.is_shared(), "by more it is");
    }
}
