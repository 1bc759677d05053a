//! Counters of one atomic word each. Every reading is exact, and every thread pays for an atomic addition.

use std::cmp::Ordering as Order;
use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

/// Range of a slot's unshared part of a counter, on targets that have slots.
pub const DEFAULT_RANGE: i32 = 1024;
const LARGEST_RANGE: i32 = 1 << 28;
/// As many as a set may have on all targets.
const MOST: usize = 260;

/// An approximate value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reading {
    /// The value read.
    pub value: i64,
    /// The largest difference from the true value, in either direction.
    pub error: u64,
}

/// There is no memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoMemory;

impl fmt::Display for NoMemory {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("there is no memory")
    }
}

impl std::error::Error for NoMemory {}

/// A counter. On this target it is one atomic word, which all threads share.
///
/// Arithmetic is modulo 2^64, and values are read as signed. Signal handlers may call everything.
#[derive(Debug, Default)]
pub struct LazyCounter<const RANGE: i32 = DEFAULT_RANGE>(CounterSet<1, RANGE>);

impl LazyCounter {
    /// Makes a counter of value 0.
    pub const fn new() -> Self {
        LazyCounter(CounterSet::new())
    }

    /// Makes a counter of value 0. No thread owns a counter on this target.
    pub fn bound() -> Self {
        Self::new()
    }
}

impl<const RANGE: i32> LazyCounter<RANGE> {
    /// [`new`](LazyCounter::new) with a range, which makes no difference on this target.
    pub const fn with_range() -> Self {
        LazyCounter(CounterSet::with_range())
    }

    /// Makes the calling thread the owner, which makes no difference on this target.
    pub fn rebind(&mut self) {}
}

