//! One lazy counter.

use super::{CounterSet, DEFAULT_RANGE, NoMemory, Reading};
use crate::percpu::Area;
use core::cmp::Ordering as Order;

/// A counter that costs its owner a plain addition, and becomes a per-CPU counter when others come.
///
/// It begins as one word for its owner, the first thread that adds (or calls [`bound`](Self::bound)), and one word for
/// all others. It is *upgraded* when a second sharer is announced ([`share`](Self::share)), or when other threads have
/// added often enough: 1024 times; 64 times once two threads ran at the same time, 16 times once eight did. From then
/// on every thread adds to a line of its CPU. Creating and dropping a counter that was not upgraded touches only its 32
/// bytes, on machines with any number of CPUs.
///
/// The thread pointer says which thread this is. In a function that continues in another thread, like a stackful
/// coroutine that moves, a compiler may keep the old one. There use [`add_remote`](Self::add_remote), or
/// [`share`](Self::share) first.
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
/// **Arithmetic** is modulo 2^64, and values are read as signed.
///
/// **Signal handlers** may call everything; a handler that interrupts an addition of its own thread loses none. **After
/// a fork** the child has the parent's value at the fork, and its own from then on; the thread that forked stays the
/// owner of what it owned. Counters in memory that processes share are not supported.
///
/// What it does follows the Linux kernel's lazy counters (G. K. Bertazi's series for `rss_stat`); the approximate
/// reading follows the kernel's `percpu_counter`.
#[derive(Debug)]
#[repr(transparent)]
pub struct LazyCounter<const RANGE: i32 = DEFAULT_RANGE>(CounterSet<1, RANGE>);

const _: () = assert!(size_of::<LazyCounter>() == 32);

impl LazyCounter {
    /// Zero, and nobody's: the first thread that adds becomes the owner, by one atomic operation.
    #[inline]
    pub const fn new() -> Self {
        LazyCounter(CounterSet::new())
    }

    /// Zero, and the calling thread's.
    #[inline]
    pub fn bound() -> Self {
        LazyCounter(CounterSet::bound())
    }
}

impl Default for LazyCounter {
    fn default() -> Self {
        Self::new()
    }
}

impl<const RANGE: i32> LazyCounter<RANGE> {
    /// [`new`](LazyCounter::new) with another range, for counts in larger steps: even, up to 2^28. With a larger range
    /// [`read`](Self::read) may be off by more, and fewer additions touch shared lines.
    #[inline]
    pub const fn with_range() -> Self {
        LazyCounter(CounterSet::with_range())
    }

    /// Adds. One plain addition for the owner, an atomic one for others; after the upgrade, one restartable addition in
    /// the CPU's line. The first thread that adds to a counter without an owner owns it.
    ///
    /// Without memory for the upgrade, the counter works on as it is. But when other threads' additions exceed 2^30 in
    /// either direction, the program ends with a message. So does every other method that adds, except
    /// [`try_add`](Self::try_add) and [`limited_add`](Self::limited_add).
    #[inline(always)]
    pub fn add(&self, amount: i64) {
        self.0.add(0, amount);
    }

    /// See [`CounterSet::add_any`].
    #[doc(hidden)]
    #[inline(always)]
    pub fn add_any(&self, amount: i64) {
        self.0.add_any(0, amount);
    }

    /// Adds, a little slower than [`add`](Self::add), or says why not.
    ///
    /// # Errors
    /// The additions of other threads would exceed 2^30, and the counter cannot be upgraded: there is no memory, or the
    /// kernel cannot wipe any in forks (before Linux 4.14). Nothing was added.
    pub fn try_add(&self, amount: i64) -> Result<(), NoMemory> {
        self.0.try_add(0, amount)
    }

    /// Subtracts.
    #[inline(always)]
    pub fn sub(&self, amount: i64) {
        self.0.sub(0, amount);
    }

    /// [`add`](Self::add) for a caller that knows that it is the owner: it spares a look at who is running.
    ///
    /// # Safety
    /// The calling thread owns the counter, or the counter is upgraded. Otherwise additions may be lost.
    #[inline(always)]
    pub unsafe fn add_local(&self, amount: i64) {
        // SAFETY: passed on.
        unsafe { self.0.add_local(0, amount) }
    }

