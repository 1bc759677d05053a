//! What the simulated kernel, or in fallback mode the thread's own block, says of the thread's slot.

use super::number::{Mode, mode};
use super::plain;
use crate::engine::{self, Access};
use crate::thread;

/// Operations ask [`read`] on this machine, whatever the mode.
pub fn begin(_: Mode) {}

/// What the thread's words say; in fallback mode zero if it was given no slot yet.
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

/// The mode, without a step: the host's operations know it by where they look.
fn mode_is_ids() -> bool {
    match engine::here() {
        Some(here) => here.with(|engine| engine.gives_ids()),
        None => mode() == Mode::ConcurrencyId,
    }
}

/// Whether the settings of the simulation say so; where none runs, what the host's C library would be told.
pub fn kernel_gives_concurrency_ids() -> bool {
    const TUNABLES: &str = "GLIBC_TUNABLES";
    const OFF: &str = "glibc.pthread.rseq=0";
    match engine::here() {
        Some(here) => here.with(|engine| engine.gives_ids()),
        None => std::env::var(TUNABLES).map_or(true, |value| !value.contains(OFF)),
    }
}
