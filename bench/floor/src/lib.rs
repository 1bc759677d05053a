//! The least that a malloc can do: the next bytes of a ring, and nothing at all on free.
//!
//! It serves the program `threads` and no other: whatever is allocated after the first [`LASTING`] bytes is written over when the
//! ring has come round, long after the thread and its creator have done with it. What `threads` takes on it is not the
//! allocator's; so no allocator takes much less, and what one takes more is its own.
#![no_std]
// Nor is a loop that fills memory to become a call of what it is part of.
#![no_builtins]

use core::cell::UnsafeCell;
use core::ffi::{c_int, c_void};
use core::panic::PanicInfo;
use core::ptr;
use core::sync::atomic::{AtomicUsize, Ordering};

/// Bytes that are given once: what a program sets up at its start, and what glibc keeps with the stacks of threads.
const LASTING: usize = 4 << 20;
/// Bytes that come round.
const RING: usize = 1 << 20;
/// A block may reach beyond the end by so much.
const LARGEST: usize = 1 << 20;
const HEADER: usize = 16;

#[repr(C, align(4096))]
struct Memory(UnsafeCell<[u8; LASTING + RING + LARGEST]>);

// SAFETY: no two blocks in use overlap, in the program that this is for.
unsafe impl Sync for Memory {}

static MEMORY: Memory = Memory(UnsafeCell::new([0; LASTING + RING + LARGEST]));
static GIVEN: AtomicUsize = AtomicUsize::new(0);

#[link(name = "c")]
unsafe extern "C" {
    safe fn abort() -> !;
}

fn take(bytes: usize) -> *mut u8 {
    if bytes > LARGEST / 2 {
        abort();
    }
    let whole = (HEADER + bytes).next_multiple_of(HEADER);
    let at = GIVEN.fetch_add(whole, Ordering::Relaxed);
    let at = if at < LASTING { at } else { LASTING + at % RING };
    let start = MEMORY.0.get().cast::<u8>().wrapping_add(at);
    // SAFETY: the header of the block, inside of the memory.
    unsafe { start.cast::<usize>().write(bytes) };
    start.wrapping_add(HEADER)
}

/// # Safety
/// A block from [`take`] or [`aligned_alloc`].
unsafe fn size(block: *mut u8) -> usize {
    // SAFETY: each block has a header.
    unsafe { block.wrapping_sub(HEADER).cast::<usize>().read() }
}

/// See malloc(3).
#[unsafe(no_mangle)]
pub extern "C" fn malloc(bytes: usize) -> *mut c_void {
    take(bytes).cast()
}

/// See free(3); does nothing.
#[unsafe(no_mangle)]
pub extern "C" fn free(_: *mut c_void) {}

/// See calloc(3).
#[unsafe(no_mangle)]
pub extern "C" fn calloc(count: usize, bytes: usize) -> *mut c_void {
    let block = take(count * bytes);
    // SAFETY: the block has so many bytes.
    unsafe { ptr::write_bytes(block, 0, count * bytes) };
    block.cast()
}

/// See realloc(3).
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(old: *mut c_void, bytes: usize) -> *mut c_void {
    let new = take(bytes);
    if !old.is_null() {
        // SAFETY: both blocks have so many bytes.
        unsafe { ptr::copy(old.cast(), new, bytes.min(size(old.cast()))) };
    }
    new.cast()
}

/// See aligned_alloc(3).
#[unsafe(no_mangle)]
pub extern "C" fn aligned_alloc(alignment: usize, bytes: usize) -> *mut c_void {
    let block = take(bytes + alignment);
    let aligned = block.map_addr(|address| address.next_multiple_of(alignment.max(HEADER)));
    // SAFETY: the header of the block, or words of the block that lie before the aligned part.
    unsafe { aligned.wrapping_sub(HEADER).cast::<usize>().write(bytes) };
    aligned.cast()
}

/// See posix_memalign(3).
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(out: *mut *mut c_void, alignment: usize, bytes: usize) -> c_int {
    // SAFETY: passed on.
    unsafe { out.write(aligned_alloc(alignment, bytes)) };
    0
}

#[panic_handler]
fn panic(_: &PanicInfo) -> ! {
    abort()
}
