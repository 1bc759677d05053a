//! Slots outside simulations: each host thread has one, and a section is atomic because a restart waits for its end.
//! Only simulations have signal handlers and forks in the middle of a section.

use super::layout::MAX;
use core::cell::Cell;
use core::sync::atomic::{AtomicBool, Ordering};

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

/// The slot of this host thread.
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

/// Marks the start or end of a section in this host thread's slot, which orders the section's accesses.
pub fn set_busy(busy: bool) {
    BUSY[own_slot() as usize].store(busy, Ordering::SeqCst);
}

/// Waits until all running sections are over.
pub fn wait_for_sections() {
    for (slot, busy) in BUSY.iter().enumerate() {
        while slot as u32 != own_slot() && busy.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
    }
}
