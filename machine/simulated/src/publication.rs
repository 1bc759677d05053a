//! Memory that other processes may read. A simulated machine has no files, and no process reads them.

use crate::vm;
use core::ffi::CStr;
use core::ops::Range;

#[derive(Debug)]
#[repr(C)]
pub struct Place {
    unused: u8,
}

impl Place {
    pub const fn nowhere() -> Self {
        Place { unused: 0 }
    }

    /// Empty: there is no file.
    pub fn path(&self) -> &CStr {
        c""
    }
}

/// Private zeroes.
pub fn publish(_: &mut Place, bytes: usize) -> Result<*mut u8, &'static str> {
    vm::reserve(core::ptr::null_mut(), bytes.next_multiple_of(vm::PAGE), vm::Access::ReadWrite)
        .ok_or("there is no memory")
}

pub fn update(_: &Place, _: Range<usize>) -> bool {
    true
}

pub fn withdraw(_: &Place, _: usize) {}
