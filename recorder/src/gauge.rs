//! Gauges: a lazy counter for whole steps, and sixteen bytes for all else.
//!
//! ```text
//!   value = base.value + (steps − base.steps)
//!   steps   whole increments and decrements of all threads, see `commensal::counter`
//!   base    what the gauge was set to, changed by fractions since; and how many steps that knows already
//! ```
//!
//! **Steps.** An increment or decrement by a whole number below 2^29 is one addition to `steps`, as cheap as a counter's. All others, and
//! `set`, change `base` by one exchange of sixteen bytes, at which threads may meet.
//!
//! **What a reader sees.** It reads `base`, sums the steps, and begins again if `base` has changed. So a value is of one `base`: what was set
//! last, with all increments that were complete when the reading began and later than the set, none that began after it ended, and of those at the same
//! time some. A base that changed twice, back to the very same bits, is taken for one that did not change.
//!
//! **An increment at the same time as a `set`** counts as before it, and is gone, or as after it, and stays: each for itself, also
//! where one thread's came before another's. One that was complete before is gone, one that begins afterwards stays.
//!
//! **Exactness.** Steps are added as integers: any number of them loses nothing, where an `f64` loses ones from 2^53 on. A sum of fractions rounds
//! as sums of `f64` do, but apart from the steps; a reading rounds once. What is no number (NaN, infinities) does what it does in
//! `f64`: a gauge that was incremented by it stays so until it is set. Steps are counted modulo 2^64: a gauge that rises by 2^63 in steps
//! below 2^29 without ever being set is wrong.

use commensal::counter::LazyCounter;
use portable_atomic::AtomicU128;
use std::sync::atomic::{Ordering, fence};

/// From here on an amount is no step: the counter has no short way for it, and the count would come near its end in a few seconds.
const STEP_LIMIT: f64 = (1 << 29) as f64;

/// A number that rises and falls. Two lines of their own: steps do not wait for the base, which is written.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Gauge {
    steps: LazyCounter,
    base: BaseLine,
}

#[derive(Debug, Default)]
#[repr(align(64))]
struct BaseLine(AtomicU128);

const _: () = assert!(size_of::<Gauge>() == 128);

/// What the gauge was set to, and which steps were before that.
#[derive(Clone, Copy)]
struct Base {
    value: f64,
    steps: i64,
}

impl Base {
    fn of_word(word: u128) -> Self {
        Base { value: f64::from_bits(word as u64), steps: (word >> 64) as i64 }
    }

    fn word(self) -> u128 {
        u128::from(self.value.to_bits()) | u128::from(self.steps.cast_unsigned()) << 64
    }
}

/// The amount as a number of steps, if it is one.
#[inline(always)]
fn as_steps(amount: f64) -> Option<i64> {
    let steps = amount as i64;
    (amount.abs() < STEP_LIMIT && steps as f64 == amount).then_some(steps)
}

impl Gauge {
    /// Adds what may be negative, or a fraction.
    #[inline(always)]
    pub fn add(&self, amount: f64) {
        let is_done = as_steps(amount).is_some_and(|steps| self.steps.try_add(steps).is_ok());
        if !is_done {
            self.add_to_base(amount);
        }
    }

    /// Fractions, what is too large for steps, and steps for which there is no memory.
    #[cold]
    fn add_to_base(&self, amount: f64) {
        self.change_base(|base| Base { value: base.value + amount, ..base });
    }

    /// Sets the value; see the head of the file for who else is there.
    pub fn set(&self, value: f64) {
        // The steps are summed after `base` was read, and again if it has changed: else an increment that was complete before another
        // set, which knew it, would count again after ours.
        self.change_base(|_| Base { value, steps: self.steps.sum() });
    }

    fn change_base(&self, change: impl Fn(Base) -> Base) {
        // Acquire pairs with the release below: steps are looked at later than by whoever changed the base, and none that he knew is missed.
        let mut word = self.base.0.load(Ordering::Acquire);
        loop {
            let changed = change(Base::of_word(word)).word();
            match self.base.0.compare_exchange_weak(word, changed, Ordering::Release, Ordering::Acquire) {
                Ok(_) => return,
                Err(seen) => word = seen,
            }
        }
    }

    /// What the gauge is. Takes time in proportion to the CPUs on which there were steps.
    pub fn value(&self) -> f64 {
        // Acquire, as in `change_base`.
        let mut word = self.base.0.load(Ordering::Acquire);
        loop {
            let (base, steps) = (Base::of_word(word), self.steps.sum());
            // What was looked at was looked at before this: steps of a later base would else be added to an older one. That a step is not seen before
            // the `set` that it came after is the processor's promise: additions are its stores and locked instructions.
            fence(Ordering::Acquire);
            let seen = self.base.0.load(Ordering::Acquire);
            if seen == word {
                return base.value + steps.wrapping_sub(base.steps) as f64;
            }
            word = seen;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_steps_are_exact_where_a_float_is_not() {
        let gauge = Gauge::default();
        gauge.set(9_007_199_254_740_992.0);
        (0..10).for_each(|_| gauge.add(1.0));
        assert_eq!(gauge.value(), 9_007_199_254_741_002.0);
        assert_ne!((0..10).fold(9_007_199_254_740_992.0, |sum, _| sum + 1.0), 9_007_199_254_741_002.0);
    }

    #[test]
    fn what_is_set_is_read_to_the_bit() {
        let gauge = Gauge::default();
        for value in [0.1, -0.0, 1e300, f64::MIN_POSITIVE, f64::INFINITY, -7.0] {
            gauge.add(123_456_789.0);
            gauge.add(0.3);
            gauge.set(value);
            assert_eq!((gauge.value() + 0.0).to_bits(), (value + 0.0).to_bits(), "{value}");
        }
        gauge.set(f64::NAN);
        assert!(gauge.value().is_nan());
        gauge.add(1.0);
        assert!(gauge.value().is_nan());
        gauge.set(2.0);
        assert_eq!(gauge.value(), 2.0);
    }

    #[test]
    fn only_what_a_counter_can_take_is_a_step() {
        assert_eq!([3.0, -3.0, -0.0].map(as_steps), [Some(3), Some(-3), Some(0)]);
        let others = [0.5, 536_870_912.0, -536_870_912.0, 1e300, f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
        assert_eq!(others.map(as_steps), [None; 7]);
        let gauge = Gauge::default();
        others[..4].iter().for_each(|&amount| gauge.add(amount));
        others[..4].iter().for_each(|&amount| gauge.add(-amount));
        gauge.add(536_870_911.0);
        assert_eq!(gauge.steps.sum(), 536_870_911);
    }
}
