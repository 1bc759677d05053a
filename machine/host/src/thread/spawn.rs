//! Threads of the runtime itself.

use super::identity::without_signals;
use crate::sandbox::{self, Passage};
use crate::syscall;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::{forget, transmute};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};

/// The work of such a thread.
#[derive(Debug)]
pub struct Work {
    /// Name of the thread, up to 15 bytes.
    pub name: &'static CStr,
    /// Its whole work.
    pub job: fn(),
}

type Create = unsafe extern "C" fn(
    thread: *mut usize,
    attributes: *const Attributes,
    start: extern "C" fn(*mut c_void) -> *mut c_void,
    argument: *mut c_void,
) -> c_int;

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    fn pthread_attr_init(attributes: *mut Attributes) -> c_int;
    fn pthread_attr_destroy(attributes: *mut Attributes) -> c_int;
    fn pthread_attr_setstacksize(attributes: *mut Attributes, bytes: usize) -> c_int;
    fn pthread_attr_setdetachstate(attributes: *mut Attributes, state: c_int) -> c_int;
    fn pthread_attr_setinheritsched(attributes: *mut Attributes, inherits: c_int) -> c_int;
    fn pthread_attr_setschedpolicy(attributes: *mut Attributes, policy: c_int) -> c_int;
}

#[repr(C, align(16))]
struct Attributes([u64; 7]);

/// Enough for functions of the program that our thread calls.
const STACK_BYTES: usize = 2 << 20;

/// The C library's own `pthread_create`, as a program's may call malloc under a lock. Null: not looked up yet.
static CREATE: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// Looks up functions for [`spawn`], under a lock of the loader.
pub fn prepare_to_spawn() {
    const LAZY: c_int = 1;
    const NO_LOAD: c_int = 4;
    // SAFETY: null, or a function of this type, visible to all. Importing it would slow down each start.
    let open = unsafe {
        transmute::<*mut c_void, Option<unsafe extern "C" fn(*const c_char, c_int) -> *mut c_void>>(dlsym(
            null_mut(),
            c"dlopen".as_ptr(),
        ))
    };
    let Some(open) = open else { return };
    // Before glibc 2.34, threads had a library of their own.
    for library in [c"libc.so.6", c"libpthread.so.0"] {
        // SAFETY: names end with a zero byte. This loads no library, and the C library is never unloaded.
        let found = unsafe {
            let library = open(library.as_ptr(), LAZY | NO_LOAD);
            if library.is_null() { null_mut() } else { dlsym(library, c"pthread_create".as_ptr()) }
        };
        if !found.is_null() {
            // Relaxed: all threads find the same.
            return CREATE.store(found, Ordering::Relaxed);
        }
    }
}

/// Starts a detached thread that no signal handler of the program interrupts. False: this failed, as in a sandbox. The
/// C library allocates for it, so the caller must hold no lock.
pub fn spawn(work: &'static Work) -> bool {
    const DETACHED: c_int = 1;
    const EXPLICIT: c_int = 1;
    const ORDINARY: c_int = 0;
    let Some(passage) = sandbox::pass() else { return false };
    let (mut thread, mut attributes) = (0, Attributes([0; 7]));
    // We set all attributes. Without them, or without a stack size, the C library reads the program's default under a
    // lock that the calling thread may hold. The thread has ordinary priority, whichever thread creates it.
    if CREATE.load(Ordering::Relaxed).is_null() {
        prepare_to_spawn();
    }
    // SAFETY: null, or a function of this type.
    let create = unsafe { transmute::<*mut c_void, Option<Create>>(CREATE.load(Ordering::Relaxed)) };
    let Some(create) = create else { return false };
    // SAFETY: the attributes are ours and initialised before use; the work lives as long as the process.
    unsafe {
        if pthread_attr_init(&mut attributes) != 0 {
            return false;
        }
        pthread_attr_setstacksize(&mut attributes, STACK_BYTES);
        pthread_attr_setdetachstate(&mut attributes, DETACHED);
        pthread_attr_setinheritsched(&mut attributes, EXPLICIT);
        pthread_attr_setschedpolicy(&mut attributes, ORDINARY);
        // A thread begins with its parent's signal mask, and this one keeps it.
        let is_made =
            without_signals(|| create(&mut thread, &attributes, begin, (&raw const *work).cast_mut().cast()) == 0);
        pthread_attr_destroy(&mut attributes);
        if is_made {
            // The new thread has it, because the C library begins it with unusual calls.
            forget(passage);
        }
        is_made
    }
}

extern "C" fn begin(work: *mut c_void) -> *mut c_void {
    const SET_NAME: usize = 15;
    const UNBLOCK: usize = 1;
    const SET_BYTES: usize = 8;
    /// Signals 32, to end a thread, and 33, to change users.
    static OF_C_LIBRARY: u64 = 0b11 << 31;
    // The C library's own signals stay unblocked: when a program changes its user or group, each thread must take part,
    // and all wait for it. SAFETY: the kernel reads one set of signals.
    let _ =
        unsafe { syscall::call(syscall::RT_SIGPROCMASK, [UNBLOCK, (&raw const OF_C_LIBRARY) as usize, 0, SET_BYTES]) };
    // SAFETY: `spawn` was given a reference.
    let work: &'static Work = unsafe { &*work.cast() };
    // SAFETY: the name ends with a zero byte. If this fails, the thread has its parent's name.
    let _ = unsafe { syscall::call(syscall::PRCTL, [SET_NAME, work.name.as_ptr() as usize]) };
    drop(Passage);
    (work.job)();
    null_mut()
}
