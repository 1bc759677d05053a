//! Zeroing memory.

/// Zeroes bytes by plain writes.
///
/// # Safety
/// The caller owns them, and no other code looks at them meanwhile.
#[inline(always)]
pub unsafe fn zero(at: *mut u8, bytes: usize) {
    // SAFETY: passed on.
    unsafe { at.write_bytes(0, bytes) };
}
