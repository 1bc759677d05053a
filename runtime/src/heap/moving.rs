//! `realloc`: a block stays, changes its length in place, or moves.

use super::{ALIGNMENT, PAGE, allocate, allocate_large, free, invalid, out_of_memory};
use crate::caches::{Heap, Special, enter, heap};
use crate::central::CacheRef;
use crate::central::size_class::{self, LARGEST};
use crate::group::Core;
use crate::misuse::{self, Call, Found};
use crate::page_heap::memblock;
use crate::profile;
use machine::{root, vm};

/// The kernel moves large blocks of at least this many bytes to memory without pages; smaller ones are copied.
const MOVE_ABOVE: usize = 1 << 20;
/// The kernel moves blocks of at least this many bytes in any case.
const MOVE_ALWAYS_ABOVE: usize = 32 << 20;

/// A block of at least `bytes` with the contents of `block`, which is freed. Null, with ENOMEM: `block` is unchanged.
///
/// # Safety
/// The caller owns the block, which came from here and is not null. Null, with EINVAL, after a report of misuse.
#[unsafe(link_section = ".text.first")]
pub unsafe fn reallocate(block: *mut u8, bytes: usize) -> *mut u8 {
    if !root::is_installed() && memblock::holds(block) {
        // SAFETY: passed on.
        return unsafe { reallocate_first(block, bytes) };
    }
    match heap().class_at(block) {
        // SAFETY: passed on.
        0 => unsafe { reallocate_special(block, bytes) },
        // SAFETY: passed on.
        class => unsafe { reallocate_small(block, size_class::size(class), bytes) },
    }
}

unsafe fn reallocate_small(block: *mut u8, old: usize, bytes: usize) -> *mut u8 {
    if bytes <= old && bytes * 2 > old {
        return block;
    }
    // The page map knows only granules. Before anything is copied, the span says whether an object begins there.
    if let Some(found) = heap().central().found_at(block) {
        return refuse_to_move(found, block);
    }
    // A block that grows will grow again, which a run of its own can do in place.
    let new = if bytes > LARGEST && bytes > old { allocate_large(bytes).0 } else { allocate(bytes) };
    // SAFETY: passed on.
    unsafe { move_to(new, block, old, bytes) }
}

/// Reports that a block cannot be moved. If the program goes on, it gets null and EINVAL.
#[cold]
fn refuse_to_move(found: Found, block: *mut u8) -> *mut u8 {
    misuse::report(found, Call::Realloc, block);
    invalid()
}

fn allocate_beside(group: Option<&Core>, bytes: usize) -> *mut u8 {
    match group {
        Some(group) if bytes <= isize::MAX as usize => group.allocate(bytes, ALIGNMENT).unwrap_or_else(out_of_memory),
        _ => allocate(bytes),
    }
}

/// Moves the contents of `block`, of `old` bytes, to `new`, of `bytes`, and frees `block`; unless `new` is null.
unsafe fn move_to(new: *mut u8, block: *mut u8, old: usize, bytes: usize) -> *mut u8 {
    if !new.is_null() {
        // SAFETY: both are blocks of at least as many bytes.
        unsafe {
            new.copy_from_nonoverlapping(block, old.min(bytes));
            free(block);
        }
    }
    new
}

#[cold]
unsafe fn reallocate_special(block: *mut u8, bytes: usize) -> *mut u8 {
    if memblock::holds(block) {
        // SAFETY: passed on.
        return unsafe { reallocate_first(block, bytes) };
    }
    if !enter() {
        return refuse_to_move(Found::Foreign, block);
    }
    // SAFETY: passed on.
    unsafe {
        match heap().special_at(block) {
            Special::First => unreachable!("it was one of the first blocks"),
            Special::Guarded(place) => match heap().guarded_bytes(place, block) {
                Some(old) => move_to(allocate(bytes), block, old, bytes),
                None => invalid(),
            },
            Special::Hardened(span) => match heap().hardened_bytes(span, block) {
                Some(old) => move_to(allocate(bytes), block, old, bytes),
                None => invalid(),
            },
            Special::Watched(cache, debug) => match cache.watched_bytes(debug, block, 0) {
                Some(old) => move_to(allocate(bytes), block, old, bytes),
                None => invalid(),
            },
            Special::Object(cache) => reallocate_object(cache, block, bytes),
            Special::Large => reallocate_pages(block, bytes),
        }
    }
}

