//! System calls, made directly.
//!
//! A C library's wrapper would set `errno` on failures that we handle ourselves, and an allocating library may
//! interpose it. But some libraries replace the C library's functions to see which memory is unmapped. For programs
//! that use them, [`go_by_library`] makes calls about mappings through those.

mod numbers;

use crate::{process, sandbox};
use core::arch::asm;
use core::ffi::{CStr, c_char, c_void};
use core::mem::transmute;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

pub use numbers::*;

/// Makes system call `number`; missing arguments are zero. A sandbox refuses calls that are not [usual](is_usual).
///
/// # Safety
/// The arguments are as the call expects, and the caller answers for its effects on memory.
#[inline]
pub unsafe fn call<const N: usize>(number: usize, arguments: [usize; N]) -> Result<usize, Errno> {
    let arguments = padded(arguments);
    if let Some(place) = place_of(number)
        && IS_BY_LIBRARY.load(Ordering::Acquire)
    {
        // SAFETY: passed on.
        return unsafe { call_library(place, arguments) };
    }
    // SAFETY: passed on.
    if is_usual(number) { unsafe { make(number, arguments) } } else { unsafe { ask(number, arguments) } }
}

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// Calls that libraries replace.
const NAMES: [&CStr; 4] = [c"mmap", c"mremap", c"munmap", c"madvise"];
/// The first of those return addresses, the others an int, which fills half of the register.
const ADDRESSES: usize = 2;
early_state! { static IS_BY_LIBRARY: AtomicBool = AtomicBool::new(false); }
static FUNCTIONS: [AtomicPtr<c_void>; NAMES.len()] = [const { AtomicPtr::new(null_mut()) }; NAMES.len()];

/// Index of the call's name, if it is one of those.
const fn place_of(number: usize) -> Option<usize> {
    match number {
        MMAP => Some(0),
        MREMAP => Some(1),
        MUNMAP => Some(2),
        MADVISE => Some(3),
        _ => None,
    }
}

/// Makes calls about mappings through the functions that the program sees under these names.
pub fn go_by_library() {
    for (name, function) in NAMES.iter().zip(&FUNCTIONS) {
        // SAFETY: the name ends with a zero byte; null means the default order of search.
        function.store(unsafe { dlsym(null_mut(), name.as_ptr()) }, Ordering::Relaxed);
    }
    let are_there = FUNCTIONS.iter().all(|function| !function.load(Ordering::Relaxed).is_null());
    // Release pairs with the acquire in `call`: a thread that sees the flag sees the functions.
    IS_BY_LIBRARY.store(are_there, Ordering::Release);
}

#[cold]
unsafe fn call_library(place: usize, [a, b, c, d, e, f]: [usize; 6]) -> Result<usize, Errno> {
    type Function = unsafe extern "C" fn(usize, usize, usize, usize, usize, usize) -> usize;
    // SAFETY: a function with at most so many arguments, all integers or addresses.
    let function = unsafe { transmute::<*mut c_void, Function>(FUNCTIONS[place].load(Ordering::Relaxed)) };
    process::keeping_errno(|| {
        // SAFETY: passed on.
        let result = unsafe { function(a, b, c, d, e, f) };
        let failed = if place < ADDRESSES { result == usize::MAX } else { result as u32 == u32::MAX };
        if failed { Err(Errno(process::error())) } else { Ok(result) }
    })
}

#[inline(never)]
#[unsafe(link_section = ".text.first")]
unsafe fn ask(number: usize, arguments: [usize; 6]) -> Result<usize, Errno> {
    let _passage = sandbox::pass().ok_or(Errno::NOT_PERMITTED)?;
    // SAFETY: passed on.
    unsafe { make(number, arguments) }
}

/// Closes a descriptor of ours.
pub fn close(descriptor: usize) {
    // SAFETY: no memory changes its owner.
    let _ = unsafe { call(CLOSE, [descriptor]) };
}

/// The words of `struct stat`: device, number, links, mode and owner, ….
///
/// # Safety
/// The call is STAT of a path that ends with a zero byte, or FSTAT of a descriptor.
pub unsafe fn status(number: usize, of: usize) -> Option<[u64; 18]> {
    let mut words = [0; 18];
    // SAFETY: the kernel writes as many bytes as there is room for.
    unsafe { call(number, [of, words.as_mut_ptr() as usize]) }.ok()?;
    Some(words)
}

/// Makes a call, in a sandbox too.
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
