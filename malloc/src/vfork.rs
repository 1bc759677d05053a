//! `vfork`, whose child runs in the memory and as the thread of its parent. The kernel does not abort restartable
//! sequences of the child, so it must begin none.
//!
//! The child's word for its CPU says "none", as a thread's does that the kernel refused to register: so each operation
//! takes the way without sequences. The kernel writes the word again for the parent, or the parent itself does, if the
//! kernel saw no change.

use commensal::machine::{process, slot};
use core::arch::naked_asm;
use core::ffi::c_int;

/// What a child's word says: none, as in no other thread.
const CPU_OF_CHILD: i32 = -3;

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
        "mov eax, {child_cpu}",
        "cmpxchg dword ptr [r8], r9d",
        "mov eax, ecx",
        "ret",
        // The child.
        "2:",
        "mov dword ptr [r8], {child_cpu}",
        "ret",
        "3:",
        "neg eax",
        "mov edi, eax",
        "jmp {fail}",
        child_cpu = const CPU_OF_CHILD,
        word = sym slot::own_cpu_word,
        fail = sym process::fail,
    )
}

/// Whether this is such a child.
pub fn is_child() -> bool {
    // SAFETY: the thread's own word, which the kernel writes, too.
    unsafe { slot::own_cpu_word().read_volatile() == CPU_OF_CHILD as u32 }
}
