//! The ways to count. Each is inlined into the loop that is timed, as far as its crate allows it.

use crate::Work;
use metrics::{Counter, CounterFn, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit, counter};
use metrics_exporter_prometheus::PrometheusBuilder;
use metrics_util::registry::{AtomicStorage, Registry};
use std::sync::Arc;

/// Has no recorder in it, or has one that can be installed.
enum Arm {
    Apart(fn() -> Work),
    Facade(fn() -> Box<dyn Recorder + Send + Sync>),
}

/// Theirs first, which the others are held against.
const ARMS: [(&str, Arm); 8] = [
    ("prometheus", Arm::Apart(prometheus)),
    ("prometheus, in floats", Arm::Apart(prometheus_in_floats)),
    ("prometheus-client", Arm::Apart(prometheus_client)),
    ("metrics-exporter-prometheus", Arm::Facade(|| Box::new(PrometheusBuilder::new().build_recorder()))),
    ("metrics-util", Arm::Facade(|| Box::new(Atomic(Registry::atomic())))),
    ("nothing behind the facade", Arm::Facade(|| Box::new(Nothing(Arc::new(Nobody))))),
    ("commensal", Arm::Facade(|| Box::new(commensal_metrics()))),
    ("commensal direct", Arm::Apart(commensal_direct)),
];

/// The arms that have a handle: all.
pub fn by_handle() -> Vec<&'static str> {
    ARMS.iter().map(|(name, _)| *name).collect()
}

/// The arms that the facade's macros can count by.
pub fn by_macro() -> Vec<&'static str> {
    ARMS.iter().filter(|(_, arm)| matches!(arm, Arm::Facade(_))).map(|(name, _)| *name).collect()
}

pub fn named(way: &str, name: &str) -> Result<Work, String> {
    let (_, arm) = ARMS.iter().find(|(known, _)| *known == name).ok_or_else(|| format!("there is no arm {name}"))?;
    match (way, arm) {
        ("handle", Arm::Apart(make)) => Ok(make()),
        ("handle", Arm::Facade(make)) => {
            let recorder = make();
            let handle = metrics::with_local_recorder(&recorder, || counter!("requests"));
            Ok(Box::new(move |times| (0..times).for_each(|_| handle.increment(1))))
        }
        ("macro", Arm::Facade(make)) => {
            metrics::set_global_recorder(make()).map_err(|_| "a process has one recorder".to_owned())?;
            Ok(Box::new(|times| (0..times).for_each(|_| counter!("requests", "path" => "/").increment(1))))
        }
        _ => Err(format!("expected handle, or macro with the facade; found {way} {name}")),
    }
}

fn prometheus() -> Work {
    let counter = prometheus::IntCounter::new("requests", "Requests").expect("a good name");
    Box::new(move |times| (0..times).for_each(|_| counter.inc()))
}

fn prometheus_in_floats() -> Work {
    let counter = prometheus::Counter::new("requests", "Requests").expect("a good name");
    Box::new(move |times| (0..times).for_each(|_| counter.inc()))
}

fn prometheus_client() -> Work {
    let counter = prometheus_client::metrics::counter::Counter::<u64>::default();
    Box::new(move |times| {
        (0..times).for_each(|_| {
            counter.inc();
        });
    })
}

fn commensal_metrics() -> commensal_metrics::Recorder {
    commensal_metrics::Builder::new().build().expect("the usual settings are good")
}

fn commensal_direct() -> Work {
    let counter = commensal_metrics().direct_counter("requests");
    Box::new(move |times| (0..times).for_each(|_| counter.increment(1)))
}

/// The facade's own map and storage, with nothing around it.
struct Atomic(Registry<Key, AtomicStorage>);

/// Counters that do nothing: what is left is the facade.
struct Nothing(Arc<Nobody>);

struct Nobody;

impl CounterFn for Nobody {
    fn increment(&self, value: u64) {
        std::hint::black_box(value);
    }

    fn absolute(&self, value: u64) {
        std::hint::black_box(value);
    }
}

/// Only counters are asked for.
macro_rules! counters_only {
    ($recorder:ty, |$self:ident, $key:ident| $counter:expr) => {
        impl Recorder for $recorder {
            fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
            fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
            fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

            fn register_counter(&$self, $key: &Key, _: &Metadata<'_>) -> Counter {
                $counter
            }

            fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
                Gauge::noop()
            }

            fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
                Histogram::noop()
            }
        }
    };
}

counters_only!(Atomic, |self, key| self.0.get_or_create_counter(key, |counter| Counter::from_arc(Arc::clone(counter))));
counters_only!(Nothing, |self, _key| Counter::from_arc(Arc::clone(&self.0)));
