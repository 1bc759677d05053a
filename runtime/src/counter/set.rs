//! Sets of lazy counters of a known size.

use super::words::{Amount, Counters, Head, NOBODY};
use super::{DEFAULT_RANGE, LARGEST_RANGE, NoMemory, Reading};
use crate::percpu::{Area, CELL, LINES};
use core::cmp::Ordering as Order;
use core::mem::offset_of;
use core::ptr::NonNull;
use machine::sync::{AtomicI64, AtomicU32};
use machine::thread;

/// `N` lazy counters that are created, upgraded and destroyed together. See [`LazyCounter`](super::LazyCounter).
///
/// 16 + 12 `N` bytes, rounded up to 8: 64 for four. Panics if an index is not below `N`.
#[derive(Debug)]
#[repr(C)]
pub struct CounterSet<const N: usize, const RANGE: i32 = DEFAULT_RANGE> {
    head: Head,
    local: [AtomicI64; N],
    remote: [AtomicU32; N],
}

const _: () = assert!(size_of::<CounterSet<4>>() == 64);

const _: () = assert!(offset_of!(CounterSet<4>, local) == size_of::<Head>());

impl<const N: usize> Default for CounterSet<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize> CounterSet<N> {
    /// All zero, without an owner: the first thread that adds becomes the owner, by one atomic operation.
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

    /// [`new`](CounterSet::new) with another range: a reading is off by at most half of it for each slot.
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

    /// The set without its size in the type.
    #[inline(always)]
    pub fn all(&self) -> Counters<'_, RANGE> {
        // SAFETY: `self` is a whole set.
        unsafe { Counters::of(NonNull::from(self).cast()) }
    }

    /// Adds to a counter. See [`LazyCounter::add`](super::LazyCounter::add).
    #[inline(always)]
    pub fn add(&self, index: usize, amount: i64) {
        self.add_some(index, if amount == 1 { Amount::One } else { Amount::Any(amount) });
    }

    /// [`add`](Self::add) for an amount that the compiler does not know: skips a test for 1.
    #[doc(hidden)]
    #[inline(always)]
    pub fn add_any(&self, index: usize, amount: i64) {
        self.add_some(index, Amount::Any(amount));
    }

    #[inline(always)]
    fn add_some(&self, index: usize, amount: Amount) {
        assert!(index < N, "no counter of this index");
        // SAFETY: asserted.
        unsafe { self.all().add_in_range(index, amount) }
    }

    /// Adds to a counter, or fails. See [`LazyCounter::try_add`](super::LazyCounter::try_add).
    pub fn try_add(&self, index: usize, amount: i64) -> Result<(), NoMemory> {
        assert!(index < N, "no counter of this index");
        // SAFETY: asserted.
        unsafe { self.all().try_add_in_range(index, amount) }
    }

    /// Subtracts from a counter.
    #[inline(always)]
    pub fn sub(&self, index: usize, amount: i64) {
        self.add(index, amount.wrapping_neg());
    }

    /// [`LazyCounter::add_local`](super::LazyCounter::add_local) for a counter of the set.
    #[inline(always)]
    pub unsafe fn add_local(&self, index: usize, amount: i64) {
        assert!(index < N, "no counter of this index");
        // SAFETY: asserted, and passed on.
        unsafe { self.all().add_local_in_range(index, amount) }
    }

    /// [`LazyCounter::add_remote`](super::LazyCounter::add_remote) for a counter of the set.
    #[inline(always)]
    pub fn add_remote(&self, index: usize, amount: i64) {
        assert!(index < N, "no counter of this index");
        // SAFETY: asserted.
        unsafe { self.all().add_remote_in_range(index, amount) }
    }

    /// Announces a second sharer. See [`LazyCounter::share`](super::LazyCounter::share).
    pub fn share(&self) -> Result<(), NoMemory> {
        self.all().share()
    }

    /// [`share`](Self::share) with a block of the given area that has `more` cells after those of the counters.
    #[doc(hidden)]
    pub fn share_in(&self, area: &'static Area, more: usize) -> Result<(), NoMemory> {
        self.all().share_in(area, more)
    }

    /// Whether the set is upgraded.
    #[inline]
    pub fn is_shared(&self) -> bool {
        self.all().is_shared()
    }

    /// Makes the calling thread the owner. See [`LazyCounter::rebind`](super::LazyCounter::rebind).
    pub fn rebind(&mut self) {
        // SAFETY: the borrow is exclusive.
        unsafe { self.all().rebind() }
    }

    /// The approximate sum of a counter. See [`LazyCounter::read`](super::LazyCounter::read).
    pub fn read(&self, index: usize) -> Reading {
        self.all().read(index)
    }

    /// [`read`](Self::read), with negative values read as zero.
    pub fn read_positive(&self, index: usize) -> Reading {
        self.read(index).positive()
    }

    /// The sum of a counter. See [`LazyCounter::sum`](super::LazyCounter::sum).
    pub fn sum(&self, index: usize) -> i64 {
        self.all().sum(index)
    }

    /// [`sum`](Self::sum), with negative values read as zero.
    pub fn sum_positive(&self, index: usize) -> i64 {
        self.sum(index).max(0)
    }

    /// Compares a counter with a value. See [`LazyCounter::compare`](super::LazyCounter::compare).
    pub fn compare(&self, index: usize, with: i64) -> Order {
        self.all().compare(index, with)
    }

    /// Adds to a counter if it stays within a limit. See [`LazyCounter::limited_add`](super::LazyCounter::limited_add).
    pub fn limited_add(&self, index: usize, amount: i64, limit: i64) -> bool {
        self.all().limited_add(index, amount, limit)
    }

    /// Sets a counter to a value. See [`LazyCounter::set`](super::LazyCounter::set).
    pub fn set(&self, index: usize, value: i64) {
        self.all().set(index, value);
    }

    /// Sets a counter to zero, and returns its value. See [`LazyCounter::reset`](super::LazyCounter::reset).
    pub fn reset(&self, index: usize) -> i64 {
        self.all().reset(index)
    }
}

impl<const N: usize, const RANGE: i32> Drop for CounterSet<N, RANGE> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the borrow is exclusive, and the last one.
        unsafe { self.all().end() }
    }
}
