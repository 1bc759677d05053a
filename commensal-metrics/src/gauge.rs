//! Gauges: a lazy counter for whole steps, and sixteen bytes for everything else.
//!
//! ```text
//!   value = base.value + (steps − base.steps)
//!   steps   whole increments and decrements of all threads, see `commensal::counter`
//!   base    the value that was set, changed by fractions since; and the steps that this value includes
//! ```
//!
//! A whole number below 2^29 is a step: one addition to `steps`, as cheap as a counter's, and exact. Fractions, larger
//! numbers and `set` exchange the sixteen bytes of `base`, where threads may meet.
//!
//! A reading belongs to one `base`: it has the last `set`, all increments after it that were complete when the reading
//! began, and some of those at the same time. (A base that changed twice, back to the same bits, counts as unchanged.)
//! An increment during a `set` is before it, and gone, or after it, and stays; each one on its own.

use commensal::counter::LazyCounter;
use metrics::GaugeFn;
use portable_atomic::AtomicU128;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

/// Larger amounts are no steps: a lazy counter's fast path does not take them, and they would wrap the count soon.
const STEP_LIMIT: f64 = (1 << 29) as f64;

/// A number that rises, falls and is set. Clones share one value.
#[derive(Clone, Debug, Default)]
pub struct Gauge(pub(crate) Arc<Shared>);

/// A cache line of its own, as a counter's.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Shared {
    steps: LazyCounter,
    base: AtomicU128,
}

const _: () = assert!(size_of::<Shared>() == 64);

fn pack(value: f64, steps: i64) -> u128 {
    u128::from(value.to_bits()) | u128::from(steps.cast_unsigned()) << 64
}

fn unpack(word: u128) -> (f64, i64) {
    (f64::from_bits(word as u64), (word >> 64) as i64)
}

impl Gauge {
    /// Adds one.
    #[inline(always)]
    pub fn inc(&self) {
        self.inc_by(1.0);
    }

    /// Adds `amount`, which may be negative or a fraction. Whole amounts below 2^29 cost as little as a counter's.
    #[inline(always)]
    pub fn inc_by(&self, amount: f64) {
        self.0.increment(amount);
    }

    /// Subtracts one.
    #[inline(always)]
    pub fn dec(&self) {
        self.inc_by(-1.0);
    }

    /// Subtracts `amount`, as [`inc_by`](Self::inc_by) adds it.
    #[inline(always)]
    pub fn dec_by(&self, amount: f64) {
        self.inc_by(-amount);
    }

    /// Sets the value. It replaces all increments that were complete; later ones stay.
    pub fn set(&self, value: f64) {
        self.0.set(value);
    }

    /// Returns the value. Takes time in proportion to the CPUs on which threads made whole steps.
    pub fn get(&self) -> f64 {
        let Shared { steps, base } = &*self.0;
        // Acquire, as in `set`.
        let mut word = base.load(Ordering::Acquire);
        loop {
            let ((value, included), steps) = (unpack(word), steps.sum());
            // The sum stays before the second load: else a later base's steps could be added to an older one. The
            // processor shows stores in order, so no step is seen before the `set` that it follows.
            fence(Ordering::Acquire);
            let seen = base.load(Ordering::Acquire);
            if seen == word {
                return value + steps.wrapping_sub(included) as f64;
            }
            word = seen;
        }
    }
}

impl Shared {
    /// Adds what is no step, and steps for which there is no memory.
    #[cold]
    fn add_to_base(&self, amount: f64) {
        // Orders as in `set`.
        let _ = self.base.fetch_update(Ordering::Release, Ordering::Acquire, |word| {
            let (value, included) = unpack(word);
            Some(pack(value + amount, included))
        });
    }
}

impl GaugeFn for Shared {
    #[inline(always)]
    fn increment(&self, amount: f64) {
        let steps = amount as i64;
        let is_step = amount.abs() < STEP_LIMIT && steps as f64 == amount;
        if !is_step || self.steps.try_add(steps).is_err() {
            self.add_to_base(amount);
        }
    }

    fn decrement(&self, amount: f64) {
        self.increment(-amount);
    }

    fn set(&self, value: f64) {
        // The steps are summed after `base` was read, and again if it has changed. Else an increment that another `set`
        // knew would count again after this one. Acquire pairs with the release of the last change: all steps that it
        // knew are in the sum.
        let _ = self.base.fetch_update(Ordering::Release, Ordering::Acquire, |_| Some(pack(value, self.steps.sum())));
    }
}

impl GaugeFn for Gauge {
    fn increment(&self, amount: f64) {
        self.inc_by(amount);
    }

    fn decrement(&self, amount: f64) {
        self.dec_by(amount);
    }

    fn set(&self, value: f64) {
        self.0.set(value);
    }
}
