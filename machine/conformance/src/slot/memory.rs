//! Zeroed memory of a test's own.

use machine::vm;

/// A mapping, given back when dropped.
#[derive(Debug)]
pub struct Memory {
    start: *mut u8,
    bytes: usize,
}

// SAFETY: all access to it is atomic, or that of operations under test.
unsafe impl Sync for Memory {}
// SAFETY: it owns its mapping.
unsafe impl Send for Memory {}

impl Memory {
    /// So many bytes, and what is missing to whole pages.
    pub fn new(bytes: usize) -> Result<Self, String> {
        let bytes = bytes.next_multiple_of(vm::PAGE);
        let start = vm::reserve(core::ptr::null_mut(), bytes, vm::Access::ReadWrite).ok_or("no address space")?;
        Ok(Memory { start, bytes })
    }

    /// What lies at an offset.
    pub fn at(&self, offset: usize) -> *mut u8 {
        self.start.wrapping_add(offset)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and whoever could use it has borrowed us.
        unsafe { vm::release(self.start, self.bytes) };
    }
}
