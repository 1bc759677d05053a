//! The C++ operators new and delete.
//!
//! Four of them do the work. A program may replace any, and all other forms must then call the replaced ones
//! ([new.delete.single] and [new.delete.array] in the C++ standard). So the default of such a form is a jump through
//! the table of addresses that the dynamic linker fills.
//!
//! A sized `delete` looks at the size first, unless the program replaced the form that it stands for. In most cases the
//! size is one of the block's class, and the rest is that form's own text. Otherwise `check_size` decides.
//!
//! A throwing `new` without memory calls the program's new-handler until there is memory or no handler is left. Then it
//! throws `std::bad_alloc`. It finds both by libstdc++'s symbols, which are looked up by name and not linked: only
//! programs that call these operators have the C++ library. If a plugin has it for itself (`RTLD_LOCAL`), it is looked
//! up as the caller's own code would find it.
//!
//! A handler, or the throw, unwinds through the frame of `new`. That frame is written in assembly, with unwind
//! information by hand, because Rust code that aborts on panic stops exceptions. A `new` that must not throw leaves its
//! slow path to libstdc++'s, which catches the exception.
//!
//! Safety, for all of them: as the C++ standard says. Pointers come from this library, and the caller owns the blocks.

use crate::loaded;
use commensal_runtime::heap;
use commensal_runtime::machine::own_label;
use core::arch::{asm, naked_asm};
use core::ffi::{CStr, c_void};
use core::mem::{transmute, transmute_copy};
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

