//! Commensal's lazy counters for programs that have a registry: types of [`prometheus_client`], and handles of the
//! facade [`metrics`]. The program keeps its registry, its text format, its endpoint and its allocator.
//!
//! An increment is a plain addition while one thread counts. When other threads count too, each adds in a line of its
//! CPU, so no thread waits for a line that another one writes. Sums are exact, also in fork children and signal handlers.
//!
//! This recorder for the facade counts in families of `prometheus-client`. (It leaves out histograms and descriptions.)
//!
//! ```
//! use metrics::{Key, KeyName, Metadata, SharedString, Unit, counter, gauge, with_local_recorder};
//! use prometheus_client::{encoding::text, metrics::family::Family, registry::Registry};
//!
//! type Labels = [(&'static str, String); 1];
//!
//! #[derive(Default)]
//! struct Recorder {
//!     counters: Family<Labels, commensal_metrics::Counter>,
//!     gauges: Family<Labels, commensal_metrics::Gauge>,
//! }
//!
//! impl metrics::Recorder for Recorder {
//!     fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> metrics::Counter {
//!         self.counters.get_or_create_owned(&[("name", key.name().to_owned())]).into()
//!     }
//!     fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> metrics::Gauge {
//!         self.gauges.get_or_create_owned(&[("name", key.name().to_owned())]).into()
//!     }
//! #   fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> metrics::Histogram { metrics::Histogram::noop() }
//! #   fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
//! #   fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
//! #   fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
//! }
//!
//! let (recorder, mut registry) = (Recorder::default(), Registry::default());
//! registry.register("shop_events", "What happened", recorder.counters.clone());
//! registry.register("shop_levels", "What there is", recorder.gauges.clone());
//!
//! let direct = recorder.counters.get_or_create_owned(&[("name", "orders".to_owned())]);
//! direct.inc();
//! with_local_recorder(&recorder, || {
//!     (0..3).for_each(|_| counter!("orders").increment(2));
//!     gauge!("guests").set(5);
//!     gauge!("guests").decrement(0.5);
//! });
//!
//! let mut page = String::new();
//! text::encode(&mut page, &registry).unwrap();
//! assert!(page.contains("# TYPE shop_events counter\nshop_events_total{name=\"orders\"} 7\n"), "{page}");
//! assert!(page.contains("# TYPE shop_levels gauge\nshop_levels{name=\"guests\"} 4.5\n"), "{page}");
//! ```
//!
//! Both types also fit the trait `Storage` of `metrics-util`. The facade reaches a counter by an indirect call, which
//! takes as long as an atomic addition that no other thread wants. [`Counter::inc`] of a handle is inlined.
//! `docs/design/recorder.md` of the project has figures.
#![forbid(unsafe_code)]

mod counter;
mod gauge;

pub use counter::Counter;
pub use gauge::Gauge;

use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::{MetricType, TypedMetric};

/// Implements the traits of `prometheus-client` for a handle, and its conversion to the facade's handle.
macro_rules! bridge {
    ($handle:ident, |$value:ident, $encoder:ident| $encoded:expr) => {
        impl TypedMetric for $handle {
            const TYPE: MetricType = MetricType::$handle;
        }

        impl EncodeMetric for $handle {
            fn encode(&self, mut $encoder: MetricEncoder<'_>) -> std::fmt::Result {
                let $value = self.get();
                $encoded
            }

            fn metric_type(&self) -> MetricType {
                Self::TYPE
            }
        }

        impl From<$handle> for metrics::$handle {
            fn from(handle: $handle) -> Self {
                Self::from_arc(handle.0)
            }
        }
    };
}

bridge!(Counter, |value, encoder| encoder.encode_counter::<NoLabelSet, _, u64>(&value, None));
bridge!(Gauge, |value, encoder| encoder.encode_gauge(&value));
