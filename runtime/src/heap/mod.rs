//! The heap: what malloc means. Sizes, alignment, moving, zeroing, fork.
//!
//! Requests up to 32 KiB are objects of the slab's classes, larger ones are runs of pages of the zone, and above 64 MiB
//! mappings of their own. The functions with `#[inline(always)]` are the fast paths: on an upgraded process
//! [`allocate`] is at most 22 instructions and [`free`] too, without a call (`xtask golden` counts them in the
//! library); everything else is cold and outlined.
//!
//! The heap begins in solo mode, without a thread, a hook or a registration; when the second thread is being created
//! ([`sharing::upgrade_if_shared`]) it arranges for forks and kicks, once.

#[doc(hidden)]
pub mod check;
pub mod conf;
pub mod locks;
pub mod report;
pub mod statistics;

use crate::group::{self, Core};
use crate::observe::LockReport;
pub use crate::page::PAGE;
use crate::page::Zone;
use crate::slab::region::general;
#[cfg(doc)]
use crate::slab::sharing;
use crate::slab::sharing::enter;
use crate::slab::{class, misuse};
use core::ptr::null_mut;
pub use machine::process::{Error, set_error};
use machine::{process, root, vm};

/// Every block is aligned to this.
pub const ALIGNMENT: usize = 16;
/// Large blocks of at least this many bytes are moved by the kernel, not copied, to where no pages are yet.
const MOVE_ABOVE: usize = 1 << 20;
/// And of at least this many bytes in any case.
const MOVE_ALWAYS_ABOVE: usize = 32 << 20;

/// A block of at least `bytes`; null, with ENOMEM, if there is no memory.
#[inline(always)]
pub fn allocate(bytes: usize) -> *mut u8 {
    if bytes <= class::LARGEST {
        let object = general().take(bytes);
        if !object.is_null() {
            return object;
        }
    }
    allocate_slow(bytes)
}

/// Gives a block back; null is nothing.
///
/// # Safety
/// The block came from here, and is the caller's to give up.
#[inline(always)]
pub unsafe fn free(block: *mut u8) {
    // SAFETY: passed on.
    if !unsafe { general().put(block) } {
        // SAFETY: passed on.
        unsafe { free_slow(block) }
    }
}

/// [`allocate`] as the body of a naked function with the C calling convention, as `malloc/` exports it. `$slow` is its
/// slow path, and `$label` a second name for its beginning.
#[macro_export]
macro_rules! allocate_from_heap {
    ($(label: $label:expr,)? slow: $slow:path) => {
        $crate::machine::take_body!(
            $(label: $label,)? limit: $crate::slab::class::LARGEST, table: $crate::slab::Slab::CLASS_TABLE, slow: $slow
        )
    };
}

/// [`free`] in the same way.
#[macro_export]
macro_rules! free_to_heap {
    () => {
        $crate::machine::put_body!(
            map: $crate::percpu::AREAS_END, mask: $crate::slab::Slab::MAP_MASK, slow: $crate::heap::free_slow
        )
    };
}

/// What [`allocate`] does when the slot's array has no object.
#[unsafe(naked)]
pub extern "C-unwind" fn allocate_slow(bytes: usize) -> *mut u8 {
    machine::with_caller!(allocate_slow_for(bytes, caller))
}

#[cold]
extern "C-unwind" fn allocate_slow_for(bytes: usize, from: usize) -> *mut u8 {
    if bytes <= class::LARGEST && root::is_installed() {
        let taken = match general().is_redirected(bytes) {
            false => general().for_bytes(bytes).take_changed(),
            true if group::current().is_none() => general().take_redirected(class::class_for(bytes)),
            true => None,
        };
        if let Some(object) = taken {
            return object;
        }
    }
    allocate_slower(bytes, from)
}

