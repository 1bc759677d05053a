//! From keys to metrics: one map for all, and in each thread the handles that it has asked for.
//!
//! `counter!("x")` looks its key up each time, takes a handle and drops it again. With one map and one handle for all, threads would meet at the map's lock
//! and at the handle's count of references, and gain nothing from counters that keep them apart. So a thread keeps what it has looked up,
//! each metric behind a handle of its own: a look-up writes to no line that another thread has. The map is asked once for each thread and key.
//!
//! ```text
//!   map (sharded, of the facade's own crate)     thread's table              what the macro has
//!   key ──────────▶ Metric { value, key } ◀────── Handle ◀── Known ──────▶   Counter
//!                                        ◀────────────────── Known           (whoever made the metric goes there without a handle)
//! ```
//!
//! A metric is never taken away, so tables are never wrong. They are emptied when they are full, and go with their thread.

use crate::counter::Counter;
use crate::gauge::Gauge;
use crate::histogram::{Histogram, Shape};
use hashbrown::HashTable;
use metrics::{CounterFn, GaugeFn, HistogramFn, Key, Label};
use metrics_util::registry::{self, Storage};
use std::cell::RefCell;
use std::ptr::{null, slice_from_raw_parts};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Handles of a kind that a thread keeps at most, of 128 bytes each: beyond it dynamic labels would have each thread hold the whole map.
const MOST_HANDLES: usize = 512;

/// A metric and what it is called.
#[derive(Debug)]
pub struct Metric<M> {
    pub value: M,
    /// The registry's number.
    registry: u64,
    pub key: Key,
}

/// A thread's own way to a metric. A line of its own, as its thread alone writes the count of references before it.
#[derive(Debug)]
#[repr(align(64))]
pub struct Handle<M>(Arc<Metric<M>>);

/// What a thread knows of a metric.
#[derive(Debug)]
pub struct Known<M: Kind> {
    place: Place,
    metric: Arc<Metric<M>>,
    handle: M::Facade,
}

impl<M: Kind> Known<M> {
    #[inline]
    fn is(&self, registry: u64, key: &Key, place: Place) -> bool {
        self.metric.registry == registry && (self.place == place || self.metric.key == *key)
    }
}

/// Where the texts of a key are. One `counter!` without labels from variables has them in the same place each time, and so has the key that is kept of it: keys
/// whose texts are in one place, as long as both are there, are equal, and no text has to be read. Many short calls would take as long as reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    name: *const str,
    labels: *const [Label],
}

impl Place {
    #[inline]
    fn of(key: &Key) -> Self {
        let labels = key.labels().as_slice();
        // No labels have no place.
        let labels = if labels.is_empty() { slice_from_raw_parts(null(), 0) } else { labels };
        Place { name: key.name(), labels }
    }
}

/// All metrics of a recorder.
#[derive(Debug)]
pub struct Registry {
    /// Given once: a thread's table may know a registry that is no more.
    number: u64,
    map: registry::Registry<Key, Maker>,
}

/// Makes what the map has not.
#[derive(Debug)]
struct Maker {
    registry: u64,
    shape: Arc<Shape>,
}

impl Maker {
    fn make<M>(&self, key: &Key, value: M) -> Arc<Metric<M>> {
        Arc::new(Metric { value, registry: self.registry, key: key.clone() })
    }
}

impl Storage<Key> for Maker {
    type Counter = Arc<Metric<Counter>>;
    type Gauge = Arc<Metric<Gauge>>;
    type Histogram = Arc<Metric<Histogram>>;

    fn counter(&self, key: &Key) -> Self::Counter {
        self.make(key, Counter::default())
    }

    fn gauge(&self, key: &Key) -> Self::Gauge {
        self.make(key, Gauge::default())
    }

    fn histogram(&self, key: &Key) -> Self::Histogram {
        self.make(key, Histogram::new(Arc::clone(&self.shape)))
    }
}

