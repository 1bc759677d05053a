//! `vfork`, whose child runs in the memory and as the thread of its parent. The kernel does not abort restartable
//! sequences of the child, so it must begin none.
//!
//! The child's word for its CPU says "none", as a thread's does that the kernel refused to register: so each operation
//! takes the way without sequences. The kernel writes the word again for the parent, or the parent itself does, if the
//! kernel saw no change.

use commensal::machine::{process, slot};
use core::arch::naked_asm;
use core::ffi::c_int;

/// The system call, whose child may allocate in a program with threads.
///
/// The return address stays in a register, as the child goes on in the caller's frame and overwrites it on the stack.
///
/// # Safety
/// As POSIX has it, but for that.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfork() -> c_int {
    naked_asm!(
        "sub rsp, 8",
        "call {word}",
        "add rsp, 8",
        "mov r8, rax",
        "mov r9d, dword ptr [r8]",
        "pop rdi",
        "mov eax, 58",
        "syscall",
        "push rdi",
        "test eax, eax",
        "js 3f",
        "jz 2f",
        // The parent. One instruction, between which and the kernel nobody comes.
        "mov ecx, eax",
        "mov eax, -1",
        "cmpxchg dword ptr [r8], r9d",
        "mov eax, ecx",
        "ret",
        // The child.
        "2:",
        "mov dword ptr [r8], -1",
        "ret",
        "3:",
        "neg eax",
        "mov edi, eax",
        "jmp {fail}",
        word = sym slot::own_cpu_word,
        fail = sym process::fail,
    )
}
