//! Error numbers, as the C library's functions leave them in `errno`.

/// Why a call failed: Linux's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Error {
    /// Not now.
    Again = 11,
    /// Memory was not to be had.
    OutOfMemory = 12,
    /// Somebody uses it.
    Busy = 16,
    /// An argument was invalid.
    Invalid = 22,
}
