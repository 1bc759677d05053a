//! One update: of a counter that the thread owns, of one that it does not own, and of an upgraded one; against words that are added to
//! plainly or atomically, and with the path told instead of chosen.
//!
//! Sixteen updates stand in a row, for every arm alike.

use crate::Threads;
use crate::threads::Meeting;
use crate::timing::{floor_ns, sixteen_times};
use commensal::counter::LazyCounter;
use core::array;
use core::hint::black_box;
use core::ptr::null_mut;
use machine::clock::now_ns;
use machine::sync::{AtomicBool, AtomicI64, AtomicPtr, AtomicU64, Ordering};

/// Counters that are updated in turn, when they are more than one.
pub const IN_TURN: usize = 16;
/// Counters that somebody else owns. Each is added to so seldom that it is not upgraded.
const OTHERS: usize = 64;
const ADDITIONS_EACH: u32 = 32;
const ROUNDS_OF_OTHERS: u32 = if cfg!(test) { 5 } else { 150 };
/// Of several threads at once.
const TOGETHER_NS: u64 = if cfg!(test) { 50_000 } else { 1_000_000 };
const ROUNDS_TOGETHER: u32 = 8;
const CHUNK: u32 = 64;

/// What is updated, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Updates {
    /// A word by its only thread: what a single-threaded program would do.
    Plain,
    /// A word by an atomic addition.
    Atomic,
    /// A lazy counter by `add`, which finds out whose it is.
    Lazy,
    /// A lazy counter by a caller who says whether it is the owner.
    Told,
}

impl Updates {
    /// All of them.
    pub const ALL: [Updates; 4] = [Updates::Plain, Updates::Atomic, Updates::Lazy, Updates::Told];

    /// What a command line calls it.
    pub const fn word(self) -> &'static str {
        match self {
            Updates::Plain => "plain",
            Updates::Atomic => "atomic",
            Updates::Lazy => "lazy",
            Updates::Told => "told",
        }
    }
}

/// What is added to.
trait Word: Sync + Send {
    fn new() -> Self;
    fn add(&self, amount: i64);
    fn sum(&self) -> i64;
    /// More than one thread will add.
    fn share(&self) -> Option<()> {
        Some(())
    }
}

struct Plain(AtomicI64);

impl Word for Plain {
    fn new() -> Self {
        Plain(AtomicI64::new(0))
    }

    /// One addition in memory, which the compiler neither merges with the next nor keeps in a register.
    #[inline(always)]
    fn add(&self, amount: i64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
    }

