//! Counters: the runtime's lazy counter, and a word beside it.
//!
//! ```text
//!   value = counted + lift
//!   counted   the additions of all threads, see `commensal::counter`
//!   lift      what `absolute` raised the counter by, and additions that found no memory for an upgrade
//! ```
//!
//! Both only rise (modulo 2^64), so consecutive readings never fall.

use commensal::counter::LazyCounter;
use metrics::CounterFn;
use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::{MetricType, TypedMetric};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A counter that only rises. Clones share one count.
///
/// Signal handlers may add. A fork child continues from its parent's count.
#[derive(Clone, Debug, Default)]
pub struct Counter(Arc<Shared>);

/// A cache line of its own: else the owner of one counter would write to the line that another counter's owner reads.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Shared {
    counted: LazyCounter,
    lift: AtomicU64,
}

const _: () = assert!(size_of::<Shared>() == 64);

impl Counter {
    /// Adds one.
    #[inline(always)]
    pub fn inc(&self) {
        self.inc_by(1);
    }

    /// Adds `amount`, modulo 2^64. Unlike `prometheus-client`'s method it does not return the previous count, which would
    /// be a sum over CPUs.
    #[inline(always)]
    pub fn inc_by(&self, amount: u64) {
        self.0.increment(amount);
    }

    /// Returns the count. Takes time in proportion to the CPUs on which threads counted.
    pub fn get(&self) -> u64 {
        // Relaxed: each of the two words is seen no older than a reading before saw it.
        self.0.counted.sum().cast_unsigned().wrapping_add(self.0.lift.load(Ordering::Relaxed))
    }
}

impl CounterFn for Shared {
    #[inline(always)]
    fn increment(&self, amount: u64) {
        if self.counted.try_add(amount.cast_signed()).is_err() {
            // There is no memory for an upgrade, and the word for that case is full. Relaxed: additions order nothing.
            self.lift.fetch_add(amount, Ordering::Relaxed);
        }
    }

    /// Raises the counter to `least` if it is below. Concurrent additions come on top.
    fn absolute(&self, least: u64) {
        // Acquire pairs with the release of the last raise: `counted` is not less here than it was there. If it were,
        // this raise would add what that one added already.
        let _ = self.lift.fetch_update(Ordering::Release, Ordering::Acquire, |lift| {
            let counted = self.counted.sum().cast_unsigned();
            (counted.wrapping_add(lift) < least).then(|| least.wrapping_sub(counted))
        });
    }
}

impl CounterFn for Counter {
    fn increment(&self, amount: u64) {
        self.inc_by(amount);
    }

    fn absolute(&self, least: u64) {
        self.0.absolute(least);
    }
}

impl From<Counter> for metrics::Counter {
    fn from(counter: Counter) -> Self {
        Self::from_arc(counter.0)
    }
}

impl TypedMetric for Counter {
    const TYPE: MetricType = MetricType::Counter;
}

impl EncodeMetric for Counter {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> std::fmt::Result {
        encoder.encode_counter::<NoLabelSet, _, u64>(&self.get(), None)
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}
