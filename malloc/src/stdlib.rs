//! The functions of `<stdlib.h>` and `<malloc.h>`.
//!
//! Safety, for all of them: as the C standard says of the function of that name; pointers come from this library and are
//! the caller's to give up.

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use runtime::heap;

#[unsafe(no_mangle)]
pub extern "C" fn malloc(bytes: usize) -> *mut c_void {
    heap::allocate(bytes).cast()
}

/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(block: *mut c_void) {
    // SAFETY: passed on.
    unsafe { heap::free(block.cast()) }
}

#[unsafe(no_mangle)]
pub extern "C" fn calloc(count: usize, bytes: usize) -> *mut c_void {
    match count.checked_mul(bytes) {
        Some(all) => heap::allocate_zeroed(all).cast(),
        None => heap::out_of_memory().cast(),
    }
}

/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(block: *mut c_void, bytes: usize) -> *mut c_void {
    if block.is_null() {
        return malloc(bytes);
    }
    // SAFETY: passed on.
    unsafe {
        if bytes == 0 {
            free(block);
            return null_mut();
        }
        heap::reallocate(block.cast(), bytes).cast()
    }
}

/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reallocarray(block: *mut c_void, count: usize, bytes: usize) -> *mut c_void {
    match count.checked_mul(bytes) {
        // SAFETY: passed on.
        Some(all) => unsafe { realloc(block, all) },
        None => heap::out_of_memory().cast(),
    }
}

/// # Safety
/// See the module; `out` points to room for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(out: *mut *mut c_void, alignment: usize, bytes: usize) -> c_int {
    const INVALID: c_int = 22;
    const OUT_OF_MEMORY: c_int = 12;
    if !alignment.is_power_of_two() || !alignment.is_multiple_of(size_of::<*mut c_void>()) {
        return INVALID;
    }
    let block = heap::keeping_errno(|| heap::allocate_aligned(bytes, alignment));
    if block.is_null() {
        return OUT_OF_MEMORY;
    }
    // SAFETY: passed on.
    unsafe { out.write(block.cast()) };
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn aligned_alloc(alignment: usize, bytes: usize) -> *mut c_void {
    if !alignment.is_power_of_two() {
        return heap::invalid().cast();
    }
    heap::allocate_aligned(bytes, alignment).cast()
}

/// As glibc does, an alignment that is no power of two is rounded up to one.
#[unsafe(no_mangle)]
pub extern "C" fn memalign(alignment: usize, bytes: usize) -> *mut c_void {
    match alignment.checked_next_power_of_two() {
        Some(alignment) => heap::allocate_aligned(bytes, alignment).cast(),
        None => heap::invalid().cast(),
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn valloc(bytes: usize) -> *mut c_void {
    heap::allocate_aligned(bytes, heap::PAGE).cast()
}

#[unsafe(no_mangle)]
pub extern "C" fn pvalloc(bytes: usize) -> *mut c_void {
    match bytes.max(1).checked_next_multiple_of(heap::PAGE) {
        Some(bytes) => heap::allocate_aligned(bytes, heap::PAGE).cast(),
        None => heap::out_of_memory().cast(),
    }
}

/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_usable_size(block: *mut c_void) -> usize {
    // SAFETY: passed on.
    unsafe { heap::usable_bytes(block.cast()) }
}

/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_sized(block: *mut c_void, _bytes: usize) {
    // SAFETY: passed on.
    unsafe { free(block) }
}

/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_aligned_sized(block: *mut c_void, _alignment: usize, _bytes: usize) {
    // SAFETY: passed on.
    unsafe { free(block) }
}

#[unsafe(no_mangle)]
pub extern "C" fn malloc_trim(pad: usize) -> c_int {
    (heap::trim(pad) > 0) as c_int
}
