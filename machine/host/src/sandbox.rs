//! Sandboxes: system-call filters that may be present, and the calls that they allow.
//!
//! A program cannot ask for a filter, because the filter may kill it for that call. So code that learns of a coming
//! filter says so before, by [`enter`]. From then on, kicks and calls that are not usual
//! fail here. This lasts for ever, also in fork children, as filters do. Runs at the same time: all threads.

use crate::sync::{AtomicBool, AtomicU32, Ordering, wait};
use crate::{clock, process};

/// Longest wait of [`enter`]: calls of a fork parent's other threads never end, nor one that a handler interrupted.
const LONGEST_NS: u64 = 100_000_000;
const LOOK_NS: u64 = 100_000;

early_state! {
    static IS_ON: AtomicBool = AtomicBool::new(false);
    /// Threads in an unusual call, or about to check for one.
    static PASSING: AtomicU32 = AtomicU32::new(0);
    static PROCESS: AtomicU32 = AtomicU32::new(0);
}

/// After the return, no thread makes an unusual call. Idempotent.
pub fn enter() {
    PROCESS.store(process::id(), Ordering::Relaxed);
    // SeqCst pairs with `pass`: either we see a passing thread below, or it sees that it must not pass.
    IS_ON.store(true, Ordering::SeqCst);
    let until = clock::now_ns() + LONGEST_NS;
    loop {
        // Acquire pairs with the release in `drop`.
        let passing = PASSING.load(Ordering::SeqCst);
        if passing == 0 || clock::now_ns() >= until {
            return;
        }
        wait(&PASSING, passing, LOOK_NS);
    }
}

/// Whether [`enter`] was called.
#[inline]
pub fn is_on() -> bool {
    IS_ON.load(Ordering::Relaxed)
}

/// The process that entered; a child cannot ask for its own number.
pub(crate) fn process() -> u32 {
    PROCESS.load(Ordering::Relaxed)
}

/// Permission for an unusual call, until dropped.
pub(crate) struct Passage;

/// None: the call must not be made.
pub(crate) fn pass() -> Option<Passage> {
    // SeqCst: see `enter`.
    PASSING.fetch_add(1, Ordering::SeqCst);
    let passage = Passage;
    (!IS_ON.load(Ordering::SeqCst)).then_some(passage)
}

impl Drop for Passage {
    fn drop(&mut self) {
        PASSING.fetch_sub(1, Ordering::Release);
    }
}
