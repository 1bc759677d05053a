//! The calls that a thread is in: simulated code has no tables, so none is known.

/// Nothing to keep. All-zero memory is valid.
#[derive(Debug)]
#[repr(C)]
pub struct Rows([u64; 0]);

impl Rows {
    pub fn code_of_malloc(&self) -> core::ops::Range<usize> {
        0..0
    }
}

pub fn capture(_: &Rows, _: &mut [usize]) -> usize {
    0
}

pub fn place_of(_: usize) -> Option<(&'static core::ffi::CStr, usize)> {
    None
}