/// The rest of [`allocate_slow`]: apart from it, because it needs more registers.
#[cold]
#[inline(never)]
extern "C-unwind" fn allocate_slower(bytes: usize, from: usize) -> *mut u8 {
    or_out_of_memory(bytes, enter() && bytes <= isize::MAX as usize, || {
        let is_small = bytes <= class::LARGEST;
        let small = if is_small { take_small(class::class_for(bytes), bytes, from) } else { None };
        match is_small {
            true => small.or_else(|| allocate_page_instead(bytes, ALIGNMENT)),
            false => allocate_pages(bytes, ALIGNMENT).map(|run| run.0),
        }
    })
}

/// An object of a class: the group's that the thread is inside of, if it is, else the process's.
fn take_small(class: usize, bytes: usize, from: usize) -> Option<*mut u8> {
    match group::current() {
        Some(group) => group.allocate_small(class),
        None => general().take_beyond(class, bytes, from),
    }
}

/// Pages for a small object that there is none of: in a signal handler, those are what there is. A group that refused
/// the object refuses them, too.
fn allocate_page_instead(bytes: usize, alignment: usize) -> Option<*mut u8> {
    if group::current().is_some() { None } else { allocate_pages(bytes.max(1), alignment).map(|run| run.0) }
}

/// Tries to get so many bytes, and tries again after everything that is cached was brought back, if that may help; a
/// group has done that.
fn or_out_of_memory(bytes: usize, possible: bool, mut attempt: impl FnMut() -> Option<*mut u8>) -> *mut u8 {
    let got = possible.then(&mut attempt).flatten().or_else(|| {
        let may_help = possible && group::current().is_none();
        may_help.then(|| general().flush_and_retry(bytes, attempt)).flatten()
    });
    got.unwrap_or_else(out_of_memory)
}

/// A run of pages, and whether it is known to be zero.
fn allocate_pages(bytes: usize, alignment: usize) -> Option<(*mut u8, bool)> {
    if let Some(group) = group::current() {
        return group.allocate_large(bytes, alignment).map(|run| (run.start, run.is_zero));
    }
    let (zone, locks) = pages();
    general().look_after_own(true);
    general().drain_before_growth(bytes.div_ceil(PAGE), alignment.div_ceil(PAGE));
    let pages = bytes.div_ceil(PAGE);
    let run = zone.allocate(locks, pages, alignment.div_ceil(PAGE))?;
    count_large(1, pages as isize);
    Some((run.start, run.is_zero))
}

fn count_large(blocks: isize, pages: isize) {
    general().state().registry().tally.count_large(blocks, pages * PAGE as isize);
}

fn pages() -> (&'static Zone, &'static LockReport) {
    (&general().state().zone, general().state().locks())
}

/// What [`free`] does when the slot's array has no room.
///
/// # Safety
/// As for [`free`].
#[unsafe(naked)]
pub unsafe extern "C" fn free_slow(block: *mut u8) {
    machine::with_caller!(free_slow_for(block, caller))
}

#[cold]
unsafe extern "C" fn free_slow_for(block: *mut u8, from: usize) {
    if block.is_null() {
        return;
    }
    if !enter() {
        misuse::die(misuse::Found::Foreign, block);
    }
    let general = general();
    match general.class_at(block) {
        // SAFETY: passed on.
        0 => unsafe { free_other(block, from) },
        // SAFETY: passed on.
        class => unsafe { general.class(class).put_slow(block) },
    }
}

/// A block that is of no general class.
unsafe fn free_other(block: *mut u8, from: usize) {
    match general().cache_at(block) {
        // SAFETY: passed on.
        Some(cache) => unsafe { cache.put_other(block, from) },
        // SAFETY: passed on.
        None => unsafe { general().free_large_of_any(block) },
    }
}

/// A block of at least `bytes` zeroes; null, with ENOMEM, if there is no memory.
pub fn allocate_zeroed(bytes: usize) -> *mut u8 {
    if bytes <= class::LARGEST {
        let block = allocate(bytes);
        if !block.is_null() {
            // SAFETY: the block is ours.
            unsafe { block.write_bytes(0, bytes) };
        }
        return block;
    }
    let mut is_zero = false;
    let block = or_out_of_memory(bytes, enter() && bytes <= isize::MAX as usize, || {
        let run = allocate_pages(bytes, ALIGNMENT)?;
        is_zero = run.1;
        Some(run.0)
    });
    if !block.is_null() && !is_zero {
        // SAFETY: the block is ours.
        unsafe { block.write_bytes(0, bytes) };
    }
    block
}