impl Registry {
    pub fn new(shape: Shape) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        // Relaxed: numbers need only differ.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let maker = Maker { registry: number, shape: Arc::new(shape) };
        Registry { number, map: registry::Registry::new(maker) }
    }

    /// The thread's own handle of a metric, which is made if there is none of that key.
    #[inline]
    pub fn handle<M: Kind>(&self, key: &Key) -> M::Facade {
        self.known::<M>(key).unwrap_or_else(|| self.look_up::<M>(key))
    }

    #[inline]
    fn known<M: Kind>(&self, key: &Key) -> Option<M::Facade> {
        let find = |tables: &RefCell<Tables>| {
            let (tables, place) = (tables.try_borrow().ok()?, Place::of(key));
            let known = M::table(&tables).find(key.get_hash(), |known| known.is(self.number, key, place))?;
            Some(known.handle.clone())
        };
        TABLES.try_with(find).ok().flatten()
    }

    #[cold]
    #[inline(never)]
    fn look_up<M: Kind>(&self, key: &Key) -> M::Facade {
        // Two that make it at the same time share the count of references, which costs them time and nothing else.
        let (metric, handle) = match M::find(self, key) {
            Some(metric) => (Arc::clone(&metric), M::through(Arc::new(Handle(metric)))),
            None => {
                let metric = self.metric(key);
                (Arc::clone(&metric), M::straight(metric))
            }
        };
        let kept = Known { place: Place::of(&metric.key), metric, handle: handle.clone() };
        // No table where the thread ends, and none to write to where an allocator counts in the midst of this: the handle serves as well.
        let _ = TABLES.try_with(|tables| {
            let Ok(mut tables) = tables.try_borrow_mut() else { return };
            let table = M::table_mut(&mut tables);
            if table.len() == MOST_HANDLES {
                table.clear();
            }
            table.insert_unique(key.get_hash(), kept, |known| known.metric.key.get_hash());
        });
        handle
    }

    /// The metric itself.
    pub fn metric<M: Kind>(&self, key: &Key) -> Arc<Metric<M>> {
        // A key that is kept owns its text, which is only worth making for a new one.
        M::find(self, key).unwrap_or_else(|| M::find_or_make(self, &key.to_retained()))
    }

    /// All metrics of a kind, in no order.
    pub fn all<M: Kind>(&self) -> Vec<Arc<Metric<M>>> {
        let mut all = Vec::new();
        M::visit(self, |metric| all.push(Arc::clone(metric)));
        all
    }
}

thread_local! {
    static TABLES: RefCell<Tables> = const { RefCell::new(Tables::new()) };
}

/// What a thread has looked up.
#[derive(Debug)]
pub struct Tables {
    counters: HashTable<Known<Counter>>,
    gauges: HashTable<Known<Gauge>>,
    histograms: HashTable<Known<Histogram>>,
}

impl Tables {
    const fn new() -> Self {
        Tables { counters: HashTable::new(), gauges: HashTable::new(), histograms: HashTable::new() }
    }
}

/// Which of the map's three parts a metric is in, and which of a thread's tables; and what the facade calls it by.
pub trait Kind: Sized {
    type Facade: Clone;

    fn straight(metric: Arc<Metric<Self>>) -> Self::Facade;
    fn through(handle: Arc<Handle<Self>>) -> Self::Facade;
    fn table(tables: &Tables) -> &HashTable<Known<Self>>;
    fn table_mut(tables: &mut Tables) -> &mut HashTable<Known<Self>>;
    fn find(registry: &Registry, key: &Key) -> Option<Arc<Metric<Self>>>;
    fn find_or_make(registry: &Registry, key: &Key) -> Arc<Metric<Self>>;
    fn visit(registry: &Registry, visit: impl FnMut(&Arc<Metric<Self>>));
}

macro_rules! kinds {
    ($($kind:ident: $table:ident, $find:ident, $find_or_make:ident, $visit:ident;)*) => {$(
        impl Kind for $kind {
            type Facade = metrics::$kind;

            fn straight(metric: Arc<Metric<Self>>) -> Self::Facade {
                metrics::$kind::from_arc(metric)
            }

            fn through(handle: Arc<Handle<Self>>) -> Self::Facade {
                metrics::$kind::from_arc(handle)
            }

            #[inline]
            fn table(tables: &Tables) -> &HashTable<Known<Self>> {
                &tables.$table
            }

            fn table_mut(tables: &mut Tables) -> &mut HashTable<Known<Self>> {
                &mut tables.$table
            }

            fn find(registry: &Registry, key: &Key) -> Option<Arc<Metric<Self>>> {
                registry.map.$find(key)
            }

            fn find_or_make(registry: &Registry, key: &Key) -> Arc<Metric<Self>> {
                registry.map.$find_or_make(key, Arc::clone)
            }

            fn visit(registry: &Registry, mut visit: impl FnMut(&Arc<Metric<Self>>)) {
                registry.map.$visit(|_, metric| visit(metric));
            }
        }
    )*};
}

