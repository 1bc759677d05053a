//! Counters: what a lazy counter counted, and what lies beside it.
//!
//! ```text
//!   value = counted + lift
//!   counted   the additions of all threads, see `commensal::counter`
//!   lift      what `absolute` raised it by, and additions that found no memory for an upgrade
//! ```
//!
//! Both only rise (modulo 2^64): so readings one after another never fall, and each lies between what the counter was when the reading began
//! and what it was when it ended.

use commensal::counter::LazyCounter;
use std::sync::atomic::{AtomicU64, Ordering};

/// A counter that only rises. A line of its own: the owner of one counter would else write to what the owner of another one reads.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Counter {
    counted: LazyCounter,
    lift: AtomicU64,
}

const _: () = assert!(size_of::<Counter>() == 64);

impl Counter {
    /// For the thread that was first to add, one plain addition; for others an atomic one, until there are enough of them, and then one in the line of
    /// the CPU. Modulo 2^64, in which signed and unsigned additions are the same.
    #[inline(always)]
    pub fn add(&self, amount: u64) {
        if self.counted.try_add(amount.cast_signed()).is_err() {
            self.add_beside(amount);
        }
    }

    /// There is no memory for a line in each CPU, and no more room in the word that threads share until then.
    #[cold]
    fn add_beside(&self, amount: u64) {
        // Relaxed: a sum of additions, which orders nothing. A release of `raise` before it goes on through it.
        self.lift.fetch_add(amount, Ordering::Relaxed);
    }

    /// Has the counter be `least` at least. What others add meanwhile comes on top. Of several at the same time one finds that there
    /// is nothing left to do, or its exchange fails and it looks again: so none raises over what another one has raised already.
    pub fn raise(&self, least: u64) {
        // Acquire pairs with the release below: `counted` is looked at later than by whoever raised last, and is not less than he saw. If it
        // were, we would raise by what he raised over already.
        let mut lift = self.lift.load(Ordering::Acquire);
        loop {
            let counted = self.counted.sum().cast_unsigned();
            if counted.wrapping_add(lift) >= least {
                return;
            }
            let raised = least.wrapping_sub(counted);
            match self.lift.compare_exchange_weak(lift, raised, Ordering::Release, Ordering::Acquire) {
                Ok(_) => return,
                Err(seen) => lift = seen,
            }
        }
    }

    /// What was counted. Takes time in proportion to the CPUs on which something was.
    pub fn value(&self) -> u64 {
        // Relaxed: of both words, whatever is seen is no older than what was seen before.
        self.counted.sum().cast_unsigned().wrapping_add(self.lift.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raising_is_to_at_least() {
        let counter = Counter::default();
        counter.add(7);
        counter.raise(5);
        assert_eq!(counter.value(), 7);
        counter.raise(100);
        counter.raise(100);
        assert_eq!(counter.value(), 100);
        counter.add(1);
        counter.raise(100);
        assert_eq!(counter.value(), 101);
        counter.raise(u64::MAX);
        assert_eq!(counter.value(), u64::MAX);
    }

    #[test]
    fn beyond_its_end_a_counter_begins_again() {
        let counter = Counter::default();
        counter.add(u64::MAX - 1);
        assert_eq!(counter.value(), u64::MAX - 1);
        counter.add(5);
        assert_eq!(counter.value(), 3);
        counter.add_beside(u64::MAX);
        assert_eq!(counter.value(), 2);
    }

    #[test]
    fn what_finds_no_memory_is_counted_beside() {
        let counter = Counter::default();
        counter.add(3);
        counter.add_beside(1 << 40);
        counter.raise(10);
        assert_eq!(counter.value(), (1 << 40) + 3);
    }
}