/// The body of a naked function of (bytes, alignment) that tries `$attempt` until it gives a block. In between it calls
/// the new-handler; without one it throws.
macro_rules! allocate_or_throw {
    ($(label: $label:expr,)? attempt: $attempt:path) => {
        naked_asm!(
            $($label,)?
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
    };
}

/// The body of a naked function that continues as the function of that symbol, which may be the program's. It ignores
/// further arguments.
macro_rules! go_on {
    ($(label: $label:expr,)? to: $symbol:literal) => {
        naked_asm!($($label,)? concat!("jmp qword ptr [rip + ", $symbol, "@GOTPCREL]"))
    };
}

/// The body of a naked function of (block, bytes, alignment) that continues as the function of that symbol, of
/// (block, alignment), if `$check` of the three says so. Otherwise it returns.
macro_rules! go_on_if {
    (check: $check:path, to: $symbol:literal) => {
        naked_asm!(
            ".cfi_startproc",
            "push rdi",
            ".cfi_adjust_cfa_offset 8",
            "push rdx",
            ".cfi_adjust_cfa_offset 8",
            "sub rsp, 8",
            ".cfi_adjust_cfa_offset 8",
            "call {check}",
            "add rsp, 8",
            ".cfi_adjust_cfa_offset -8",
            "pop rsi",
            ".cfi_adjust_cfa_offset -8",
            "pop rdi",
            ".cfi_adjust_cfa_offset -8",
            "test al, al",
            "jz 2f",
            concat!("jmp qword ptr [rip + ", $symbol, "@GOTPCREL]"),
            "2: ret",
            ".cfi_endproc",
            check = sym $check,
        )
    };
}

/// Whether the function of that symbol is this library's, not the program's.
macro_rules! is_ours {
    ($symbol:literal) => {{
        let (called, ours): (usize, usize);
        // SAFETY: reads the entry of the dynamic linker's table, which is there, and the address of a label.
        unsafe {
            asm!(
                concat!("mov {0}, qword ptr [rip + ", $symbol, "@GOTPCREL]"),
                concat!("lea {1}, [rip + commensal_own_", $symbol, "]"),
                out(reg) called, out(reg) ours, options(pure, readonly, nostack)
            );
        }
        called == ours
    }};
}

// ---- those that do the work ----

#[unsafe(naked)]
#[unsafe(export_name = "_Znwm")] // operator new(size_t)
pub extern "C-unwind" fn operator_new(bytes: usize) -> *mut c_void {
    commensal_runtime::allocate_from_heap!(label: own_label!("_Znwm"), slow: operator_new_slow)
}

#[unsafe(naked)]
extern "C-unwind" fn operator_new_slow(bytes: usize) -> *mut c_void {
    allocate_or_throw!(attempt: heap::allocate_slow)
}

#[unsafe(naked)]
#[unsafe(export_name = "_ZnwmSt11align_val_t")] // operator new(size_t, align_val_t)
pub extern "C-unwind" fn operator_new_aligned(bytes: usize, alignment: usize) -> *mut c_void {
    allocate_or_throw!(label: own_label!("_ZnwmSt11align_val_t"), attempt: attempt_aligned)
}

extern "C" fn attempt_aligned(bytes: usize, alignment: usize) -> *mut u8 {
    heap::allocate_aligned(bytes, alignment)
}

#[unsafe(naked)]
#[unsafe(export_name = "_ZdlPv")] // operator delete(void *)
pub unsafe extern "C" fn operator_delete(block: *mut c_void) {
    commensal_runtime::free_to_heap!(label: own_label!("_ZdlPv"))
}

#[unsafe(naked)]
#[unsafe(export_name = "_ZdlPvSt11align_val_t")] // operator delete(void *, align_val_t)
pub unsafe extern "C" fn operator_delete_aligned(block: *mut c_void, _alignment: usize) {
    commensal_runtime::free_to_heap!(label: own_label!("_ZdlPvSt11align_val_t"))
}

// ---- those that call another one ----

#[unsafe(naked)]
#[unsafe(export_name = "_Znam")] // operator new[](size_t)
pub unsafe extern "C-unwind" fn operator_new_array() {
    go_on!(label: own_label!("_Znam"), to: "_Znwm")
}

#[unsafe(naked)]
#[unsafe(export_name = "_ZnamSt11align_val_t")] // operator new[](size_t, align_val_t)
pub unsafe extern "C-unwind" fn operator_new_array_aligned() {
    go_on!(label: own_label!("_ZnamSt11align_val_t"), to: "_ZnwmSt11align_val_t")
}

#[unsafe(naked)]
#[unsafe(export_name = "_ZdaPv")] // operator delete[](void *)
pub unsafe extern "C-unwind" fn operator_delete_array() {
    go_on!(label: own_label!("_ZdaPv"), to: "_ZdlPv")
}

#[unsafe(naked)]
#[unsafe(export_name = "_ZdlPvm")] // operator delete(void *, size_t)
pub unsafe extern "C-unwind" fn operator_delete_sized(block: *mut c_void, bytes: usize) {
    commensal_runtime::free_to_heap!(label: own_label!("_ZdlPvm"), sized: "_ZdlPv", other: delete_sized_slow)
}

/// The size is of another class, or the program has its own operator.
#[unsafe(naked)]
unsafe extern "C-unwind" fn delete_sized_slow(block: *mut c_void, bytes: usize) {
    go_on_if!(check: may_delete, to: "_ZdlPv")
}

unsafe extern "C" fn may_delete(block: *mut c_void, bytes: usize) -> bool {
    // SAFETY: passed on.
    !is_ours!("_ZdlPv") || unsafe { heap::check_size(block.cast(), bytes, heap::ALIGNMENT) }
}

#[unsafe(naked)]
#[unsafe(export_name = "_ZdlPvRKSt9nothrow_t")] // operator delete(void *, nothrow_t)
pub unsafe extern "C-unwind" fn operator_delete_nothrow() {
    go_on!(to: "_ZdlPv")
}

#[unsafe(naked)]
#[unsafe(export_name = "_ZdaPvm")] // operator delete[](void *, size_t)
pub unsafe extern "C-unwind" fn operator_delete_array_sized(block: *mut c_void, bytes: usize) {
    // The program's own operator, or else the same as for single objects.
    naked_asm!(
        "lea rax, [rip + commensal_own__ZdaPv]",
        "cmp rax, qword ptr [rip + _ZdaPv@GOTPCREL]",
        "je commensal_own__ZdlPvm",
        "jmp qword ptr [rip + _ZdaPv@GOTPCREL]",
    )
}

#[unsafe(naked)]
#[unsafe(export_name = "_ZdaPvRKSt9nothrow_t")] // operator delete[](void *, nothrow_t)
pub unsafe extern "C-unwind" fn operator_delete_array_nothrow() {
    go_on!(to: "_ZdaPv")
}

#[unsafe(naked)]
#[unsafe(export_name = "_ZdaPvSt11align_val_t")] // operator delete[](void *, align_val_t)
pub unsafe extern "C-unwind" fn operator_delete_array_aligned() {
    go_on!(label: own_label!("_ZdaPvSt11align_val_t"), to: "_ZdlPvSt11align_val_t")
}

#[unsafe(naked)]
#[unsafe(export_name = "_ZdlPvmSt11align_val_t")] // operator delete(void *, size_t, align_val_t)
pub unsafe extern "C-unwind" fn operator_delete_sized_aligned(block: *mut c_void, bytes: usize, alignment: usize) {
    go_on_if!(check: may_delete_aligned, to: "_ZdlPvSt11align_val_t")
}

unsafe extern "C" fn may_delete_aligned(block: *mut c_void, bytes: usize, alignment: usize) -> bool {
    // SAFETY: passed on.
    !is_ours!("_ZdlPvSt11align_val_t") || unsafe { heap::check_size(block.cast(), bytes, alignment) }
}

#[unsafe(naked)]
#[unsafe(export_name = "_ZdlPvSt11align_val_tRKSt9nothrow_t")] // operator delete(void *, align_val_t, nothrow_t)
pub unsafe extern "C-unwind" fn operator_delete_aligned_nothrow() {
    go_on!(to: "_ZdlPvSt11align_val_t")
}

#[unsafe(naked)]
#[unsafe(export_name = "_ZdaPvmSt11align_val_t")] // operator delete[](void *, size_t, align_val_t)
pub unsafe extern "C-unwind" fn operator_delete_array_sized_aligned(
    block: *mut c_void, bytes: usize, alignment: usize,
) {
    go_on_if!(check: may_delete_array_aligned, to: "_ZdaPvSt11align_val_t")
}

unsafe extern "C" fn may_delete_array_aligned(block: *mut c_void, bytes: usize, alignment: usize) -> bool {
    // SAFETY: passed on.
    !is_ours!("_ZdaPvSt11align_val_t") || unsafe { may_delete_aligned(block, bytes, alignment) }
}

#[unsafe(naked)]
#[unsafe(export_name = "_ZdaPvSt11align_val_tRKSt9nothrow_t")] // operator delete[](void *, align_val_t, nothrow_t)
pub unsafe extern "C-unwind" fn operator_delete_array_aligned_nothrow() {
    go_on!(to: "_ZdaPvSt11align_val_t")
}

// ---- those that give null instead of throwing ----

/// One of these operators.
type Nothrow = extern "C" fn(bytes: usize, nothrow: *const c_void) -> *mut c_void;
/// One with an alignment.
type NothrowAligned = extern "C" fn(bytes: usize, alignment: usize, nothrow: *const c_void) -> *mut c_void;

/// The block. If it is null, the result of libstdc++'s operator of the same name, which calls the throwing form and
/// catches. The object `std::nothrow` lies in that library, or in a program linked with it. Without that library there
/// is no handler to call and no exception to catch.
#[inline(always)]
fn or_by_the_library<F: Copy>(
    block: *mut u8, name: &CStr, nothrow: *const c_void, ours: F, call: impl FnOnce(F) -> *mut c_void,
) -> *mut c_void {
    if !block.is_null() {
        return block.cast();
    }
    let next = loaded::next(name);
    let found = if next.is_null() { loaded::look_up_beside(name, nothrow) } else { next };
    // SAFETY: a function is a pointer.
    if found.is_null() || found == unsafe { transmute_copy::<F, *mut c_void>(&ours) } {
        return null_mut();
    }
    // SAFETY: operators of one name have one type.
    call(unsafe { transmute_copy(&found) })
}

#[unsafe(export_name = "_ZnwmRKSt9nothrow_t")] // operator new(size_t, nothrow_t)
pub extern "C" fn operator_new_nothrow(bytes: usize, nothrow: *const c_void) -> *mut c_void {
    let ours: Nothrow = operator_new_nothrow;
    let block = if is_ours!("_Znwm") { heap::allocate(bytes) } else { null_mut() };
    or_by_the_library(block, c"_ZnwmRKSt9nothrow_t", nothrow, ours, |theirs| theirs(bytes, nothrow))
}

#[unsafe(export_name = "_ZnamRKSt9nothrow_t")] // operator new[](size_t, nothrow_t)
pub extern "C" fn operator_new_array_nothrow(bytes: usize, nothrow: *const c_void) -> *mut c_void {
    let ours: Nothrow = operator_new_array_nothrow;
    let block = if is_ours!("_Znam") && is_ours!("_Znwm") { heap::allocate(bytes) } else { null_mut() };
    or_by_the_library(block, c"_ZnamRKSt9nothrow_t", nothrow, ours, |theirs| theirs(bytes, nothrow))
}

#[unsafe(export_name = "_ZnwmSt11align_val_tRKSt9nothrow_t")] // operator new(size_t, align_val_t, nothrow_t)
pub extern "C" fn operator_new_aligned_nothrow(bytes: usize, alignment: usize, nothrow: *const c_void) -> *mut c_void {
    let ours: NothrowAligned = operator_new_aligned_nothrow;
    let block = if is_ours!("_ZnwmSt11align_val_t") { heap::allocate_aligned(bytes, alignment) } else { null_mut() };
    or_by_the_library(block, c"_ZnwmSt11align_val_tRKSt9nothrow_t", nothrow, ours, |theirs| {
        theirs(bytes, alignment, nothrow)
    })
}

#[unsafe(export_name = "_ZnamSt11align_val_tRKSt9nothrow_t")] // operator new[](size_t, align_val_t, nothrow_t)
pub extern "C" fn operator_new_array_aligned_nothrow(
    bytes: usize, alignment: usize, nothrow: *const c_void,
) -> *mut c_void {
    let ours: NothrowAligned = operator_new_array_aligned_nothrow;
    let block = if is_ours!("_ZnamSt11align_val_t") && is_ours!("_ZnwmSt11align_val_t") {
        heap::allocate_aligned(bytes, alignment)
    } else {
        null_mut()
    };
    or_by_the_library(block, c"_ZnamSt11align_val_tRKSt9nothrow_t", nothrow, ours, |theirs| {
        theirs(bytes, alignment, nothrow)
    })
}
