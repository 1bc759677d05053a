//! Files that a report goes to, and files in which the kernel tells of the process.
//!
//! All calls are made directly, and allocate nothing. In a sandbox, files can only be written.

use crate::syscall::{self, Errno};
use core::ffi::CStr;

const AT_FDCWD: usize = -100isize as usize;
const CLOSE_ON_EXEC: usize = 0o2_000_000;
const INTERRUPTED: Errno = Errno(4);

/// A file that is open until this is dropped.
#[derive(Debug)]
pub struct File(usize);

impl File {
    /// Opens a file to be read.
    ///
    /// # Errors
    /// A number of `errno`.
    pub fn open(path: &CStr) -> Result<Self, i32> {
        Self::with(path, CLOSE_ON_EXEC)
    }

    /// Opens a file to be written, as an empty one that others cannot read if it is new.
    ///
    /// # Errors
    /// A number of `errno`.
    pub fn create(path: &CStr) -> Result<Self, i32> {
        const WRITE: usize = 1;
        const CREATE: usize = 0o100;
        const TRUNCATE: usize = 0o1000;
        Self::with(path, WRITE | CREATE | TRUNCATE | CLOSE_ON_EXEC)
    }

    fn with(path: &CStr, flags: usize) -> Result<Self, i32> {
        const OWNERS: usize = 0o600;
        let arguments = [AT_FDCWD, path.as_ptr() as usize, flags, OWNERS];
        // SAFETY: the path ends with a zero.
        unsafe { syscall::call(syscall::OPENAT, arguments) }.map(File).map_err(|error| error.0)
    }

    /// Its descriptor.
    pub fn descriptor(&self) -> i32 {
        self.0 as i32
    }

    /// Reads what comes next into a buffer, and returns how many bytes; 0: the end.
    ///
    /// # Errors
    /// A number of `errno`.
    pub fn read(&self, buffer: &mut [u8]) -> Result<usize, i32> {
        loop {
            // SAFETY: the kernel writes into the buffer.
            match unsafe { syscall::call(syscall::READ, [self.0, buffer.as_mut_ptr() as usize, buffer.len()]) } {
                Err(INTERRUPTED) => {}
                read => return read.map_err(|error| error.0),
            }
        }
    }
}

impl Drop for File {
    fn drop(&mut self) {
        syscall::close(self.0);
    }
}

/// Writes bytes to a descriptor, all of them.
///
/// # Errors
/// A number of `errno`. Some bytes may have been written.
pub fn write(descriptor: i32, bytes: &[u8]) -> Result<(), i32> {
    let mut rest = bytes;
    while !rest.is_empty() {
        // SAFETY: the kernel reads `rest`.
        match unsafe { syscall::call(syscall::WRITE, [descriptor as usize, rest.as_ptr() as usize, rest.len()]) } {
            Ok(written) => rest = &rest[written..],
            Err(INTERRUPTED) => {}
            Err(error) => return Err(error.0),
        }
    }
    Ok(())
}
