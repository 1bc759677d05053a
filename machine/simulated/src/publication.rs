//! Memory that others may look at: on a simulated machine nobody does, and there are no files.

use crate::vm;
use core::ffi::CStr;
use core::ops::Range;

/// Where something was published. Zeroes are nowhere.
#[derive(Debug)]
#[repr(C)]
pub struct Place {
    unused: u8,
}

impl Place {
    /// Nowhere.
    pub const fn nowhere() -> Self {
        Place { unused: 0 }
    }

    /// There is no file.
    pub fn path(&self) -> &CStr {
        c""
    }
}

/// Zeroes of the process's own.
pub fn publish(_: &mut Place, bytes: usize) -> Result<*mut u8, &'static str> {
    vm::reserve(core::ptr::null_mut(), bytes.next_multiple_of(vm::PAGE), vm::Access::ReadWrite)
        .ok_or("there is no memory")
}

/// Nobody looks.
pub fn update(_: &Place, _: Range<usize>) -> bool {
    true
}

/// Nothing is there.
pub fn withdraw(_: &mut Place) {}
