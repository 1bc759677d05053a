//! The ways to count. Each is inlined into the loop that is timed, as far as its crate allows it.

use crate::Work;
use metrics::{Counter, CounterFn};
use std::sync::Arc;

/// Theirs first, which the others are held against.
const ARMS: [(&str, fn() -> Work); 5] = [
    ("prometheus", prometheus),
    ("prometheus-client", prometheus_client),
    ("nothing behind the facade", || behind_facade(Counter::from_arc(Arc::new(Nobody)))),
    ("commensal", || behind_facade(commensal_metrics::Counter::default().into())),
    ("commensal direct", commensal_direct),
];

pub fn names() -> Vec<&'static str> {
    ARMS.iter().map(|(name, _)| *name).collect()
}

pub fn named(name: &str) -> Result<Work, String> {
    let arm = ARMS.iter().find(|(known, _)| *known == name);
    arm.map(|(_, make)| make()).ok_or_else(|| format!("there is no arm {name}"))
}

fn prometheus() -> Work {
    let counter = prometheus::IntCounter::new("requests", "Requests").expect("a good name");
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

fn commensal_direct() -> Work {
    let counter = commensal_metrics::Counter::default();
    Box::new(move |times| (0..times).for_each(|_| counter.inc()))
}

fn behind_facade(counter: Counter) -> Work {
    Box::new(move |times| (0..times).for_each(|_| counter.increment(1)))
}

/// A counter that does nothing: what is left is the facade.
struct Nobody;

impl CounterFn for Nobody {
    fn increment(&self, value: u64) {
        std::hint::black_box(value);
    }

    fn absolute(&self, value: u64) {
        std::hint::black_box(value);
    }
}
