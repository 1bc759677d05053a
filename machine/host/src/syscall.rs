//! System calls, made directly.
//!
//! A wrapper of the C library would set `errno` on failures that we handle ourselves, and may be interposed by a library
//! that allocates; an allocator can afford neither.

use core::arch::asm;

pub const READ: usize = 0;
pub const WRITE: usize = 1;
pub const CLOSE: usize = 3;
pub const MMAP: usize = 9;
pub const MPROTECT: usize = 10;
pub const MUNMAP: usize = 11;
pub const MREMAP: usize = 25;
pub const RT_SIGPROCMASK: usize = 14;
pub const MADVISE: usize = 28;
pub const GETPID: usize = 39;
pub const FCNTL: usize = 72;
pub const GETTID: usize = 186;
pub const FUTEX: usize = 202;
pub const SCHED_GETAFFINITY: usize = 204;
pub const TGKILL: usize = 234;
pub const OPENAT: usize = 257;
pub const PRLIMIT: usize = 302;
pub const MEMBARRIER: usize = 324;

/// An error number of the kernel, positive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub i32);

impl Errno {
    pub const NO_SUCH_PROCESS: Errno = Errno(3);
}

/// Makes system call `number`; missing arguments are zero.
///
/// # Safety
/// The arguments must be what the call expects; its effects on memory are the caller's to answer for.
#[inline]
pub unsafe fn call(number: usize, arguments: [usize; 6]) -> Result<usize, Errno> {
    let result: isize;
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: the kernel preserves every register but rax, rcx and r11; the caller answers for the call's own effects.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    if (-4095..0).contains(&result) { Err(Errno(-result as i32)) } else { Ok(result as usize) }
}
