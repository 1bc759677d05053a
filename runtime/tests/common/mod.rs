//! What the tests of the heap share.
//!
//! The heap under test is `commensal::heap`, one for each process; the tests themselves allocate from the system's allocator. So
//! a test either holds [`alone`] while it uses the heap, or runs itself again in a process of its own ([`child`]).

#![allow(dead_code, reason = "each test binary uses its part")]

pub mod blocks;
pub mod child;
pub mod forked;
pub mod model;
pub mod planted;
pub mod random;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Keeps the other tests of this binary out of the heap, so that its invariants can be checked at rest.
pub fn alone() -> MutexGuard<'static, ()> {
    static HEAP: Mutex<()> = Mutex::new(());
    HEAP.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Seconds that the longer tests take: what COMMENSAL_STRESS_SECONDS says, else `usual`.
pub fn seconds(usual: f64) -> f64 {
    let set = std::env::var("COMMENSAL_STRESS_SECONDS").ok();
    set.map_or(usual, |text| text.parse().expect("COMMENSAL_STRESS_SECONDS is a number"))
}
