//! Making memory zero.

/// Makes bytes zero, by plain writes.
///
/// # Safety
/// They are the caller's, and nobody else looks at them meanwhile.
#[inline(always)]
pub unsafe fn zero(at: *mut u8, bytes: usize) {
    // SAFETY: passed on.
    unsafe { at.write_bytes(0, bytes) };
}
