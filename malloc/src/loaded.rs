//! The calls to the C library's loader: finding functions of other objects by name, and keeping this library loaded.
//!
//! Each imported function takes time at the start of each process. So only `dlsym` is imported, and the others are
//! looked up when they are needed.

use core::arch::asm;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::{MaybeUninit, transmute_copy};
use core::ptr::null_mut;

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
}

type Open = unsafe extern "C" fn(path: *const c_char, flags: c_int) -> *mut c_void;
type Close = unsafe extern "C" fn(handle: *mut c_void) -> c_int;
type Address = unsafe extern "C" fn(address: *const c_void, object: *mut ObjectOf) -> c_int;

/// `dladdr`'s answer.
#[repr(C)]
struct ObjectOf {
    path: *const c_char,
    base: *mut c_void,
    symbol: *const c_char,
    address: *mut c_void,
}

const LAZY: c_int = 1;
const NO_LOAD: c_int = 4;
const NO_DELETE: c_int = 0x1000;

/// The function of this name in the global scope.
///
/// # Safety
/// `F` is the type of a function of that name.
unsafe fn function<F: Copy>(name: &CStr) -> Option<F> {
    // SAFETY: the name ends with a zero byte; the null handle means the default search order.
    let found = unsafe { dlsym(null_mut(), name.as_ptr()) };
    // SAFETY: passed on.
    (!found.is_null()).then(|| unsafe { transmute_copy(&found) })
}

/// The function of this name that comes after this library's in the search order. Null: there is none.
pub fn next(name: &CStr) -> *mut c_void {
    const NEXT: *mut c_void = -1isize as *mut c_void;
    // SAFETY: the name ends with a zero byte.
    unsafe { dlsym(NEXT, name.as_ptr()) }
}

/// The function of the C++ library that code at an address would find: in the global scope, then in its own object and
/// that object's dependencies, then in the loaded library. Null: there is none.
pub fn look_up(name: &CStr, from: *const c_void) -> *mut c_void {
    // SAFETY: functions are pointers.
    unsafe { function::<*mut c_void>(name) }.unwrap_or_else(|| look_up_beside(name, from))
}

/// [`look_up`] without the global scope.
pub fn look_up_beside(name: &CStr, from: *const c_void) -> *mut c_void {
    let places = [path_of(from), Some(c"libstdc++.so.6".as_ptr())];
    places.into_iter().flatten().map(|path| look_up_in(path, name)).find(|found| !found.is_null()).unwrap_or(null_mut())
}

/// The path of the object that contains an address.
fn path_of(address: *const c_void) -> Option<*const c_char> {
    let mut object = MaybeUninit::<ObjectOf>::uninit();
    // SAFETY: `dladdr` fills it if it does not return 0; the path is then a string.
    unsafe {
        let ask = function::<Address>(c"dladdr")?;
        (ask(address, object.as_mut_ptr()) != 0).then(|| object.assume_init().path)
    }
}

/// A function of a loaded object or of its dependencies.
fn look_up_in(path: *const c_char, name: &CStr) -> *mut c_void {
    // SAFETY: both are strings. Nothing is loaded, so nothing of it runs; what is loaded stays, as its code is running.
    unsafe {
        let (Some(open), Some(close)) = (function::<Open>(c"dlopen"), function::<Close>(c"dlclose")) else {
            return null_mut();
        };
        let object = open(path, LAZY | NO_LOAD);
        if object.is_null() {
            return null_mut();
        }
        let found = dlsym(object, name.as_ptr());
        close(object);
        found
    }
}

/// Keeps the object that contains this code loaded for ever. Restartable sequences leave a pointer to their descriptor
/// in each thread, and threads end in functions of this library. The shared library is linked so that it stays; a
/// plugin with the archive may not be.
pub fn stay() {
    if is_of_plugin()
        && let Some(path) = path_of(stay as fn() as *const c_void)
        // SAFETY: a function of this type; the path is that of an object that is loaded. Its handle is kept for ever.
        && let Some(open) = unsafe { function::<Open>(c"dlopen") }
    {
        // SAFETY: as above.
        unsafe { open(path, LAZY | NO_LOAD | NO_DELETE) };
    }
}

/// Whether the object that contains this code is not a program, and may be unloaded.
fn is_of_plugin() -> bool {
    const END: usize = 0;
    /// Only programs have this, for debuggers.
    const DEBUG: usize = 21;
    const FLAGS_1: usize = 0x6fff_fffb;
    const STAYS: usize = 8;
    let mut entry: *const [usize; 2];
    // SAFETY: takes the address of the object's own table, or null if it has none.
    unsafe {
        asm!(
            ".weak _DYNAMIC", ".hidden _DYNAMIC", "lea {0}, [rip + _DYNAMIC]",
            out(reg) entry, options(pure, nomem, nostack, preserves_flags)
        );
    }
    if entry.is_null() {
        return false;
    }
    loop {
        // SAFETY: the table goes on until its end.
        match unsafe { *entry } {
            [END, _] => return true,
            [DEBUG, _] => return false,
            [FLAGS_1, flags] if flags & STAYS != 0 => return false,
            // SAFETY: as above.
            _ => entry = unsafe { entry.add(1) },
        }
    }
}