/// The same for one of the process's first blocks.
#[unsafe(link_section = ".text.first")]
unsafe fn reallocate_first(block: *mut u8, bytes: usize) -> *mut u8 {
    match memblock::bytes_of(block) {
        0 => refuse_to_move(Found::Interior(None), block),
        old if bytes <= old => {
            memblock::shrink(block, bytes);
            block
        }
        old => {
            let new = allocate(bytes);
            if !new.is_null() {
                // SAFETY: both are blocks of at least as many bytes.
                unsafe { new.copy_from_nonoverlapping(block, old.min(bytes)) };
                Heap::free_first(block);
            }
            new
        }
    }
}

unsafe fn reallocate_object(cache: CacheRef, block: *mut u8, bytes: usize) -> *mut u8 {
    let old = cache.object_bytes();
    if bytes <= old && bytes * 2 > old {
        return block;
    }
    if let Some(found) = heap().central().found_at(block) {
        return refuse_to_move(found, block);
    }
    let new = allocate_beside(Core::of_cache(cache), bytes);
    // At a limit, a block that shrinks stays.
    let stays = new.is_null() && bytes <= old;
    // SAFETY: passed on.
    if stays { block } else { unsafe { move_to(new, block, old, bytes) } }
}

unsafe fn reallocate_pages(block: *mut u8, bytes: usize) -> *mut u8 {
    let page_heap = heap().page_heap();
    let Some(old_pages) = heap().demand_large(block, Call::Realloc) else { return invalid() };
    let resize = |bytes: usize| {
        let pages = bytes.max(1).div_ceil(PAGE);
        // SAFETY: passed on; for both.
        let is_done = unsafe { Core::resize_large(block, pages, || page_heap.resize(block, old_pages, pages)) };
        if is_done {
            // SAFETY: passed on.
            let group = unsafe { Core::of_large(block) };
            profile::resized(block, bytes, group.map_or("", Core::name));
            heap().seal_large(block, bytes);
            heap().count_large(0, pages as isize - old_pages as isize);
        }
        is_done
    };
    // SAFETY: passed on.
    let group = unsafe { Core::of_large(block) };
    if bytes > isize::MAX as usize {
        return out_of_memory();
    }
    let length = heap().unseal_large(block);
    if bytes > LARGEST && resize(bytes) {
        return block;
    }
    let (new, is_zero) = match bytes {
        _ if group.is_some() => (allocate_beside(group, bytes), false),
        0..=LARGEST => (allocate(bytes), false),
        _ => allocate_large(bytes),
    };
    if new.is_null() {
        // As above: a large block may be as small as a page.
        let stays = bytes <= old_pages * PAGE && resize(bytes);
        if !stays && let Some(length) = length {
            heap().seal_large(block, length);
        }
        return if stays { block } else { new };
    }
    let common = bytes.min(old_pages * PAGE);
    // Moving pages costs those at the destination: it pays if there are none yet, or if copying costs more.
    let move_above = if is_zero { MOVE_ABOVE } else { MOVE_ALWAYS_ABOVE };
    // SAFETY: both blocks are ours, and of whole pages if they are large; moved pages are given up.
    unsafe {
        let whole = common / PAGE * PAGE;
        let moved = if common >= move_above && vm::move_pages(block, new, whole) { whole } else { 0 };
        new.add(moved).copy_from_nonoverlapping(block.add(moved), common - moved);
        free(block);
    }
    new
}
