//! The thread's slot, as the simulated kernel or, in fallback mode, the thread's own block has it.

use super::number::{Mode, mode};
use super::plain;
use crate::engine::{self, Access};
use crate::thread;

/// Does nothing: operations ask [`read`] in each mode.
pub fn begin(_: Mode) {}

/// The slot in the thread's words; in fallback mode zero if it has none yet.
#[inline]
pub fn read() -> Option<u32> {
    if let Some(here) = engine::here() {
        here.step(Access::Slot);
    }
    look()
}

/// The same, within a step.
#[inline]
pub fn look() -> Option<u32> {
    let by_ids = mode_is_ids();
    match engine::here() {
        Some(here) if by_ids || here.with(|engine| engine.has_no_slot()) => here.with(|engine| engine.slot()),
        None if by_ids => Some(plain::own_slot()),
        // SAFETY: the word is this thread's own.
        _ => Some(unsafe { *thread::fallback_slot() }),
    }
}

/// The mode, without a step: the host's operations know it by their offset.
fn mode_is_ids() -> bool {
    match engine::here() {
        Some(here) => here.with(|engine| engine.gives_ids()),
        None => mode() == Mode::ConcurrencyId,
    }
}

/// Whether the settings of the simulation say so; outside of simulations, the tunable of the host's C library.
pub fn kernel_gives_concurrency_ids() -> bool {
    const TUNABLES: &str = "GLIBC_TUNABLES";
    const OFF: &str = "glibc.pthread.rseq=0";
    match engine::here() {
        Some(here) => here.with(|engine| engine.gives_ids()),
        None => std::env::var(TUNABLES).map_or(true, |value| !value.contains(OFF)),
    }
}
