//! Commensal's lazy counter for programs that have a registry: a type of [`prometheus_client`], and a handle of the
//! facade [`metrics`]. The program keeps its registry, its text format, its endpoint and its allocator.
//!
//! An increment is a plain addition while one thread counts. When other threads count too, each adds in a line of its
//! CPU, so no thread waits for a line that another one writes. Sums are exact, also in fork children and signal handlers.
//!
//! This recorder for the facade counts in a family of `prometheus-client`. (It leaves out all but counters.)
//!
//! ```
//! use metrics::{Key, KeyName, Metadata, SharedString, Unit, counter, with_local_recorder};
//! use prometheus_client::{encoding::text, metrics::family::Family, registry::Registry};
//!
//! type Labels = [(&'static str, String); 1];
//!
//! #[derive(Default)]
//! struct Recorder(Family<Labels, commensal_metrics::Counter>);
//!
//! impl metrics::Recorder for Recorder {
//!     fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> metrics::Counter {
//!         self.0.get_or_create_owned(&[("name", key.name().to_owned())]).into()
//!     }
//! #   fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> metrics::Gauge { metrics::Gauge::noop() }
//! #   fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> metrics::Histogram { metrics::Histogram::noop() }
//! #   fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
//! #   fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
//! #   fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
//! }
//!
//! let (recorder, mut registry) = (Recorder::default(), Registry::default());
//! registry.register("shop_events", "What happened", recorder.0.clone());
//!
//! let direct = recorder.0.get_or_create_owned(&[("name", "orders".to_owned())]);
//! direct.inc();
//! with_local_recorder(&recorder, || (0..3).for_each(|_| counter!("orders").increment(2)));
//!
//! let mut page = String::new();
//! text::encode(&mut page, &registry).unwrap();
//! assert!(page.contains("# TYPE shop_events counter\nshop_events_total{name=\"orders\"} 7\n"), "{page}");
//! ```
//!
//! The counter also fits the trait `Storage` of `metrics-util`. The facade reaches a counter by an indirect call, which
//! takes as long as an atomic addition that no other thread wants. [`Counter::inc`] of a handle is inlined.
//! `docs/design/recorder.md` of the project has figures.
#![forbid(unsafe_code)]
#![deny(missing_docs, clippy::missing_errors_doc, clippy::missing_panics_doc, clippy::missing_safety_doc)]

mod counter;

pub use counter::Counter;
