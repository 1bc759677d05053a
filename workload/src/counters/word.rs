//! What is added to: plain and atomic words, lazy counters, counters behind C functions; one at a time, or [`IN_TURN`].

use commensal_runtime::counter::{LazyCounter, PerCpuSet};
use core::ffi::c_int;
use machine::sync::{AtomicI64, AtomicU64, Ordering};
use machine::thread;

/// Counters that are updated in turn, when they are more than one.
pub(super) const IN_TURN: usize = 16;

/// The memory of a counter behind C functions; zeroes are a new one.
type CalledWords = [AtomicI64; 4];

/// Counters behind C functions: those of a library, or of one that it is compared with.
#[derive(Clone, Copy, Debug)]
pub struct Calls {
    /// `cm_counter_add`.
    pub add: unsafe extern "C" fn(*mut CalledWords, i64),
    /// `cm_counter_share` announces a second sharer; 0, or there is no memory.
    pub share: unsafe extern "C" fn(*mut CalledWords) -> c_int,
    /// `cm_counter_sum`.
    pub sum: unsafe extern "C" fn(*const CalledWords) -> i64,
}

pub(super) trait Word: Sync {
    fn add(&self, amount: i64);
    fn sum(&self) -> i64;
    /// More than one thread will add.
    fn share(&self) -> Option<()> {
        Some(())
    }
}

#[derive(Default)]
pub(super) struct Plain(AtomicI64);

impl Word for Plain {
    /// One addition in memory, which the compiler neither merges with the next nor keeps in a register.
    #[inline(always)]
    fn add(&self, amount: i64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
    }

    fn sum(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Words of a striped counter.
const STRIPES: usize = 16;

/// A word in lines of its own, as some processors fetch two at a time.
#[derive(Default)]
#[repr(align(128))]
struct Stripe(Atomic);

/// A word that is divided: as libraries have it that know of no CPUs.
#[derive(Default)]
pub(super) struct Striped([Stripe; STRIPES]);

impl Word for Striped {
    #[inline(always)]
    fn add(&self, amount: i64) {
        if thread::identity() == 0 {
            thread::enter();
        }
        self.0[thread::identity() as usize % STRIPES].0.add(amount);
    }

    fn sum(&self) -> i64 {
        self.0.iter().map(|stripe| stripe.0.sum()).sum()
    }
}

#[derive(Default)]
pub(super) struct Atomic(AtomicI64);

impl Word for Atomic {
    #[inline(always)]
    fn add(&self, amount: i64) {
        self.0.fetch_add(amount, Ordering::Relaxed);
    }

    fn sum(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Default)]
#[repr(align(32))]
pub(super) struct Checked {
    state: AtomicU64,
    word: Plain,
}

#[derive(Default)]
pub(super) struct CheckedSet {
    pub(super) state: AtomicU64,
    pub(super) words: [Plain; IN_TURN],
}

#[inline(always)]
pub(super) fn add_if_unchanged(state: &AtomicU64, word: &Plain, amount: i64) {
    assert!(state.load(Ordering::Relaxed) == 0, "nobody changes the state");
    word.add(amount);
}

impl Word for Checked {
    #[inline(always)]
    fn add(&self, amount: i64) {
        add_if_unchanged(&self.state, &self.word, amount);
    }

    fn sum(&self) -> i64 {
        self.word.sum()
    }
}

impl Word for PerCpuSet<1> {
    #[inline(always)]
    fn add(&self, amount: i64) {
        PerCpuSet::add(self, 0, amount);
    }

    fn sum(&self) -> i64 {
        PerCpuSet::sum(self, 0)
    }
}

impl Word for LazyCounter {
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

/// Added to by a thread that knows whether it is the owner.
pub(super) struct Told<const IS_OWNER: bool>(pub(super) LazyCounter);

impl<const IS_OWNER: bool> Word for Told<IS_OWNER> {
    #[inline(always)]
    fn add(&self, amount: i64) {
        if IS_OWNER {
            // SAFETY: the thread that made it adds, or it is shared first.
            unsafe { self.0.add_local(amount) }
        } else {
            self.0.add_remote(amount);
        }
    }

    fn sum(&self) -> i64 {
        self.0.sum()
    }

    fn share(&self) -> Option<()> {
        self.0.share().ok()
    }
}

/// A word that takes as much room as a counter.
#[derive(Default)]
#[repr(align(32))]
pub(super) struct Spaced<W>(W);

const _: () = assert!(align_of::<Spaced<Plain>>() == size_of::<LazyCounter>());

impl<W: Word> Word for Spaced<W> {
    #[inline(always)]
    fn add(&self, amount: i64) {
        self.0.add(amount);
    }

    fn sum(&self) -> i64 {
        self.0.sum()
    }
}

/// A counter behind C functions. New ones are nobody's: the first thread that adds has it.
pub(super) struct Called {
    pub(super) calls: Calls,
    pub(super) words: CalledWords,
}

impl Called {
    #[inline(always)]
    fn place(&self) -> *mut CalledWords {
        (&raw const self.words).cast_mut()
    }
}

impl Word for Called {
    #[inline(always)]
    fn add(&self, amount: i64) {
        // SAFETY: the memory of a counter, which stays where it is.
        unsafe { (self.calls.add)(self.place(), amount) }
    }

    fn sum(&self) -> i64 {
        // SAFETY: as above.
        unsafe { (self.calls.sum)(self.place()) }
    }

    fn share(&self) -> Option<()> {
        // SAFETY: as above.
        (unsafe { (self.calls.share)(self.place()) } == 0).then_some(())
    }
}
