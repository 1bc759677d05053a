//! Error numbers in the C library's `errno`.

/// Why a call failed, by Linux's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Error {
    /// Try again.
    Again = 11,
    /// Out of memory.
    OutOfMemory = 12,
    /// In use.
    Busy = 16,
    /// Invalid argument.
    Invalid = 22,
}
