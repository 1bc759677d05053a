//! Lazy counters as types: one, and a set of a known size.

use super::words::{Counters, Head, NOBODY};
use super::{DEFAULT_RANGE, LARGEST_RANGE, NoMemory, Reading};
use crate::percpu::{Area, CELL, LINES};
use core::cmp::Ordering as Order;
use core::mem::offset_of;
use core::ops::Deref;
use core::ptr::NonNull;
use machine::sync::{AtomicI64, AtomicU32};
use machine::thread;

/// A counter that costs its owner a plain addition, and becomes a per-CPU counter when other threads use it.
///
/// It begins as one word for its owner, the first thread that adds (or calls [`bound`](Self::bound)), and one word for
/// all other threads. It is *upgraded* when a caller announces a second sharer ([`share`](Self::share)), or when other
/// threads have added often enough: 1024 times, 64 once two threads ran at the same time, 16 once eight did. From then
/// on every thread adds to a line of its CPU. Creating and dropping a counter without upgrade touches only 32 bytes.
///
/// The thread pointer identifies a thread. In a function that continues in another thread, like a stackful coroutine,
/// the compiler may keep the old pointer. There call [`add_remote`](Self::add_remote), or [`share`](Self::share) first.
///
/// ```
/// use commensal::counter::LazyCounter;
///
/// static REQUESTS: LazyCounter = LazyCounter::new();
///
/// std::thread::scope(|scope| {
///     for _ in 0..4 {
///         scope.spawn(|| (0..1000).for_each(|_| REQUESTS.add(1)));
///     }
/// });
/// assert_eq!(REQUESTS.sum(), 4000);
/// ```
///
/// **Arithmetic** is modulo 2^64, and values are read as signed. **Signal handlers** may call everything; no addition
/// of the interrupted thread is lost. **After a fork** the child starts with the parent's value at the fork; the thread
/// that forked still owns what it owned. Processes cannot share counters.
///
/// Sources: the Linux kernel's lazy counters (G. K. Bertazi's series for `rss_stat`), and its `percpu_counter`.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct LazyCounter<const RANGE: i32 = DEFAULT_RANGE>(CounterSet<1, RANGE>);

const _: () = assert!(size_of::<LazyCounter>() == 32);

impl LazyCounter {
    /// Makes a counter of value 0 without an owner: the first thread that adds becomes it, by one atomic operation.
    #[inline]
    pub const fn new() -> Self {
        LazyCounter(CounterSet::new())
    }

    /// Makes a counter of value 0 that the calling thread owns.
    #[inline]
    pub fn bound() -> Self {
        LazyCounter(CounterSet::bound())
    }
}

impl<const RANGE: i32> LazyCounter<RANGE> {
    /// [`new`](LazyCounter::new) with another range, for counts in larger steps: even, up to 2^28. A larger range makes
    /// [`read`](Self::read) less exact, and fewer additions touch shared lines.
    #[inline]
    pub const fn with_range() -> Self {
        LazyCounter(CounterSet::with_range())
    }

    /// Adds `amount`: by a plain addition for the owner, atomically for other threads, and after the upgrade by one
    /// restartable addition in the CPU's line. The first thread that adds to a counter without an owner owns it.
    ///
    /// If there is no memory for the upgrade, the counter continues without it. When other threads' additions then
    /// exceed 2^30 in either direction, the program ends with a message. Every method that adds does so, except
    /// [`try_add`](Self::try_add) and [`limited_add`](Self::limited_add).
    #[inline(always)]
    pub fn add(&self, amount: i64) {
        self.0.add(0, amount);
    }

    #[doc(hidden)]
    #[inline(always)]
    pub fn add_any(&self, amount: i64) {
        self.0.add_any(0, amount);
    }

    /// Adds like [`add`](Self::add), a little slower, but returns an error where `add` ends the program.
    ///
    /// # Errors
    /// The additions of other threads would exceed 2^30, and the counter cannot be upgraded: there is no memory, or the
    /// kernel cannot wipe memory in forks (before Linux 4.14). The counter is unchanged.
    pub fn try_add(&self, amount: i64) -> Result<(), NoMemory> {
        self.0.try_add(0, amount)
    }

    #[inline]
    pub(crate) fn add_changes_reading(&self, amount: i64) -> bool {
        self.0.add_changes_reading(0, amount)
    }

    /// Subtracts `amount`, like [`add`](Self::add).
    #[inline(always)]
    pub fn sub(&self, amount: i64) {
        self.0.sub(0, amount);
    }

    /// Adds like [`add`](Self::add), without the owner check.
    ///
    /// # Safety
    /// The calling thread owns the counter, or the counter is upgraded.
    #[inline(always)]
    pub unsafe fn add_local(&self, amount: i64) {
        // SAFETY: passed on.
        unsafe { self.0.add_local(0, amount) }
    }

    /// Adds like [`add`](Self::add), for a thread that is probably not the owner. It skips the owner check, and does
    /// not make the thread the owner. The owner may call it too, but pays for an atomic operation.
    #[inline(always)]
    pub fn add_remote(&self, amount: i64) {
        self.0.add_remote(0, amount);
    }

    /// Upgrades the counter now, because several threads will add. Takes about a microsecond, and nothing if it is
    /// upgraded already.
    ///
    /// # Errors
    /// There is no memory. Later additions of other threads try again.
    pub fn share(&self) -> Result<(), NoMemory> {
        self.0.share()
    }

    /// [`share`](Self::share) with a block of the given area.
    pub(crate) fn share_in(&self, area: &'static Area) -> Result<(), NoMemory> {
        self.0.share_in(area, 0)
    }

