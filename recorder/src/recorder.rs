//! The recorder: what the facade calls, and what is read from it.

use crate::counter::Counter;
use crate::direct::{DirectCounter, DirectGauge};
use crate::exposition;
use crate::gauge::Gauge;
use crate::histogram::{Distribution, Histogram, Shape};
use crate::registry::{Kind, Registry};
use metrics::{Key, KeyName, Metadata, SharedString, Unit};
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

/// What a program counts. Clones are of the same one: one is installed, another reads.
///
/// It may count and be read from any thread, and counters and gauges also in signal handlers, by handles that were taken before: taking one
/// may wait for a lock. A fork child goes on with its own copy of everything; where other threads ran in the parent, see
/// the [crate's documentation](crate#forks).
#[derive(Clone, Debug)]
pub struct Recorder(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    registry: Registry,
    descriptions: RwLock<Descriptions>,
}

/// What the program said of metrics: the kinds by themselves, as a name may have several.
pub(crate) type Descriptions = HashMap<(MetricKind, KeyName), Description>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum MetricKind {
    Counter,
    Gauge,
    Histogram,
}

#[derive(Clone, Debug)]
pub(crate) struct Description {
    pub unit: Option<Unit>,
    pub text: SharedString,
}

/// All metrics at some time: each as it was at some moment of the call, in the order of their keys.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Counters.
    pub counters: Vec<(Key, u64)>,
    /// Gauges.
    pub gauges: Vec<(Key, f64)>,
    /// Histograms.
    pub histograms: Vec<(Key, Distribution)>,
}

impl Snapshot {
    /// What a counter was.
    pub fn counter(&self, key: &Key) -> Option<u64> {
        find(&self.counters, key).copied()
    }

    /// What a gauge was.
    pub fn gauge(&self, key: &Key) -> Option<f64> {
        find(&self.gauges, key).copied()
    }

    /// What a histogram held.
    pub fn histogram(&self, key: &Key) -> Option<&Distribution> {
        find(&self.histograms, key)
    }
}

fn find<'a, V>(sorted: &'a [(Key, V)], key: &Key) -> Option<&'a V> {
    sorted.iter().find(|(other, _)| other == key).map(|(_, value)| value)
}

impl Recorder {
    pub(crate) fn new(shape: Shape) -> Self {
        Recorder(Arc::new(Inner { registry: Registry::new(shape), descriptions: RwLock::default() }))
    }

    /// All metrics in the text format of OpenMetrics 1.0.
    pub fn render(&self) -> String {
        let snapshot = self.snapshot();
        exposition::render(&snapshot, &self.0.descriptions.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// All metrics as values.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            counters: self.values(Counter::value),
            gauges: self.values(Gauge::value),
            histograms: self.values(Histogram::distribution),
        }
    }

    fn values<M: Kind, V>(&self, value: impl Fn(&M) -> V) -> Vec<(Key, V)> {
        let metrics = self.0.registry.all::<M>();
        let mut values: Vec<_> = metrics.iter().map(|metric| (metric.key.clone(), value(&metric.value))).collect();
        values.sort_by(|(one, _), (other, _)| one.cmp(other));
        values
    }

    /// The counter of a key, for a place that counts all the time: its increments are inlined, and several times as cheap as through the facade.
    ///
    /// ```
    /// let recorder = commensal_metrics::Builder::new().build()?;
    /// let packets = recorder.direct_counter("packets");
    /// (0..1000).for_each(|_| packets.increment(1));
    /// assert_eq!(packets.value(), 1000);
    /// # Ok::<(), commensal_metrics::Error>(())
    /// ```
    pub fn direct_counter(&self, key: impl Into<Key>) -> DirectCounter {
        DirectCounter(self.0.registry.metric(&key.into()))
    }

    /// The gauge of a key, likewise.
    pub fn direct_gauge(&self, key: impl Into<Key>) -> DirectGauge {
        DirectGauge(self.0.registry.metric(&key.into()))
    }

    /// What was said first counts. Macros that have a description say it each time.
    fn describe(&self, kind: MetricKind, name: KeyName, unit: Option<Unit>, text: SharedString) {
        let key = (kind, name);
        if self.0.descriptions.read().unwrap_or_else(PoisonError::into_inner).contains_key(&key) {
            return;
        }
        let mut descriptions = self.0.descriptions.write().unwrap_or_else(PoisonError::into_inner);
        descriptions.entry(key).or_insert(Description { unit, text });
    }
}

impl metrics::Recorder for Recorder {
    fn describe_counter(&self, key: KeyName, unit: Option<Unit>, description: SharedString) {
        self.describe(MetricKind::Counter, key, unit, description);
    }

    fn describe_gauge(&self, key: KeyName, unit: Option<Unit>, description: SharedString) {
        self.describe(MetricKind::Gauge, key, unit, description);
    }

    fn describe_histogram(&self, key: KeyName, unit: Option<Unit>, description: SharedString) {
        self.describe(MetricKind::Histogram, key, unit, description);
    }

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> metrics::Counter {
        self.0.registry.handle::<Counter>(key)
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> metrics::Gauge {
        self.0.registry.handle::<Gauge>(key)
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> metrics::Histogram {
        self.0.registry.handle::<Histogram>(key)
    }
}
