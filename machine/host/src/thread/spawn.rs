//! Threads of the runtime's own.

use super::identity::without_signals;
use crate::sandbox::{self, Passage};
use crate::syscall;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::{forget, transmute};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};

/// What a thread of the runtime's own does.
#[derive(Debug)]
pub struct Work {
    /// Its name, for those who look at the process: up to 15 bytes.
    pub name: &'static CStr,
    /// All that it does.
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

/// The C library's `pthread_attr_t`.
#[repr(C, align(16))]
struct Attributes([u64; 7]);

/// As much as functions may need that a program has called in a thread of ours.
const STACK_BYTES: usize = 2 << 20;

/// The C library's own `pthread_create`: a program may interpose a function of that name that calls malloc under a lock
/// which ours would take. Null: not looked up yet.
static CREATE: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// Looks up what [`spawn`] needs, under a lock of the loader's.
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
    // Before glibc 2.34 it had a library of its own.
    for library in [c"libc.so.6", c"libpthread.so.0"] {
        // SAFETY: names end with a zero byte. Nothing is loaded, and the C library is never unloaded.
        let found = unsafe {
            let library = open(library.as_ptr(), LAZY | NO_LOAD);
            if library.is_null() { null_mut() } else { dlsym(library, c"pthread_create".as_ptr()) }
        };
        if !found.is_null() {
            // Relaxed: everybody finds the same.
            return CREATE.store(found, Ordering::Relaxed);
        }
    }
}

/// Starts a thread that no signal handler of the program's interrupts, and that nobody waits for. False: none could be
/// made, as in a sandbox. The C library allocates for it, so whoever calls holds no lock.
pub fn spawn(work: &'static Work) -> bool {
    const DETACHED: c_int = 1;
    const EXPLICIT: c_int = 1;
    const ORDINARY: c_int = 0;
    let Some(passage) = sandbox::pass() else { return false };
    let (mut thread, mut attributes) = (0, Attributes([0; 7]));
    // We set all attributes: without them, or without a stack size, the C library reads the program's default under a
    // lock that the calling thread may hold. The thread is no more urgent than others, whichever thread creates it.
    if CREATE.load(Ordering::Relaxed).is_null() {
        prepare_to_spawn();
    }
    // SAFETY: null, or a function of this type.
    let create = unsafe { transmute::<*mut c_void, Option<Create>>(CREATE.load(Ordering::Relaxed)) };
    let Some(create) = create else { return false };
    // SAFETY: the attributes are ours, begun before they are used; the work lives as long as the process.
    unsafe {
        if pthread_attr_init(&mut attributes) != 0 {
            return false;
        }
        pthread_attr_setstacksize(&mut attributes, STACK_BYTES);
        pthread_attr_setdetachstate(&mut attributes, DETACHED);
        pthread_attr_setinheritsched(&mut attributes, EXPLICIT);
        pthread_attr_setschedpolicy(&mut attributes, ORDINARY);
        // A thread begins with the signals of its parent, and this one keeps them.
        let is_made =
            without_signals(|| create(&mut thread, &attributes, begin, (&raw const *work).cast_mut().cast()) == 0);
        pthread_attr_destroy(&mut attributes);
        if is_made {
            // It is the thread's, which begins with unusual calls of the C library's.
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
    // The C library's own signals are not blocked: when a program changes its user or group, each thread has to do so,
    // and all wait for it. SAFETY: the kernel reads one set of signals.
    let _ = unsafe {
        syscall::call(syscall::RT_SIGPROCMASK, [UNBLOCK, (&raw const OF_C_LIBRARY) as usize, 0, SET_BYTES, 0, 0])
    };
    // SAFETY: `spawn` was given a reference.
    let work: &'static Work = unsafe { &*work.cast() };
    // SAFETY: the name ends with a zero byte. If it cannot be set, the thread has its parent's.
    let _ = unsafe { syscall::call(syscall::PRCTL, [SET_NAME, work.name.as_ptr() as usize, 0, 0, 0, 0]) };
    drop(Passage);
    (work.job)();
    null_mut()
}