    /// [`add`](Self::add) for a caller that is probably not the owner: skips the owner check. The owner may call it,
    /// too; it costs an atomic operation, and makes no thread the owner.
    #[inline(always)]
    pub fn add_remote(&self, amount: i64) {
        self.0.add_remote(0, amount);
    }

    /// Announces that several threads will add: upgrades the counter, if it is not. About a microsecond.
    ///
    /// # Errors
    /// There is no memory for it. The counter is as it was; the next remote additions try again.
    pub fn share(&self) -> Result<(), NoMemory> {
        self.0.share()
    }

    /// The same, into a block of a given area.
    #[doc(hidden)]
    pub fn share_in(&self, area: &'static Area) -> Result<(), NoMemory> {
        self.0.share_in(area, 0)
    }

    /// Whether the counter is upgraded.
    #[inline]
    pub fn is_shared(&self) -> bool {
        self.0.is_shared()
    }

    /// Makes the calling thread the owner, for a counter that was handed over. An upgraded counter returns its per-CPU
    /// memory and is as lazy as a new one; its value stays.
    pub fn rebind(&mut self) {
        self.0.rebind();
    }

    /// The sum of all additions, approximately. Exact before the upgrade; after it, off by at most half the range (512
    /// by default) for each slot in use. Reads at most three lines, whatever the number of CPUs. Equal to
    /// [`sum`](Self::sum) where threads own slots, and while [`limited_add`](Self::limited_add) collects what slots
    /// hold. Concurrent additions may be included or not.
    pub fn read(&self) -> Reading {
        self.0.read(0)
    }

    /// [`read`](Self::read), but values below zero are zero.
    pub fn read_positive(&self) -> Reading {
        self.0.read_positive(0)
    }

    /// The sum of all additions: exact, except that concurrent ones may be included or not. Takes time in proportion to
    /// the slots in which threads added.
    pub fn sum(&self) -> i64 {
        self.0.sum(0)
    }

    /// [`sum`](Self::sum), but values below zero are zero.
    pub fn sum_positive(&self) -> i64 {
        self.0.sum_positive(0)
    }

    /// How the counter compares with a value: by [`read`](Self::read) where that decides, else by [`sum`](Self::sum).
    pub fn compare(&self, with: i64) -> Order {
        self.0.compare(0, with)
    }

    /// Adds `amount` if the counter stays at or below `limit`, and returns whether it did. Also returns false if an
    /// upgrade is due and there is no memory for it. Always adds amounts that are not positive.
    ///
    /// However many threads try, limited additions with one limit never bring the counter above it, and none is refused
    /// while there is room. [`add`](Self::add) knows no limit: while it, or an addition with a larger limit, exceeds
    /// this one, concurrent limited additions may find room that those made. Before the upgrade it costs an atomic
    /// operation. After it, it costs one restartable operation while the limit is some thousands away, and a lock and
    /// an atomic operation near it. On the way there it kicks the process's other CPUs once, to collect what their
    /// slots hold in advance. The owner's limited additions are atomic, too, to the word of the others: an owner that
    /// adds 2^28 or more within limits, and subtracts it again, has the counter upgraded.
    ///
    /// It may refuse too early, by up to the range for each slot: in a signal handler that interrupts another limited
    /// addition; where the kernel refuses kicks, if unlimited additions came before the first limited one; and if in
    /// each of 64 attempts to collect what slots hold, some thread was in the middle of an addition.
    pub fn limited_add(&self, amount: i64, limit: i64) -> bool {
        self.0.limited_add(0, amount, limit)
    }

    /// Adds the difference between [`sum`](Self::sum) and `value`. So the counter is `value` unless other threads add
    /// meanwhile; their additions are kept. Each of several concurrent calls adds its own difference.
    pub fn set(&self, value: i64) {
        self.0.set(0, value);
    }

    /// Subtracts [`sum`](Self::sum), and returns it. Concurrent additions are kept for the next call, so nothing is
    /// lost between two calls by the same thread.
    pub fn reset(&self) -> i64 {
        self.0.reset(0)
    }
}
