//! Time on the simulated CPU.

use crate::engine::{self, Access};
use std::sync::OnceLock;
use std::time::Instant;

/// Nanoseconds since the simulation began. Never goes back.
pub fn now_ns() -> u64 {
    let Some(here) = engine::here() else { return since_the_first_call() };
    here.step(Access::Clock);
    here.with(|engine| engine.time_ns())
}

/// Nanoseconds that pass for the calling thread; the simulation does not count how long each thread has run.
pub fn thread_ns() -> u64 {
    now_ns()
}

pub const IS_STEADY: bool = true;

pub const COARSE_NS: u64 = 384;

#[inline]
pub fn coarse() -> u64 {
    now_ns() / COARSE_NS
}

fn since_the_first_call() -> u64 {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    FIRST.get_or_init(Instant::now).elapsed().as_nanos() as u64
}
