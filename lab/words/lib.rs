//! A library with the names of the real one's counters, which are words: atomic ones, or plain ones for one thread (`--cfg plain`).
//!
//! The experiment on counters preloads it in the real one's place. So an addition through a call is compared with one through a call
//! of the same kind, to a library that lies as far away.
#![no_std]

use core::ffi::c_int;
use core::panic::PanicInfo;
use core::sync::atomic::{AtomicI64, Ordering};

#[link(name = "c")]
unsafe extern "C" {
    safe fn abort() -> !;
}

/// Adds to the counter.
///
/// # Safety
/// The word is there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_counter_add(counter: *const AtomicI64, amount: i64) {
    // SAFETY: the caller's.
    let word = unsafe { &*counter };
    if cfg!(plain) {
        word.store(word.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
    } else {
        word.fetch_add(amount, Ordering::Relaxed);
    }
}

/// Nothing need be done for a second sharer.
#[unsafe(no_mangle)]
pub extern "C" fn cm_counter_share(_: *const AtomicI64) -> c_int {
    0
}

/// The counter's value.
///
/// # Safety
/// The word is there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_counter_sum(counter: *const AtomicI64) -> i64 {
    // SAFETY: the caller's.
    unsafe { &*counter }.load(Ordering::Relaxed)
}

#[panic_handler]
fn panic(_: &PanicInfo) -> ! {
    abort()
}