/// A block of at least `bytes` at a multiple of `alignment`, a power of two; null, with ENOMEM, if there is no memory.
pub fn allocate_aligned(bytes: usize, alignment: usize) -> *mut u8 {
    if alignment <= ALIGNMENT {
        return allocate(bytes);
    }
    let small = if alignment <= PAGE { class::class_for_aligned(bytes, alignment) } else { None };
    if let Some(class) = small {
        let block = general().take(class::size(class));
        if !block.is_null() {
            return block;
        }
        return or_out_of_memory(bytes, enter(), || {
            let redirected = general().is_redirected(bytes) && group::current().is_none();
            let taken = if redirected { general().take_redirected(class) } else { None };
            taken.or_else(|| take_small(class, bytes, 0)).or_else(|| allocate_page_instead(bytes, alignment))
        });
    }
    or_out_of_memory(
        bytes,
        enter() && bytes.checked_add(alignment).is_some_and(|all| all <= isize::MAX as usize),
        || allocate_pages(bytes.max(1), alignment).map(|run| run.0),
    )
}

/// Bytes that the owner of a block may use; 0 for null.
///
/// # Safety
/// The block came from here, and is the caller's.
pub unsafe fn usable_bytes(block: *mut u8) -> usize {
    if block.is_null() || !root::is_installed() {
        return 0;
    }
    match general().cache_at(block) {
        Some(cache) => cache.usable_bytes(block),
        None => pages().0.large_pages(block).map_or(0, |pages| pages * PAGE),
    }
}

/// Ends the program if `bytes` cannot be what was asked for when `block` was allocated, or last reallocated: more than
/// it has, or so little that a reallocation would have moved it.
///
/// # Safety
/// The block came from here, and is the caller's, or is null.
pub unsafe fn check_size(block: *mut u8, bytes: usize, alignment: usize) {
    // SAFETY: passed on.
    let usable = unsafe { usable_bytes(block) };
    let may_be_rounded = alignment > ALIGNMENT || bytes <= ALIGNMENT || usable > class::LARGEST;
    let moved = bytes.saturating_mul(2) <= usable && !may_be_rounded;
    if !block.is_null() && usable > 0 && (bytes > usable || moved) {
        misuse::die(misuse::Found::Size { bytes, usable }, block);
    }
}

/// A block of at least `bytes` with the contents of `block`, which is given up; null, with ENOMEM, if there is no
/// memory, and then `block` stays as it is.
///
/// # Safety
/// The block came from here, and is the caller's to give up. It is not null.
pub unsafe fn reallocate(block: *mut u8, bytes: usize) -> *mut u8 {
    match general().class_at(block) {
        // SAFETY: passed on.
        0 => unsafe { reallocate_other(block, bytes) },
        // SAFETY: passed on.
        class => unsafe { reallocate_small(block, class::size(class), bytes) },
    }
}

unsafe fn reallocate_small(block: *mut u8, old: usize, bytes: usize) -> *mut u8 {
    if bytes <= old && bytes * 2 > old {
        return block;
    }
    // SAFETY: passed on.
    unsafe { move_to(allocate(bytes), block, old, bytes) }
}

/// A block of `bytes` in the group that another one is of, if it is one's.
fn allocate_beside(group: Option<&Core>, bytes: usize) -> *mut u8 {
    match group {
        Some(group) if bytes <= isize::MAX as usize => group.allocate(bytes, ALIGNMENT).unwrap_or_else(out_of_memory),
        _ => allocate(bytes),
    }
}

/// Moves what a block of `old` bytes holds to a new one of `bytes`, if there is a new one.
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

