//! Samples for a tracer outside of the process, such as OpenTelemetry's profiler by eBPF.
//!
//! A tracer gets the samples that the profile takes, by `machine::probe`. If none are taken, they begin for it, with
//! the mean of the settings, and end with it.
//!
//! Runs at the same time: any thread that does maintenance. If two threads see different counts of tracers, the next
//! look corrects it. Relaxed, therefore.

use super::exit::GAP;
use super::sampling::{begin_sampling, is_on, stop};
use super::state::PLACE;
use crate::caches::{known_at, made_at};
use machine::sync::Ordering;
use machine::{probe, sandbox, thread};

/// Begins and ends samples with a tracer. Without one: two loads.
///
/// Not now if the thread holds a lock. In a sandbox, samples do not begin, because they need a mapping.
#[inline]
pub(crate) fn follow_tracer() {
    let is_followed = || known_at(&PLACE).is_some_and(|profile| profile.is_followed.load(Ordering::Relaxed));
    match probe::is_traced() {
        true if !is_on() => begin(),
        false if is_followed() => end(),
        _ => {}
    }
}

#[cold]
#[inline(never)]
fn begin() {
    if thread::holds_locks() || sandbox::is_on() {
        return;
    }
    if begin_sampling(GAP.get() << 10)
        && let Some(profile) = made_at(&PLACE)
    {
        profile.is_followed.store(true, Ordering::Relaxed);
    }
}

#[cold]
#[inline(never)]
fn end() {
    if let Some(profile) = known_at(&PLACE) {
        profile.is_followed.store(false, Ordering::Relaxed);
    }
    stop();
}
