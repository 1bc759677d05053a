//! Zeroing memory. A simulated CPU pays for each line.

use crate::engine::{self, Access};

/// Zeroes bytes.
///
/// # Safety
/// The caller owns them, and no other code looks at them meanwhile.
pub unsafe fn zero(at: *mut u8, bytes: usize) {
    if let Some(here) = engine::here() {
        here.step(Access::Zero { at: at.expose_provenance(), bytes });
        // They change their role, so stores that wait for them come before.
        here.with(|engine| engine.drain_own());
    }
    // SAFETY: passed on.
    unsafe { at.write_bytes(0, bytes) };
}