/// A block that is of no general class.
#[cold]
unsafe fn reallocate_other(block: *mut u8, bytes: usize) -> *mut u8 {
    if !enter() {
        misuse::die(misuse::Found::Foreign, block);
    }
    match general().cache_at(block) {
        // SAFETY: passed on.
        Some(cache) if cache.is_watched() => unsafe {
            let old = cache.usable_bytes(block);
            move_to(allocate(bytes), block, old, bytes)
        },
        Some(cache) if bytes <= cache.object_bytes() && bytes * 2 > cache.object_bytes() => block,
        Some(cache) => {
            let new = allocate_beside(Core::of_cache(cache), bytes);
            // At a limit, what shrinks stays where it is.
            let stays = new.is_null() && bytes <= cache.object_bytes();
            // SAFETY: passed on.
            if stays { block } else { unsafe { move_to(new, block, cache.object_bytes(), bytes) } }
        }
        // SAFETY: passed on.
        None => unsafe { reallocate_pages(block, bytes) },
    }
}

unsafe fn reallocate_pages(block: *mut u8, bytes: usize) -> *mut u8 {
    let found = pages().0.large_pages(block);
    let Some(old_pages) = found else { misuse::die(misuse::Found::Foreign, block) };
    let (zone, locks) = pages();
    let resize = |bytes: usize| {
        let pages = bytes.max(1).div_ceil(PAGE);
        // SAFETY: passed on; for both.
        let is_done = unsafe { Core::resize_large(block, pages, || zone.resize(locks, block, old_pages, pages)) };
        if is_done {
            count_large(0, pages as isize - old_pages as isize);
        }
        is_done
    };
    // SAFETY: passed on.
    let group = unsafe { Core::of_large(block) };
    if bytes > isize::MAX as usize {
        return out_of_memory();
    }
    if bytes > class::LARGEST && resize(bytes) {
        return block;
    }
    let mut is_zero = false;
    let new = match bytes {
        _ if group.is_some() => allocate_beside(group, bytes),
        0..=class::LARGEST => allocate(bytes),
        _ => or_out_of_memory(bytes, true, || {
            let run = allocate_pages(bytes, ALIGNMENT)?;
            is_zero = run.1;
            Some(run.0)
        }),
    };
    if new.is_null() {
        // As above: a large block may be as small as a page.
        let stays = bytes <= old_pages * PAGE && resize(bytes);
        return if stays { block } else { new };
    }
    let common = bytes.min(old_pages * PAGE);
    // Moving pages costs the ones at the other end: worth it where there are none yet, or where copying costs more.
    let move_above = if is_zero { MOVE_ABOVE } else { MOVE_ALWAYS_ABOVE };
    // SAFETY: both blocks are ours, and of whole pages if they are large; what is moved away is given up.
    unsafe {
        let whole = common / PAGE * PAGE;
        let moved = if common >= move_above && vm::move_pages(block, new, whole) { whole } else { 0 };
        new.add(moved).copy_from_nonoverlapping(block.add(moved), common - moved);
        free(block);
    }
    new
}

/// Gives memory that is free back to the kernel: arrays, depots, page lists, and all dirty pages of free runs beyond
/// `keep` bytes. Returns the number of bytes that went back, and at least 1 if anything that was cached became free.
pub fn trim(keep: usize) -> usize {
    if enter() { general().trim(keep) } else { 0 }
}

/// Null, with ENOMEM.
#[cold]
pub fn out_of_memory() -> *mut u8 {
    process::set_error(Error::OutOfMemory);
    null_mut()
}

/// Null, with EINVAL.
#[cold]
pub fn invalid() -> *mut u8 {
    process::set_error(Error::Invalid);
    null_mut()
}

/// Runs `work`, and leaves errno as it was.
pub fn keeping_errno<R>(work: impl FnOnce() -> R) -> R {
    process::keeping_errno(work)
}

/// The last words of a program in which the runtime itself failed.
pub fn panicked(info: &core::panic::PanicInfo) -> ! {
    use core::fmt::Write;
    let mut line = misuse::Line::new();
    let _ = writeln!(line, "commensal: a bug in the library itself: {info}");
    process::complain(line.as_bytes());
    process::die()
}
