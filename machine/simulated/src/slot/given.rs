//! The thread's slot, as the simulated kernel or, in fallback mode, the thread's own block has it.

use super::layout::MAX;
use super::number::{Mode, mode};
use crate::engine::{self, Access};
use crate::thread;
use core::cell::Cell;
use core::sync::atomic::{AtomicBool, Ordering};

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
        None if by_ids => Some(own_slot()),
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

/// Outside simulations each host thread has a slot, and a section is atomic because a restart waits for its end. Only
/// simulations have signal handlers and forks in the middle of a section.
static TAKEN: [AtomicBool; MAX] = [const { AtomicBool::new(false) }; MAX];
/// A section runs in the slot.
static BUSY: [AtomicBool; MAX] = [const { AtomicBool::new(false) }; MAX];

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

pub fn own_slot() -> u32 {
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

/// Marks the start of a section in this host thread's slot, which orders the section's accesses, as its end does.
pub fn begin_section() {
    BUSY[own_slot() as usize].store(true, Ordering::SeqCst);
}

pub fn end_section() {
    BUSY[own_slot() as usize].store(false, Ordering::SeqCst);
}

/// Waits until all running sections are over.
pub fn wait_for_sections() {
    for (slot, busy) in BUSY.iter().enumerate() {
        while slot as u32 != own_slot() && busy.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
    }
}