/// The methods of a counter, and of the same in a set, which has an index.
macro_rules! methods {
    ($($(#[$text:meta])* fn $name:ident($($value:ident: $type:ty),*) -> $result:ty;)*) => {
        impl<const RANGE: i32> LazyCounter<RANGE> {
            $($(#[$text])* #[inline] pub fn $name(&self, $($value: $type),*) -> $result { self.0.$name(0, $($value),*) })*
        }
    };
}

methods! {
    /// Adds `amount`, atomically.
    fn add(amount: i64) -> ();
    /// As [`add`](Self::add).
    ///
    /// # Errors
    /// None on this target.
    fn try_add(amount: i64) -> Result<(), NoMemory>;
    /// Subtracts `amount`.
    fn sub(amount: i64) -> ();
    /// As [`add`](Self::add).
    fn add_remote(amount: i64) -> ();
    /// Returns the sum of all additions: exact.
    fn read() -> Reading;
    /// Returns [`read`](Self::read), with values below 0 replaced by 0.
    fn read_positive() -> Reading;
    /// Returns the exact sum of all additions, perhaps with concurrent ones.
    fn sum() -> i64;
    /// Returns [`sum`](Self::sum), with values below 0 replaced by 0.
    fn sum_positive() -> i64;
    /// Compares the counter with a value.
    fn compare(with: i64) -> Order;
    /// Adds `amount` if the counter stays at or below `limit`, and returns whether it did. Amounts that are not positive
    /// are always added.
    fn limited_add(amount: i64, limit: i64) -> bool;
    /// Adds the difference between [`sum`](Self::sum) and `value`.
    fn set(value: i64) -> ();
    /// Subtracts [`sum`](Self::sum), and returns it.
    fn reset() -> i64;
}

impl<const RANGE: i32> LazyCounter<RANGE> {
    /// Adds like [`add`](Self::add).
    ///
    /// # Safety
    /// The calling thread owns the counter, or the counter is upgraded.
    #[inline]
    pub unsafe fn add_local(&self, amount: i64) {
        self.0.add(0, amount);
    }

    /// Announces that several threads will add. On this target they may always.
    ///
    /// # Errors
    /// None on this target.
    pub fn share(&self) -> Result<(), NoMemory> {
        Ok(())
    }

    /// Returns whether the counter is upgraded: on this target it need not be.
    pub fn is_shared(&self) -> bool {
        true
    }
}

/// `N` counters that are created and destroyed together, with the methods of [`Counters`].
#[derive(Debug)]
pub struct CounterSet<const N: usize, const RANGE: i32 = DEFAULT_RANGE>(Words<RANGE, [AtomicI64; N]>);

impl<const N: usize, const RANGE: i32> Default for CounterSet<N, RANGE> {
    fn default() -> Self {
        Self::with_range()
    }
}

impl<const N: usize> CounterSet<N> {
    /// All zero.
    pub const fn new() -> Self {
        Self::with_range()
    }

    /// All zero. No thread owns counters on this target.
    pub fn bound() -> Self {
        Self::new()
    }
}

impl<const N: usize, const RANGE: i32> CounterSet<N, RANGE> {
    const FITS: () = assert!(0 < N && N <= MOST, "1 to 260 counters");
    const IN_RANGE: () = assert!(4 <= RANGE && RANGE <= LARGEST_RANGE && RANGE % 2 == 0, "an even range up to 2^28");

    /// [`new`](CounterSet::new) with a range, which makes no difference on this target.
    pub const fn with_range() -> Self {
        let ((), ()) = (Self::FITS, Self::IN_RANGE);
        CounterSet(Words([const { AtomicI64::new(0) }; N]))
    }

    /// Makes the calling thread the owner, which makes no difference on this target.
    pub fn rebind(&mut self) {}
}

impl<const N: usize, const RANGE: i32> Deref for CounterSet<N, RANGE> {
    type Target = Counters<RANGE>;

    #[inline]
    fn deref(&self) -> &Counters<RANGE> {
        &self.0
    }
}

/// Counters, however many. [`LazyCounter`] describes the methods. They panic if an index is not below the length.
pub type Counters<const RANGE: i32 = DEFAULT_RANGE> = Words<RANGE, [AtomicI64]>;

/// See [`Counters`].
#[derive(Debug)]
pub struct Words<const RANGE: i32, W: ?Sized>(W);

// Relaxed throughout: a count orders nothing else, also on the runtime.
impl<const RANGE: i32> Words<RANGE, [AtomicI64]> {
    /// The number of counters.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the set is upgraded: [`LazyCounter::is_shared`].
    pub fn is_shared(&self) -> bool {
        true
    }

    /// [`LazyCounter::add`] of the counter `index`.
    #[inline]
    pub fn add(&self, index: usize, amount: i64) {
        self.0[index].fetch_add(amount, Relaxed);
    }

    /// [`LazyCounter::try_add`] of the counter `index`.
    ///
    /// # Errors
    /// None on this target.
    pub fn try_add(&self, index: usize, amount: i64) -> Result<(), NoMemory> {
        self.add(index, amount);
        Ok(())
    }

    /// [`LazyCounter::sub`] of the counter `index`.
    #[inline]
    pub fn sub(&self, index: usize, amount: i64) {
        self.0[index].fetch_sub(amount, Relaxed);
    }

    /// [`LazyCounter::add_local`] of the counter `index`.
    ///
    /// # Safety
    /// The calling thread owns the set, or the set is upgraded.
    #[inline]
    pub unsafe fn add_local(&self, index: usize, amount: i64) {
        self.add(index, amount);
    }

    /// [`LazyCounter::add_remote`] of the counter `index`.
    #[inline]
    pub fn add_remote(&self, index: usize, amount: i64) {
        self.add(index, amount);
    }

    /// [`LazyCounter::share`] for all counters of the set.
    ///
    /// # Errors
    /// None on this target.
    pub fn share(&self) -> Result<(), NoMemory> {
        Ok(())
    }

    /// [`LazyCounter::read`] of the counter `index`.
    pub fn read(&self, index: usize) -> Reading {
        Reading { value: self.sum(index), error: 0 }
    }

    /// [`LazyCounter::read_positive`] of the counter `index`.
    pub fn read_positive(&self, index: usize) -> Reading {
        Reading { value: self.sum_positive(index), error: 0 }
    }

    /// [`LazyCounter::sum`] of the counter `index`.
    pub fn sum(&self, index: usize) -> i64 {
        self.0[index].load(Relaxed)
    }

    /// [`LazyCounter::sum_positive`] of the counter `index`.
    pub fn sum_positive(&self, index: usize) -> i64 {
        self.sum(index).max(0)
    }

    /// [`LazyCounter::compare`] of the counter `index`.
    pub fn compare(&self, index: usize, with: i64) -> Order {
        self.sum(index).cmp(&with)
    }

    /// [`LazyCounter::limited_add`] of the counter `index`.
    pub fn limited_add(&self, index: usize, amount: i64, limit: i64) -> bool {
        let added = |value: i64| match value.checked_add(amount) {
            _ if amount <= 0 => Some(value.wrapping_add(amount)),
            sum => sum.filter(|&sum| sum <= limit),
        };
        self.0[index].fetch_update(Relaxed, Relaxed, added).is_ok()
    }

    /// [`LazyCounter::set`] of the counter `index`.
    pub fn set(&self, index: usize, value: i64) {
        self.add(index, value.wrapping_sub(self.sum(index)));
    }

    /// [`LazyCounter::reset`] of the counter `index`.
    pub fn reset(&self, index: usize) -> i64 {
        self.0[index].swap(0, Relaxed)
    }
}
