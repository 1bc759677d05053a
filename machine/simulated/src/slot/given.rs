//! The thread's slot, as the simulated kernel or, in fallback mode, the thread's own block has it.

use super::layout::MAX;
use super::number::{Mode, mode};
use crate::engine::{self, Access};
use crate::thread;
use core::cell::Cell;
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

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
        Some(here) if by_ids || here.with(|engine| engine.thread().is_without_slot) => {
            here.with(|engine| engine.thread().slot)
        }
        None if by_ids => Some(own_slot()),
        _ => Some(thread::fallback_slot().load(Ordering::Relaxed)),
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

/// As many ids as CPUs.
pub fn most() -> Option<usize> {
    engine::here().map(|here| here.with(|engine| engine.cpus()))
}

/// Outside simulations each host thread has a slot.
static TAKEN: [AtomicBool; MAX] = [const { AtomicBool::new(false) }; MAX];
/// Outside simulations one section runs at a time, and a restart waits for its end. Only simulations have signal
/// handlers and forks in the middle of a section.
static SECTION: Mutex<()> = Mutex::new(());

/// Frees the slot when the thread ends.
struct Own(Cell<Option<usize>>);

thread_local! {
    static OWN: Own = const { Own(Cell::new(None)) };
}

impl Drop for Own {
    fn drop(&mut self) {
        if let Some(slot) = self.0.get() {
            TAKEN[slot].store(false, Ordering::Release);
        }
    }
}

fn own_slot() -> u32 {
    OWN.with(|own| {
        let slot = own.0.get().unwrap_or_else(take);
        own.0.set(Some(slot));
        slot as u32
    })
}

fn take() -> usize {
    let free = |slot: &usize| !TAKEN[*slot].swap(true, Ordering::Acquire);
    (0..MAX).find(free).expect("as many slots as host threads")
}

/// Keeps other host threads out of sections.
pub fn enter_section() -> MutexGuard<'static, ()> {
    SECTION.lock().unwrap_or_else(PoisonError::into_inner)
}
