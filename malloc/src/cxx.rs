//! The C++ operators new and delete, by their mangled names.
//!
//! A throwing `new` that finds no memory calls the program's new-handler until there is some or no handler is left, and then
//! throws `std::bad_alloc`, both through libstdc++'s own symbols: the C++ library is there in every program that calls
//! these operators, and nowhere else, so it is looked up by name and not linked. A handler or the throw unwinds through the
//! frame of `new`, so that frame is written in assembly, with unwind information by hand: Rust code that aborts on panic lets
//! no exception through. A `new` that must not throw leaves its slow path to libstdc++'s, which catches what ours throws.
//!
//! Safety, for all of them: as the C++ standard says; pointers come from this library and are the caller's to give up.

use commensal::heap;
use core::arch::naked_asm;
use core::ffi::{CStr, c_char, c_void};
use core::ptr::null_mut;

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// Looks a function up among everything that is loaded.
fn look_up(name: &CStr) -> *mut c_void {
    // SAFETY: the name ends with a zero byte; the null handle means the default search order.
    unsafe { dlsym(null_mut(), name.as_ptr()) }
}

/// The program's new-handler; null if there is none.
extern "C" fn new_handler() -> *mut c_void {
    let get = look_up(c"_ZSt15get_new_handlerv");
    if get.is_null() {
        return null_mut();
    }
    // SAFETY: this is `std::get_new_handler`, which returns a function pointer or null, and does not throw.
    unsafe { core::mem::transmute::<*mut c_void, extern "C" fn() -> *mut c_void>(get)() }
}

/// The function that throws `std::bad_alloc`.
extern "C" fn thrower() -> *mut c_void {
    let throw = look_up(c"_ZSt17__throw_bad_allocv");
    if throw.is_null() {
        heap::report::give_up("operator new found no memory, and no C++ library to throw std::bad_alloc")
    }
    throw
}

/// Defines a function of (bytes, alignment) that tries `$attempt` until it gives a block, calling the new-handler in between,
/// and throws when there is none.
macro_rules! new_or_throw {
    ($(#[$attribute:meta])* $name:ident tries $attempt:path) => {
        $(#[$attribute])*
        #[unsafe(naked)]
        pub extern "C-unwind" fn $name(bytes: usize, alignment: usize) -> *mut c_void {
            naked_asm!(
                ".cfi_startproc",
                "push rbx",
                ".cfi_adjust_cfa_offset 8",
                ".cfi_offset rbx, -16",
                "push r12",
                ".cfi_adjust_cfa_offset 8",
                ".cfi_offset r12, -24",
                "sub rsp, 8",
                ".cfi_adjust_cfa_offset 8",
                "mov rbx, rdi",
                "mov r12, rsi",
                "2: mov rdi, rbx",
                "mov rsi, r12",
                "call {attempt}",
                "test rax, rax",
                "jnz 3f",
                "call {handler}",
                "test rax, rax",
                "jz 4f",
                "call rax",
                "jmp 2b",
                "4: call {thrower}",
                "call rax",
                "ud2",
                "3: add rsp, 8",
                ".cfi_adjust_cfa_offset -8",
                "pop r12",
                ".cfi_adjust_cfa_offset -8",
                "pop rbx",
                ".cfi_adjust_cfa_offset -8",
                "ret",
                ".cfi_endproc",
                attempt = sym $attempt,
                handler = sym new_handler,
                thrower = sym thrower,
            )
        }
    };
}

extern "C" fn attempt_aligned(bytes: usize, alignment: usize) -> *mut u8 {
    heap::allocate_aligned(bytes, alignment)
}

new_or_throw!(new_slow tries heap::allocate_slow);
new_or_throw!(#[unsafe(no_mangle)] _ZnwmSt11align_val_t tries attempt_aligned);
new_or_throw!(#[unsafe(no_mangle)] _ZnamSt11align_val_t tries attempt_aligned);

commensal::c_entries! {
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

/// What libstdc++'s operator of the given name makes of it: it calls ours that throws, and catches. Null without one.
fn left_to_the_library(name: &CStr) -> Option<*mut c_void> {
    const NEXT: *mut c_void = -1isize as *mut c_void;
    // SAFETY: the name ends with a zero byte.
    let theirs = unsafe { dlsym(NEXT, name.as_ptr()) };
    (!theirs.is_null()).then_some(theirs)
}

macro_rules! operators_new_nothrow {
    ($($name:ident $aligned:ident)*) => {$(
        #[unsafe(no_mangle)]
        pub extern "C" fn $name(bytes: usize, nothrow: *const c_void) -> *mut c_void {
            let block = heap::allocate(bytes);
            if !block.is_null() {
                return block.cast();
            }
            // SAFETY: the name ends with a zero byte; the function is an operator new of these parameters.
            unsafe {
                let name = CStr::from_bytes_with_nul_unchecked(concat!(stringify!($name), "\0").as_bytes());
                left_to_the_library(name).map_or(null_mut(), |theirs| {
                    core::mem::transmute::<*mut c_void, extern "C" fn(usize, *const c_void) -> *mut c_void>(theirs)(bytes, nothrow)
                })
            }
        }

        #[unsafe(no_mangle)]
        pub extern "C" fn $aligned(bytes: usize, alignment: usize, nothrow: *const c_void) -> *mut c_void {
            let block = heap::allocate_aligned(bytes, alignment);
            if !block.is_null() {
                return block.cast();
            }
            // SAFETY: as above.
            unsafe {
                let name = CStr::from_bytes_with_nul_unchecked(concat!(stringify!($aligned), "\0").as_bytes());
                left_to_the_library(name).map_or(null_mut(), |theirs| {
                    let theirs: extern "C" fn(usize, usize, *const c_void) -> *mut c_void = core::mem::transmute(theirs);
                    theirs(bytes, alignment, nothrow)
                })
            }
        }
    )*};
}

operators_new_nothrow! {
    _ZnwmRKSt9nothrow_t _ZnwmSt11align_val_tRKSt9nothrow_t
    _ZnamRKSt9nothrow_t _ZnamSt11align_val_tRKSt9nothrow_t
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
