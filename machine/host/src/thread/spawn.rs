//! Threads of the runtime's own.

use super::identity::without_signals;
use crate::syscall;
use core::ffi::{CStr, c_int, c_void};
use core::ptr::{null, null_mut};

/// What a thread of the runtime's own does.
#[derive(Debug)]
pub struct Work {
    /// Its name, for those who look at the process: up to 15 bytes.
    pub name: &'static CStr,
    /// All that it does.
    pub job: fn(),
}

unsafe extern "C" {
    fn pthread_create(
        thread: *mut usize,
        attributes: *const c_void,
        start: extern "C" fn(*mut c_void) -> *mut c_void,
        argument: *mut c_void,
    ) -> c_int;
    fn pthread_detach(thread: usize) -> c_int;
}

/// Starts a thread that no signal handler interrupts, and that nobody waits for. False: none could be made. The C library allocates for it, so
/// whoever calls holds no lock.
pub fn spawn(work: &'static Work) -> bool {
    let mut thread = 0;
    // A thread begins with the signals of its parent, and this one keeps them.
    without_signals(|| {
        // SAFETY: the work lives as long as the process.
        unsafe { pthread_create(&mut thread, null(), begin, (&raw const *work).cast_mut().cast()) == 0 }
    }) && {
        // SAFETY: made above, and nobody joins it.
        unsafe { pthread_detach(thread) };
        true
    }
}

extern "C" fn begin(work: *mut c_void) -> *mut c_void {
    const SET_NAME: usize = 15;
    // SAFETY: `spawn` was given a reference.
    let work: &'static Work = unsafe { &*work.cast() };
    // SAFETY: the name ends with a zero byte. If it cannot be set, the thread has its parent's.
    let _ = unsafe { syscall::call(syscall::PRCTL, [SET_NAME, work.name.as_ptr() as usize, 0, 0, 0, 0]) };
    (work.job)();
    null_mut()
}
