//! The functions of `<stdlib.h>` and `<malloc.h>`.
//!
//! Safety, for all of them: as the C standard says of the function of that name. Pointers come from this library, and
//! the caller owns what they lead to.

use commensal_runtime::caches;
use commensal_runtime::heap::{self, report};
use core::ffi::{c_int, c_void};
use core::ptr::null_mut;

#[unsafe(naked)]
#[unsafe(no_mangle)]
#[unsafe(link_section = ".text.first")]
pub extern "C-unwind" fn malloc(bytes: usize) -> *mut c_void {
    commensal_runtime::allocate_from_heap!(slow: heap::allocate_slow)
}

#[unsafe(naked)]
#[unsafe(no_mangle)]
#[unsafe(link_section = ".text.first")]
pub unsafe extern "C" fn free(block: *mut c_void) {
    commensal_runtime::free_to_heap!()
}

#[unsafe(no_mangle)]
#[unsafe(link_section = ".text.first")]
pub extern "C" fn calloc(count: usize, bytes: usize) -> *mut c_void {
    allocate_zeroed(count, bytes)
}

#[inline(always)]
fn allocate_zeroed(count: usize, bytes: usize) -> *mut c_void {
    // glibc's pthread_create calls this for the thread's tables.
    caches::upgrade_before_a_thread();
    match count.checked_mul(bytes) {
        Some(all) => heap::allocate_zeroed(all).cast(),
        None => heap::out_of_memory().cast(),
    }
}

/// As in glibc, 0 bytes free the block.
#[unsafe(no_mangle)]
#[unsafe(link_section = ".text.first")]
pub unsafe extern "C" fn realloc(block: *mut c_void, bytes: usize) -> *mut c_void {
    // SAFETY: passed on.
    unsafe { reallocate(block, bytes) }
}

#[inline(always)]
unsafe fn reallocate(block: *mut c_void, bytes: usize) -> *mut c_void {
    match (block.is_null(), bytes) {
        (true, _) => heap::allocate(bytes).cast(),
        // SAFETY: passed on.
        (false, 0) => unsafe {
            heap::free(block.cast());
            null_mut()
        },
        // SAFETY: passed on.
        (false, _) => unsafe { heap::reallocate(block.cast(), bytes).cast() },
    }
}

/// As in glibc, an alignment that is not a power of two is rounded up to one.
#[unsafe(no_mangle)]
pub extern "C" fn memalign(alignment: usize, bytes: usize) -> *mut c_void {
    allocate_aligned(alignment.checked_next_power_of_two(), bytes)
}

#[inline(always)]
fn allocate_aligned(alignment: Option<usize>, bytes: usize) -> *mut c_void {
    match alignment {
        Some(alignment) => heap::allocate_aligned(bytes, alignment).cast(),
        None => heap::invalid().cast(),
    }
}

/// Allocates at the start of a page.
#[unsafe(no_mangle)]
pub extern "C" fn valloc(bytes: usize) -> *mut c_void {
    heap::allocate_aligned(bytes, heap::PAGE).cast()
}

/// Allocates whole pages.
#[unsafe(no_mangle)]
pub extern "C" fn pvalloc(bytes: usize) -> *mut c_void {
    allocate_pages(bytes)
}

#[inline(always)]
fn allocate_pages(bytes: usize) -> *mut c_void {
    match bytes.max(1).checked_next_multiple_of(heap::PAGE) {
        Some(bytes) => heap::allocate_aligned(bytes, heap::PAGE).cast(),
        None => heap::out_of_memory().cast(),
    }
}

// glibc's own names. A program that defines malloc itself reaches the allocator behind it by these.

