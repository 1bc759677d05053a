//! System calls, made directly.
//!
//! A wrapper of the C library would set `errno` on failures that we handle ourselves, and may be interposed by a library
//! that allocates; an allocator can afford neither.

mod numbers;

use crate::sandbox;
use core::arch::asm;

pub use numbers::*;

/// Makes system call `number`; missing arguments are zero. In a sandbox, one that is not [usual](is_usual) is refused
/// without being made.
///
/// # Safety
/// The arguments must be what the call expects; its effects on memory are the caller's to answer for.
#[inline]
pub unsafe fn call(number: usize, arguments: [usize; 6]) -> Result<usize, Errno> {
    // SAFETY: passed on.
    if is_usual(number) { unsafe { make(number, arguments) } } else { unsafe { ask(number, arguments) } }
}

#[inline(never)]
unsafe fn ask(number: usize, arguments: [usize; 6]) -> Result<usize, Errno> {
    let _passage = sandbox::pass().ok_or(Errno::NOT_PERMITTED)?;
    // SAFETY: passed on.
    unsafe { make(number, arguments) }
}

/// Makes it in any case.
///
/// # Safety
/// As for [`call`].
#[inline]
pub unsafe fn make(number: usize, arguments: [usize; 6]) -> Result<usize, Errno> {
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
