//! Sandboxes: whether a filter of system calls may be there, and so which calls may be made.
//!
//! A filter cannot be asked whether it is there: asking is a call that it may kill the program for. So whoever learns
//! that one is about to come says so before, by [`enter`]. From then on calls that are not
//! [usual](crate::syscall::is_usual) fail here, as if the kernel had refused them; kicks do, too. That is for good, and
//! for fork children as well, as filters are.
//!
//! Runs at the same time: all threads.

use crate::sync::{AtomicBool, AtomicU32, Ordering, wait};
use crate::{clock, process};

/// What [`enter`] waits at most. In a fork child nobody ends the calls of the parent's other threads, and a handler may
/// have interrupted one.
const LONGEST_NS: u64 = 100_000_000;
/// Between two looks.
const LOOK_NS: u64 = 100_000;

process_state! {
    static IS_ON: AtomicBool = AtomicBool::new(false);
    /// Threads that are in an unusual call, or about to look whether they may make one.
    static PASSING: AtomicU32 = AtomicU32::new(0);
    /// The number of the process that entered.
    static PROCESS: AtomicU32 = AtomicU32::new(0);
}

/// From the return on, no thread makes an unusual call. Idempotent.
pub fn enter() {
    PROCESS.store(process::id(), Ordering::Relaxed);
    // SeqCst pairs with `pass`: either whoever passes is seen below, or sees that it must not.
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

/// Whether somebody said so.
#[inline]
pub fn is_on() -> bool {
    IS_ON.load(Ordering::Relaxed)
}

/// The number of the process that entered: a child cannot ask for its own.
pub(crate) fn process() -> u32 {
    PROCESS.load(Ordering::Relaxed)
}

/// Leave to make an unusual call, until it is dropped.
pub(crate) struct Passage;

/// None: it must not be made.
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