kinds! {
    Counter: counters, get_counter, get_or_create_counter, visit_counters;
    Gauge: gauges, get_gauge, get_or_create_gauge, visit_gauges;
    Histogram: histograms, get_histogram, get_or_create_histogram, visit_histograms;
}

/// What the facade calls, of a metric and of a handle alike.
macro_rules! calls {
    ($whole:ident, |$self:ident| $value:expr) => {
        impl CounterFn for $whole<Counter> {
            fn increment(&$self, value: u64) {
                $value.add(value);
            }

            fn absolute(&$self, value: u64) {
                $value.raise(value);
            }
        }

        impl GaugeFn for $whole<Gauge> {
            fn increment(&$self, value: f64) {
                $value.add(value);
            }

            fn decrement(&$self, value: f64) {
                $value.add(-value);
            }

            fn set(&$self, value: f64) {
                $value.set(value);
            }
        }

        impl HistogramFn for $whole<Histogram> {
            fn record(&$self, value: f64) {
                $value.record_many(value, 1);
            }

            fn record_many(&$self, value: f64, count: usize) {
                $value.record_many(value, count);
            }
        }
    };
}

calls!(Metric, |self| self.value);
calls!(Handle, |self| self.0.value);

#[cfg(test)]
mod tests {
    use super::*;

    fn registry() -> Registry {
        Registry::new(Shape::Quantiles(vec![0.5]))
    }

    #[test]
    fn a_key_leads_to_one_metric_and_a_thread_to_one_handle() {
        let (registry, other) = (registry(), registry());
        let key = Key::from_parts("requests", vec![metrics::Label::new("a", "1"), metrics::Label::new("b", "2")]);
        let turned = Key::from_parts("requests", vec![metrics::Label::new("b", "2"), metrics::Label::new("a", "1")]);
        let known = || TABLES.with(|tables| tables.borrow().counters.len());
        registry.handle::<Counter>(&key).increment(1);
        registry.handle::<Counter>(&turned).increment(2);
        assert_eq!(known(), 1);
        std::thread::scope(|scope| drop(scope.spawn(|| registry.handle::<Counter>(&key).increment(4))));
        other.handle::<Counter>(&key).increment(8);
        assert_eq!(known(), 2);
        for (registry, count) in [(&registry, 7), (&other, 8)] {
            let all = registry.all::<Counter>();
            assert_eq!((all.len(), all[0].value.value()), (1, count));
        }
        assert!(registry.all::<Gauge>().is_empty());
    }

    #[test]
    fn a_place_is_that_of_one_name_and_its_labels() {
        static LABELS: [Label; 2] = [Label::from_static_parts("a", "1"), Label::from_static_parts("b", "2")];
        let of = |labels: &'static [Label]| Place::of(&Key::from_static_parts("requests", labels));
        assert!(
            of(&LABELS) == of(&LABELS)
                && of(&[]) == of(&LABELS[2..])
                && of(&[]) == Place::of(&Key::from_name("requests"))
        );
        assert!(of(&LABELS) != of(&LABELS[..1]) && of(&LABELS) != of(&LABELS[1..]) && of(&LABELS[..1]) != of(&[]));
        // Equal, but elsewhere: then it is for the keys to say.
        assert!(of(&[]) != Place::of(&Key::from_name("requests".to_owned())));
        // A key that is kept stays in its place.
        assert!(of(&LABELS) == Place::of(&Key::from_static_parts("requests", &LABELS).to_retained()));
    }

    #[test]
    fn a_thread_keeps_no_more_handles_than_it_may() {
        let registry = registry();
        for _ in 0..2 {
            for number in 0..3 * MOST_HANDLES {
                registry.handle::<Counter>(&Key::from_name(format!("c{number}"))).increment(1);
            }
        }
        let kept = TABLES.with(|tables| tables.borrow().counters.len());
        assert!(kept <= MOST_HANDLES, "{kept}");
        let all = registry.all::<Counter>();
        assert!(all.len() == 3 * MOST_HANDLES && all.iter().all(|metric| metric.value.value() == 2));
    }
}