#[unsafe(no_mangle)]
pub extern "C" fn __libc_malloc(bytes: usize) -> *mut c_void {
    heap::allocate(bytes).cast()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn __libc_free(block: *mut c_void) {
    // SAFETY: passed on.
    unsafe { heap::free(block.cast()) }
}

#[unsafe(no_mangle)]
pub extern "C" fn __libc_calloc(count: usize, bytes: usize) -> *mut c_void {
    allocate_zeroed(count, bytes)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn __libc_realloc(block: *mut c_void, bytes: usize) -> *mut c_void {
    // SAFETY: passed on.
    unsafe { reallocate(block, bytes) }
}

#[unsafe(no_mangle)]
pub extern "C" fn __libc_memalign(alignment: usize, bytes: usize) -> *mut c_void {
    allocate_aligned(alignment.checked_next_power_of_two(), bytes)
}

#[unsafe(no_mangle)]
pub extern "C" fn __libc_valloc(bytes: usize) -> *mut c_void {
    heap::allocate_aligned(bytes, heap::PAGE).cast()
}

#[unsafe(no_mangle)]
pub extern "C" fn __libc_pvalloc(bytes: usize) -> *mut c_void {
    allocate_pages(bytes)
}

/// Calls `realloc` by its name, as glibc does: a program may bring a malloc of its own that has no `reallocarray`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reallocarray(block: *mut c_void, count: usize, bytes: usize) -> *mut c_void {
    let Some(all) = count.checked_mul(bytes) else { return heap::out_of_memory().cast() };
    let by_name: unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void;
    // SAFETY: reads the table's entry for the symbol, which is there: this library defines it, if no other object does.
    unsafe {
        core::arch::asm!(
            "mov {0}, qword ptr [rip + realloc@GOTPCREL]",
            out(reg) by_name, options(pure, readonly, nostack)
        );
        by_name(block, all)
    }
}

/// `out` points to room for a pointer.
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
    allocate_aligned(alignment.is_power_of_two().then_some(alignment), bytes)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_usable_size(block: *mut c_void) -> usize {
    // SAFETY: passed on.
    unsafe { heap::usable_bytes(block.cast()) }
}

/// Reports misuse if `bytes` cannot have been requested for this block.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_sized(block: *mut c_void, bytes: usize) {
    // SAFETY: passed on.
    unsafe {
        if heap::check_size(block.cast(), bytes, heap::ALIGNMENT) {
            free(block)
        }
    }
}

/// As [`free_sized`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_aligned_sized(block: *mut c_void, alignment: usize, bytes: usize) {
    // SAFETY: passed on.
    unsafe {
        if heap::check_size(block.cast(), bytes, alignment) {
            free(block)
        }
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn malloc_trim(pad: usize) -> c_int {
    (heap::trim(pad) > 0) as c_int
}

/// Changes nothing, and returns 0, which is glibc's error.
#[unsafe(no_mangle)]
pub extern "C" fn mallopt(_parameter: c_int, _value: c_int) -> c_int {
    0
}

/// glibc's `struct mallinfo2`, and with `c_int` its `struct mallinfo`.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct MallInfo<T> {
    /// Bytes from the kernel, except for large blocks.
    pub arena: T,
    /// Free objects in magazines.
    pub ordblks: T,
    /// Unused.
    pub smblks: T,
    /// Large blocks.
    pub hblks: T,
    /// Bytes of large blocks.
    pub hblkhd: T,
    /// The most bytes that the program held, exact to what the magazines of slots hold.
    pub usmblks: T,
    /// Unused.
    pub fsmblks: T,
    /// Bytes that the program holds, except for large blocks.
    pub uordblks: T,
    /// Bytes from the kernel that are free.
    pub fordblks: T,
    /// Bytes that `malloc_trim` could return at once.
    pub keepcost: T,
}

/// Counts each byte once. The program holds `uordblks` + `hblkhd`; the kernel gave `arena` + `hblkhd`.
fn information<T: Default>(convert: impl Fn(u64) -> T) -> MallInfo<T> {
    let Some(process) = report::process() else {
        return MallInfo::default();
    };
    let mut cached_objects = 0;
    report::for_each_class(|class| cached_objects += class.cached);
    MallInfo {
        arena: convert(report::small_bytes(&process)),
        ordblks: convert(cached_objects),
        hblks: convert(process.large_blocks),
        hblkhd: convert(process.large_bytes),
        usmblks: convert(process.peak_bytes),
        uordblks: convert(process.in_use_bytes.saturating_sub(process.large_bytes)),
        fordblks: convert(report::free_bytes(&process)),
        keepcost: convert(process.dirty_bytes),
        ..MallInfo::default()
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn mallinfo2() -> MallInfo<usize> {
    information(|value| value as usize)
}

/// Values above `INT_MAX` read as `INT_MAX`.
#[unsafe(no_mangle)]
pub extern "C" fn mallinfo() -> MallInfo<c_int> {
    information(|value| value.min(c_int::MAX as u64) as c_int)
}

#[unsafe(no_mangle)]
pub extern "C" fn malloc_stats() {
    report::print();
}

/// A C stream as a place to write to.
struct Stream(*mut c_void);

impl core::fmt::Write for Stream {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        unsafe extern "C" {
            fn fwrite(from: *const c_void, size: usize, count: usize, stream: *mut c_void) -> usize;
        }
        // SAFETY: the caller of `malloc_info` gave us the stream.
        let written = unsafe { fwrite(text.as_ptr().cast(), 1, text.len(), self.0) };
        if written == text.len() { Ok(()) } else { Err(core::fmt::Error) }
    }
}

/// `stream` is a C stream that is open for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_info(options: c_int, stream: *mut c_void) -> c_int {
    const INVALID: c_int = 22;
    if options != 0 {
        return INVALID;
    }
    if report::write_xml(&mut Stream(stream)).is_ok() { 0 } else { -1 }
}
