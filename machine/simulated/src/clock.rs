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

/// Whether the same work always takes the same time, because nothing else runs on the machine.
pub const IS_STEADY: bool = true;

/// The same as [`now_ns`].
#[inline]
pub fn coarse_ns() -> u64 {
    now_ns()
}

fn since_the_first_call() -> u64 {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    FIRST.get_or_init(Instant::now).elapsed().as_nanos() as u64
}
