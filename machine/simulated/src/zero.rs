//! Making memory zero, which costs a simulated CPU as many lines as there are.

use crate::engine::{self, Access};

/// Makes bytes zero.
///
/// # Safety
/// They are the caller's, and nobody else looks at them meanwhile.
pub unsafe fn zero(at: *mut u8, bytes: usize) {
    if let Some(here) = engine::here() {
        here.step(Access::Zero { at: at.expose_provenance(), bytes });
        // They change their role: what waits for them comes before.
        here.with(|engine| engine.drain_own());
    }
    // SAFETY: passed on.
    unsafe { at.write_bytes(0, bytes) };
}