    /// Returns whether the counter is upgraded.
    #[inline]
    pub fn is_shared(&self) -> bool {
        self.0.is_shared()
    }

    /// Makes the calling thread the owner of a counter that was handed over; an upgraded one is lazy again.
    pub fn rebind(&mut self) {
        self.0.rebind();
    }

    /// Returns the approximate sum of all additions. It is exact before the upgrade. After it, it is off by at most
    /// half the range (512 by default) for each slot in use, or by 0.1 % of the value, if that is more. Reads at most
    /// three lines, for any number of CPUs. As many as [`sum`](Self::sum) where threads own slots, and when the value
    /// fell a lot.
    pub fn read(&self) -> Reading {
        self.0.read(0)
    }

    /// Returns [`read`](Self::read), with values below 0 replaced by 0.
    pub fn read_positive(&self) -> Reading {
        self.0.read_positive(0)
    }

    /// Returns the exact sum of all additions, perhaps with concurrent ones. Takes time in proportion to the slots.
    pub fn sum(&self) -> i64 {
        self.0.sum(0)
    }

    /// Returns [`sum`](Self::sum), with values below 0 replaced by 0.
    pub fn sum_positive(&self) -> i64 {
        self.0.sum_positive(0)
    }

    /// Compares the counter with a value, by [`read`](Self::read) if that decides, else by [`sum`](Self::sum).
    pub fn compare(&self, with: i64) -> Order {
        self.0.compare(0, with)
    }

    /// Adds `amount` if the counter stays at or below `limit`, and returns whether it did. Also returns false if an
    /// upgrade is due and there is no memory for it. Amounts that are not positive are always added.
    ///
    /// Limited additions with one limit never bring the counter above it, and succeed while there is room.
    /// [`add`](Self::add) ignores limits. While it, or an addition with a larger limit, exceeds this limit, concurrent
    /// limited additions may use room that those made.
    ///
    /// Before the upgrade a limited addition is one atomic operation, also for the owner. After the upgrade, it is one
    /// restartable operation; within some thousands of the limit, a lock and an atomic operation. On the way there it
    /// kicks the process's other CPUs once.
    ///
    /// It may refuse too early, by up to the range for each slot: in a signal handler that interrupts another limited
    /// addition; where the kernel refuses kicks, if unlimited additions came before the first limited one; if in each
    /// of 64 attempts to collect what slots hold, some thread was in the middle of an addition.
    pub fn limited_add(&self, amount: i64, limit: i64) -> bool {
        self.0.limited_add(0, amount, limit)
    }

    /// Adds the difference between [`sum`](Self::sum) and `value`. Concurrent additions are kept, so the counter may
    /// then differ from `value`. Each of several concurrent calls adds its own difference.
    pub fn set(&self, value: i64) {
        self.0.set(0, value);
    }

    /// Subtracts [`sum`](Self::sum), and returns it. Concurrent additions stay for the thread's next call.
    pub fn reset(&self) -> i64 {
        self.0.reset(0)
    }
}

/// `N` lazy counters that are created, upgraded and destroyed together, with the methods of [`Counters`].
///
/// 16 + 12 `N` bytes, rounded up to 8: 64 for four.
#[derive(Debug)]
#[repr(C)]
pub struct CounterSet<const N: usize, const RANGE: i32 = DEFAULT_RANGE> {
    head: Head,
    local: [AtomicI64; N],
    remote: [AtomicU32; N],
}

const _: () = assert!(size_of::<CounterSet<4>>() == 64);
const _: () = assert!(offset_of!(CounterSet<4>, local) == size_of::<Head>());

impl<const N: usize, const RANGE: i32> Default for CounterSet<N, RANGE> {
    fn default() -> Self {
        Self::with_range()
    }
}

impl<const N: usize> CounterSet<N> {
    /// All zero, without an owner.
    #[inline]
    pub const fn new() -> Self {
        Self::with_state(NOBODY)
    }

    /// All zero, owned by the calling thread.
    #[inline]
    pub fn bound() -> Self {
        Self::with_state(thread::id())
    }
}

impl<const N: usize, const RANGE: i32> CounterSet<N, RANGE> {
    const FITS: () = assert!(N > 0 && N * CELL <= LINES * 64, "as many counters as a row has room for");
    const IN_RANGE: () = assert!(4 <= RANGE && RANGE <= LARGEST_RANGE && RANGE % 2 == 0, "an even range up to 2^28");

    /// [`new`](CounterSet::new) with another range: a reading is off by at most half of it for each slot, or by 0.1 %.
    #[inline]
    pub const fn with_range() -> Self {
        Self::with_state(NOBODY)
    }

    #[inline]
    const fn with_state(state: u64) -> Self {
        let ((), ()) = (Self::FITS, Self::IN_RANGE);
        CounterSet {
            head: Head::new(state, N),
            local: [const { AtomicI64::new(0) }; N],
            remote: [const { AtomicU32::new(0) }; N],
        }
    }

    /// Makes the calling thread the owner. See [`LazyCounter::rebind`].
    pub fn rebind(&mut self) {
        // SAFETY: the borrow is exclusive.
        unsafe { Counters::rebind(self) }
    }
}

impl<const N: usize, const RANGE: i32> Deref for CounterSet<N, RANGE> {
    type Target = Counters<RANGE>;

    #[inline(always)]
    fn deref(&self) -> &Counters<RANGE> {
        // SAFETY: `self` is a whole set.
        unsafe { Counters::of(NonNull::from(self).cast(), N) }
    }
}

impl<const N: usize, const RANGE: i32> Drop for CounterSet<N, RANGE> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the borrow is exclusive, and the last one.
        unsafe { self.end() }
    }
}
