//! Functions about processes, which the library sees to before the kernel does: `prctl`, `unshare`, `setns` and
//! `vfork`.

use crate::sandbox::cm_sandbox_enter;
use commensal::machine::{process, slot};
use commensal::upkeep;
use core::arch::naked_asm;
use core::ffi::c_int;

/// Linux's, by which programs say that they are about to forbid themselves system calls. Before a program allows itself
/// filters, or installs one, the library comes into plain mode: not where a child of `vfork` does, which runs in memory
/// of a program that does not. In C it has a variable number of arguments, which on this machine are passed like these.
///
/// # Safety
/// As the kernel has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prctl(option: c_int, second: usize, third: usize, fourth: usize, fifth: usize) -> c_int {
    const SET_SECCOMP: c_int = 22;
    const SET_NO_NEW_PRIVILEGES: c_int = 38;
    if matches!(option, SET_SECCOMP | SET_NO_NEW_PRIVILEGES) && !is_child_of_vfork() {
        cm_sandbox_enter();
    }
    // SAFETY: passed on.
    unsafe { process::control(option, [second, third, fourth, fifth]) }
}

/// How often it is looked whether a thread that was joined has ended: for a millisecond.
const LOOKS: u32 = 20;

/// Linux's, which the kernel refuses to processes with several threads: one of them must not be ours. So before the
/// call the library's background thread ends, if the program has one thread left.
#[unsafe(no_mangle)]
pub extern "C" fn unshare(flags: c_int) -> c_int {
    upkeep::leave_to_the_last(LOOKS);
    process::unshare(flags)
}

/// The same of `setns`.
#[unsafe(no_mangle)]
pub extern "C" fn setns(descriptor: c_int, kind: c_int) -> c_int {
    upkeep::leave_to_the_last(LOOKS);
    process::enter_namespace(descriptor, kind)
}

/// What a child's word says: none, as in no other thread.
const CPU_OF_CHILD: i32 = -3;

/// The system call, whose child runs in the memory and as the thread of its parent, and may allocate in a program with
/// threads. The kernel does not abort restartable sequences of the child, so it must begin none: its word for its CPU
/// says "none", as a thread's does that the kernel refused to register, and each operation takes the way without
/// sequences. The kernel writes the word again for the parent, or the parent itself does, if the kernel saw no change.
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
fn is_child_of_vfork() -> bool {
    // SAFETY: the thread's own word, which the kernel writes, too.
    unsafe { slot::own_cpu_word().read_volatile() == CPU_OF_CHILD as u32 }
}
