//! Handles for the few places that count all the time: the same metrics, without the facade's call.
//!
//! The facade reaches a counter through a table of functions. Such a call takes as long as an atomic addition that nobody else wants, so
//! there a plain addition gains nothing until a second thread comes; these are inlined.

use crate::counter::Counter;
use crate::gauge::Gauge;
use crate::registry::Metric;
use std::sync::Arc;

/// A counter, see [`Recorder::direct_counter`](crate::Recorder::direct_counter). Clones count in the same one.
#[derive(Clone, Debug)]
pub struct DirectCounter(pub(crate) Arc<Metric<Counter>>);

impl DirectCounter {
    /// Adds, exactly and modulo 2^64: for the first thread that does by one plain addition.
    #[inline(always)]
    pub fn increment(&self, value: u64) {
        self.0.value.add(value);
    }

    /// Has the counter be `value` at least.
    pub fn absolute(&self, value: u64) {
        self.0.value.raise(value);
    }

    /// What was counted, by all handles of its key.
    pub fn value(&self) -> u64 {
        self.0.value.value()
    }
}

/// A gauge, see [`Recorder::direct_gauge`](crate::Recorder::direct_gauge). Clones are of the same one.
#[derive(Clone, Debug)]
pub struct DirectGauge(pub(crate) Arc<Metric<Gauge>>);

impl DirectGauge {
    /// Adds: whole numbers below 2^29 as cheaply as a counter.
    #[inline(always)]
    pub fn increment(&self, value: f64) {
        self.0.value.add(value);
    }

    /// Subtracts, likewise.
    #[inline(always)]
    pub fn decrement(&self, value: f64) {
        self.0.value.add(-value);
    }

    /// Sets the value: increments that are complete are gone, later ones stay.
    pub fn set(&self, value: f64) {
        self.0.value.set(value);
    }

    /// What the gauge is.
    pub fn value(&self) -> f64 {
        self.0.value.value()
    }
}