    fn sum(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

struct Atomic(AtomicI64);

impl Word for Atomic {
    fn new() -> Self {
        Atomic(AtomicI64::new(0))
    }

    #[inline(always)]
    fn add(&self, amount: i64) {
        self.0.fetch_add(amount, Ordering::Relaxed);
    }

    fn sum(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Word for LazyCounter {
    /// The calling thread's.
    fn new() -> Self {
        LazyCounter::bound()
    }

    #[inline(always)]
    fn add(&self, amount: i64) {
        LazyCounter::add(self, amount);
    }

    fn sum(&self) -> i64 {
        LazyCounter::sum(self)
    }

    fn share(&self) -> Option<()> {
        LazyCounter::share(self).ok()
    }
}

/// Added to by its owner, who knows that.
struct ToldOwn(LazyCounter);

impl Word for ToldOwn {
    fn new() -> Self {
        ToldOwn(LazyCounter::bound())
    }

    #[inline(always)]
    fn add(&self, amount: i64) {
        // SAFETY: the thread that made it adds, or it is shared first.
        unsafe { self.0.add_local(amount) }
    }

    fn sum(&self) -> i64 {
        self.0.sum()
    }

    fn share(&self) -> Option<()> {
        self.0.share().ok()
    }
}

/// Added to by others, who know that.
struct ToldOthers(LazyCounter);

impl Word for ToldOthers {
    fn new() -> Self {
        ToldOthers(LazyCounter::bound())
    }

    #[inline(always)]
    fn add(&self, amount: i64) {
        self.0.add_remote(amount);
    }

    fn sum(&self) -> i64 {
        self.0.sum()
    }

    fn share(&self) -> Option<()> {
        self.0.share().ok()
    }
}

/// Nanoseconds of an update by the owner: of one counter, each waiting for the one before, or of [`IN_TURN`] in turn. None: a sum was wrong.
pub fn add_own_ns(updates: Updates, in_turn: bool) -> Option<f64> {
    match updates {
        Updates::Plain => own_ns::<Plain>(in_turn),
        Updates::Atomic => own_ns::<Atomic>(in_turn),
        Updates::Lazy => own_ns::<LazyCounter>(in_turn),
        Updates::Told => own_ns::<ToldOwn>(in_turn),
    }
}

fn own_ns<W: Word>(in_turn: bool) -> Option<f64> {
    let words: [W; IN_TURN] = array::from_fn(|_| W::new());
    let mut done = 0;
    let time = floor_ns(|tasks| {
        done += i64::from(tasks) * IN_TURN as i64;
        for _ in 0..tasks {
            let words = black_box(&words);
            if in_turn {
                sixteen_times!(|at| words[at].add(1));
            } else {
                sixteen_times!(|at| words[0].add(1));
            }
        }
        Some(())
    });
    let sum: i64 = words.iter().map(W::sum).sum();
    time.filter(|_| sum == done).map(|time| time / IN_TURN as f64)
}

/// Nanoseconds of an update of a counter that another thread owns and that is not upgraded. None for a plain word, to which nobody else
/// may add; or a sum was wrong.
pub fn add_others_ns(updates: Updates, threads: &dyn Threads) -> Option<f64> {
    match updates {
        Updates::Plain => None,
        Updates::Atomic => others_ns::<Atomic>(threads),
        Updates::Lazy => others_ns::<LazyCounter>(threads),
        Updates::Told => others_ns::<ToldOthers>(threads),
    }
}

/// Two threads at the same time, one of which makes the counters anew before each round of the other.
fn others_ns<W: Word>(threads: &dyn Threads) -> Option<f64> {
    let (best, are_right) = (AtomicU64::new(u64::MAX), AtomicBool::new(true));
    let (turn, table) = (Meeting::of(2), AtomicPtr::<[W; OTHERS]>::new(null_mut()));
    let own = || {
        let words: [W; OTHERS] = array::from_fn(|_| W::new());
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

/// Nanoseconds of an update of a shared counter by each of so many threads at once. None for a plain word, to which only one may add; or
/// a sum was wrong.
pub fn add_upgraded_ns(updates: Updates, threads: (u32, &dyn Threads)) -> Option<f64> {
    match updates {
        Updates::Plain => None,
        Updates::Atomic => together_ns::<Atomic>(threads),
        Updates::Lazy => together_ns::<LazyCounter>(threads),
        Updates::Told => together_ns::<ToldOwn>(threads),
    }
}

/// The best of some rounds, each the mean over the threads: a thread that was alone in a round has another that was disturbed.
fn together_ns<W: Word>((count, threads): (u32, &dyn Threads)) -> Option<f64> {
    let word = W::new();
    word.share()?;
    let start = Meeting::of(count);
    let [times, done] = [const { [const { AtomicU64::new(0) }; ROUNDS_TOGETHER as usize] }; 2];
    threads.run(count, &|_| {
        for (time, done) in times.iter().zip(&done) {
            start.wait();
            let (begin, mut adds) = (now_ns(), 0u64);
            let elapsed = loop {
                (0..CHUNK).for_each(|_| sixteen_times!(|at| black_box(&word).add(1)));
                adds += u64::from(CHUNK) * 16;
                let elapsed = now_ns() - begin;
                if elapsed >= TOGETHER_NS {
                    break elapsed;
                }
            };
            time.fetch_add(elapsed * 1_000_000 / adds, Ordering::Relaxed);
            done.fetch_add(adds, Ordering::Relaxed);
        }
    });
    let added: u64 = done.iter().map(|done| done.load(Ordering::Relaxed)).sum();
    let best = times.iter().map(|time| time.load(Ordering::Relaxed)).min()?;
    (word.sum() as u64 == added).then_some(best as f64 / 1e6 / f64::from(count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::threads::OfStd;

    /// Each looks at its sums at the end.
    #[test]
    fn every_arm_counts_right() {
        let is_time = |time: Option<f64>| time.is_some_and(|time| time > 0.0);
        for updates in Updates::ALL {
            assert!(is_time(add_own_ns(updates, false)) && is_time(add_own_ns(updates, true)), "{updates:?}");
            let others = [
                add_others_ns(updates, &OfStd),
                add_upgraded_ns(updates, (1, &OfStd)),
                add_upgraded_ns(updates, (2, &OfStd)),
            ];
            // A plain word would lose what two threads add.
            assert!(
                others.into_iter().all(|time| is_time(time) == (updates != Updates::Plain)),
                "{updates:?}: {others:?}"
            );
        }
    }

    /// Loses what is added to it.
    struct Lossy;

    impl Word for Lossy {
        fn new() -> Self {
            Lossy
        }

        fn add(&self, _: i64) {}

        fn sum(&self) -> i64 {
            -1
        }
    }

    #[test]
    fn what_counts_wrong_has_no_figures() {
        assert_eq!((own_ns::<Lossy>(false), own_ns::<Lossy>(true)), (None, None));
        assert_eq!((others_ns::<Lossy>(&OfStd), together_ns::<Lossy>((2, &OfStd))), (None, None));
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
