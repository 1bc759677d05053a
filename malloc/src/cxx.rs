//! The C++ operators new and delete, by their mangled names.
//!
//! Four of them do the work. A program may replace any; all other forms then have to call the ones that it replaced ([new.delete.single] and
//! [new.delete.array] in the C++ standard). So the default of such a form is a jump through the table of addresses that the dynamic linker fills.
//!
//! A throwing `new` that finds no memory calls the program's new-handler until there is some or no handler is left, and then
//! throws `std::bad_alloc`, both through libstdc++'s own symbols: the C++ library is there in every program that calls
//! these operators, and nowhere else, so it is looked up by name and not linked. A plugin may have it for itself (`RTLD_LOCAL`); then it is looked up
//! as the caller's own code would have found it. A handler or the throw unwinds through the
//! frame of `new`, so that frame is written in assembly, with unwind information by hand: Rust code that aborts on panic lets
//! no exception through. A `new` that must not throw leaves its slow path to libstdc++'s, which catches what ours throws.
//!
//! Safety, for all of them: as the C++ standard says; pointers come from this library and are the caller's to give up.

use crate::loaded;
use commensal::heap;
use core::arch::{asm, naked_asm};
use core::ffi::{CStr, c_void};
use core::mem::transmute;
use core::ptr::null_mut;

/// The program's new-handler; null if there is none.
extern "C" fn new_handler(from: *const c_void) -> *mut c_void {
    let get = loaded::look_up(c"_ZSt15get_new_handlerv", from);
    if get.is_null() {
        return null_mut();
    }
    // SAFETY: this is `std::get_new_handler`, which returns a function pointer or null, and does not throw.
    unsafe { transmute::<*mut c_void, extern "C" fn() -> *mut c_void>(get)() }
}

/// The function that throws `std::bad_alloc`.
extern "C" fn thrower(from: *const c_void) -> *mut c_void {
    let throw = loaded::look_up(c"_ZSt17__throw_bad_allocv", from);
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
                commensal::machine::own_label!($name),
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
                "mov rdi, [rsp + 24]",
                "call {handler}",
                "test rax, rax",
                "jz 4f",
                "call rax",
                "jmp 2b",
                "4: mov rdi, [rsp + 24]",
                "call {thrower}",
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

commensal::c_entries! {
    take _Znwm or new_slow;
    put
    /// # Safety
    /// See the module.
    _ZdlPv;
}

/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _ZdlPvSt11align_val_t(block: *mut c_void, _alignment: usize) {
    // SAFETY: passed on.
    unsafe { heap::free(block.cast()) }
}

/// Forms that call another one, by its name: their further arguments are not looked at.
macro_rules! by_another {
    ($($form:ident => $other:ident;)*) => {$(
        #[doc = concat!("Calls `", stringify!($other), "`.")]
        ///
        /// # Safety
        /// See the module.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C-unwind" fn $form() {
            naked_asm!(commensal::machine::own_label!($form), concat!("jmp qword ptr [rip + ", stringify!($other), "@GOTPCREL]"))
        }
    )*};
}

by_another! {
    _Znam => _Znwm;
    _ZnamSt11align_val_t => _ZnwmSt11align_val_t;
    _ZdaPv => _ZdlPv;
    _ZdlPvm => _ZdlPv;
    _ZdlPvRKSt9nothrow_t => _ZdlPv;
    _ZdaPvm => _ZdaPv;
    _ZdaPvRKSt9nothrow_t => _ZdaPv;
    _ZdaPvSt11align_val_t => _ZdlPvSt11align_val_t;
    _ZdlPvmSt11align_val_t => _ZdlPvSt11align_val_t;
    _ZdlPvSt11align_val_tRKSt9nothrow_t => _ZdlPvSt11align_val_t;
    _ZdaPvmSt11align_val_t => _ZdaPvSt11align_val_t;
    _ZdaPvSt11align_val_tRKSt9nothrow_t => _ZdaPvSt11align_val_t;
}

/// Whether a form is this library's, not one that the program put in its place.
macro_rules! is_ours {
    ($form:ident) => {{
        let (called, ours): (usize, usize);
        // SAFETY: reads the entry of the dynamic linker's table, which is there, and the address of a label.
        unsafe {
            asm!(
                concat!("mov {0}, qword ptr [rip + ", stringify!($form), "@GOTPCREL]"),
                concat!("lea {1}, [rip + commensal_own_", stringify!($form), "]"),
                out(reg) called, out(reg) ours, options(pure, readonly, nostack)
            );
        }
        called == ours
    }};
}

/// libstdc++'s operator of the given name: it calls the form that throws, and catches. The object `std::nothrow` is where that library is, or in a program
/// that was linked with it. None: there is no such library, and so nothing to be called or caught.
fn left_to_the_library<F: Copy>(name: &CStr, nothrow: *const c_void, ours: *const c_void) -> Option<F> {
    let next = loaded::next(name);
    let found = if next.is_null() { loaded::look_up_beside(name, nothrow) } else { next };
    // SAFETY: callers name the operator's type.
    (!found.is_null() && !core::ptr::eq(found, ours)).then(|| unsafe { core::mem::transmute_copy(&found) })
}

macro_rules! operators_new_nothrow {
    ($($name:ident($($argument:ident: $type:ty),*), if $($form:ident)and+, from $allocate:path;)*) => {$(
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($($argument: $type,)* nothrow: *const c_void) -> *mut c_void {
            if $(is_ours!($form))&&+ {
                let block = $allocate($($argument),*);
                if !block.is_null() {
                    return block.cast();
                }
            }
            type Operator = extern "C" fn($($type,)* *const c_void) -> *mut c_void;
            let name = const {
                match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => panic!(),
                }
            };
            let theirs = left_to_the_library::<Operator>(name, nothrow, $name as Operator as *const c_void);
            theirs.map_or(null_mut(), |theirs| theirs($($argument,)* nothrow))
        }
    )*};
}

operators_new_nothrow! {
    _ZnwmRKSt9nothrow_t(bytes: usize), if _Znwm, from heap::allocate;
    _ZnamRKSt9nothrow_t(bytes: usize), if _Znam and _Znwm, from heap::allocate;
    _ZnwmSt11align_val_tRKSt9nothrow_t(bytes: usize, alignment: usize), if _ZnwmSt11align_val_t, from heap::allocate_aligned;
    _ZnamSt11align_val_tRKSt9nothrow_t(bytes: usize, alignment: usize), if _ZnamSt11align_val_t and _ZnwmSt11align_val_t, from heap::allocate_aligned;
}
