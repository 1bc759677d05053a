//! Functions about processes that need work by the library before the system call: `prctl`, `unshare`, `setns`, `_exit`
//! and `vfork`.

use crate::sandbox::cm_sandbox_enter;
use commensal_runtime::heap::statistics;
use commensal_runtime::machine::{process, slot};
use commensal_runtime::upkeep;
use core::arch::naked_asm;
use core::ffi::c_int;

/// Linux's function. The library enters plain mode before a program sets `no_new_privs` or installs a filter of system
/// calls. A child of `vfork` does not enter it, because it runs in its parent's memory. In C the function is variadic;
/// on x86-64 its arguments are passed like these.
///
/// # Safety
/// As for the system call.
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

/// Number of checks whether the joined thread has ended; they take a millisecond.
const LOOKS: u32 = 20;

/// Linux's function. The kernel refuses some of its flags to a process with several threads. So the library's
/// background thread ends before the call if the program has one thread left.
#[unsafe(no_mangle)]
pub extern "C" fn unshare(flags: c_int) -> c_int {
    upkeep::leave_to_the_last(LOOKS);
    process::unshare(flags)
}

/// Like [`unshare`].
#[unsafe(no_mangle)]
pub extern "C" fn setns(descriptor: c_int, kind: c_int) -> c_int {
    upkeep::leave_to_the_last(LOOKS);
    process::enter_namespace(descriptor, kind)
}

/// Ends the process at once, after withdrawing its statistics page, because this is no crash. `exit` and `quick_exit` end
/// without this, and withdraw the page themselves. A child of `vfork` shares its parent's memory, but not its page.
#[unsafe(no_mangle)]
#[unsafe(link_section = ".text.first")]
pub extern "C" fn _exit(status: c_int) -> ! {
    if !is_child_of_vfork() {
        statistics::withdraw();
    }
    process::end(status)
}

/// The same, by C's name.
#[unsafe(no_mangle)]
pub extern "C" fn _Exit(status: c_int) -> ! {
    _exit(status)
}

/// The CPU word of such a child: none. No other thread has this value.
const CPU_OF_CHILD: i32 = -3;

/// The system call. The child runs in its parent's memory with its parent's thread pointer, and may allocate even if
/// the program has threads. The kernel does not abort restartable sequences of the child, so the child must begin none.
/// Its CPU word says "none", as for a thread that the kernel refused to register, and each operation does without
/// sequences. The kernel writes the word again for the parent. If it saw no change, the parent does.
///
/// The return address stays in a register, because the child continues in the caller's frame and overwrites it there.
///
/// # Safety
/// As POSIX says, except that the child may allocate.
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
        // The parent. One instruction, so that no signal comes between the comparison and the store.
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

/// Whether the caller is a child of [`vfork`].
fn is_child_of_vfork() -> bool {
    // SAFETY: the thread's own word, which the kernel writes, too.
    unsafe { slot::own_cpu_word().read_volatile() == CPU_OF_CHILD as u32 }
}
