//! The C++ operators new and delete, by their mangled names.
//!
//! A throwing `new` that finds no memory calls the program's new-handler until there is some or no handler is left, and then
//! throws `std::bad_alloc`, both through libstdc++'s own symbols: the C++ library is there in every program that calls
//! these operators, and nowhere else, so it is looked up by name and not linked.
//!
//! Safety, for all of them: as the C++ standard says; pointers come from this library and are the caller's to give up.

use core::ffi::{CStr, c_char, c_void};
use core::ptr::null_mut;
use runtime::heap;

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// Looks a C++ library's function up among everything that is loaded.
fn look_up(name: &CStr) -> *mut c_void {
    // SAFETY: the name ends with a zero byte; the null handle means the default search order.
    unsafe { dlsym(null_mut(), name.as_ptr()) }
}

/// What `new` does when there is no memory: retries for as long as a new-handler runs. Null: none is installed.
#[cold]
fn retry(mut attempt: impl FnMut() -> *mut u8) -> *mut u8 {
    let get = look_up(c"_ZSt15get_new_handlerv");
    if get.is_null() {
        return null_mut();
    }
    // SAFETY: this is `std::get_new_handler`, which returns a function without arguments or null. `C-unwind`: the
    // handler may throw, through us.
    let get: extern "C" fn() -> Option<extern "C-unwind" fn()> = unsafe { core::mem::transmute(get) };
    while let Some(handler) = get() {
        handler();
        let block = attempt();
        if !block.is_null() {
            return block;
        }
    }
    null_mut()
}

/// Throws `std::bad_alloc`.
#[cold]
fn throw() -> ! {
    let throw = look_up(c"_ZSt17__throw_bad_allocv");
    if throw.is_null() {
        heap::report::give_up("operator new found no memory, and no C++ library to throw std::bad_alloc")
    }
    // SAFETY: this is `std::__throw_bad_alloc`, which takes nothing and does not return.
    let throw: extern "C-unwind" fn() -> ! = unsafe { core::mem::transmute(throw) };
    throw()
}

#[inline(always)]
fn new(mut attempt: impl FnMut() -> *mut u8) -> *mut c_void {
    let block = attempt();
    if !block.is_null() {
        return block.cast();
    }
    let block = retry(attempt);
    if block.is_null() { throw() } else { block.cast() }
}

#[inline(always)]
fn new_nothrow(mut attempt: impl FnMut() -> *mut u8) -> *mut c_void {
    let block = attempt();
    if block.is_null() { retry(attempt).cast() } else { block.cast() }
}

extern "C-unwind" fn new_slow(bytes: usize) -> *mut c_void {
    new(|| heap::allocate_slow(bytes))
}

runtime::c_entries! {
    take _Znwm or new_slow;
    take _Znam or new_slow;
    put
    /// # Safety
    /// See the module.
    _ZdlPv;
    put
    /// # Safety
    /// See the module.
    _ZdaPv;
}

macro_rules! operators_new {
    ($($nothrow:ident $aligned:ident $aligned_nothrow:ident)*) => {$(
        #[unsafe(no_mangle)]
        pub extern "C-unwind" fn $nothrow(bytes: usize, _nothrow: *const c_void) -> *mut c_void {
            new_nothrow(|| heap::allocate(bytes))
        }

        #[unsafe(no_mangle)]
        pub extern "C-unwind" fn $aligned(bytes: usize, alignment: usize) -> *mut c_void {
            new(|| heap::allocate_aligned(bytes, alignment))
        }

        #[unsafe(no_mangle)]
        pub extern "C-unwind" fn $aligned_nothrow(bytes: usize, alignment: usize, _nothrow: *const c_void) -> *mut c_void {
            new_nothrow(|| heap::allocate_aligned(bytes, alignment))
        }
    )*};
}

macro_rules! operators_delete {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => {$(
        /// # Safety
        /// See the module.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(block: *mut c_void $(, $argument: $type)*) {
            // SAFETY: passed on.
            unsafe { heap::free(block.cast()) }
        }
    )*};
}

operators_new! {
    _ZnwmRKSt9nothrow_t _ZnwmSt11align_val_t _ZnwmSt11align_val_tRKSt9nothrow_t
    _ZnamRKSt9nothrow_t _ZnamSt11align_val_t _ZnamSt11align_val_tRKSt9nothrow_t
}

operators_delete! {
    _ZdlPvm(_bytes: usize);
    _ZdlPvRKSt9nothrow_t(_nothrow: *const c_void);
    _ZdlPvSt11align_val_t(_alignment: usize);
    _ZdlPvmSt11align_val_t(_bytes: usize, _alignment: usize);
    _ZdlPvSt11align_val_tRKSt9nothrow_t(_alignment: usize, _nothrow: *const c_void);
    _ZdaPvm(_bytes: usize);
    _ZdaPvRKSt9nothrow_t(_nothrow: *const c_void);
    _ZdaPvSt11align_val_t(_alignment: usize);
    _ZdaPvmSt11align_val_t(_bytes: usize, _alignment: usize);
    _ZdaPvSt11align_val_tRKSt9nothrow_t(_alignment: usize, _nothrow: *const c_void);
}
