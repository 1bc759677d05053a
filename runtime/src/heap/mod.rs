//! The heap: the semantics of malloc. Sizes, alignment, moving, zeroing, fork.
//!
//! Requests up to 32 KiB are objects of size classes, and those up to 4 MiB where many are in use. Larger ones are runs
//! of pages of the page heap, and above 64 MiB mappings of their own. The functions with `#[inline(always)]` are the
//! fast paths. In an upgraded process [`allocate`] and [`free`] are at most 22 instructions each, without a call
//! (`xtask golden` counts them in the library). All other code is cold and outlined.
//!
//! The heap begins in solo mode, without a thread, a hook or a registration. Before the second thread is created,
//! [`upgrade_if_shared`](crate::caches::upgrade_if_shared) prepares for forks and kicks, once.

#[doc(hidden)]
pub mod check;
pub mod conf;
mod console;
pub mod control;
pub mod locks;
pub mod report;
pub mod statistics;

use crate::caches::{Special, enter, heap};
use crate::central::CacheRef;
use crate::central::size_class::{self, LARGEST, class_for_aligned};
use crate::group::{self, Core};
use crate::misuse::{self, Call, Found};
pub use crate::page_heap::PAGE;
use crate::upcalls::{From, Rest, Visit};
use crate::upkeep;
use core::ptr::null_mut;
pub use machine::process::{Error, keeping_errno, set_error};
use machine::{process, root, vm};

/// Alignment of every block.
pub const ALIGNMENT: usize = 16;
/// The kernel moves large blocks of at least this many bytes to memory without pages; smaller ones are copied.
const MOVE_ABOVE: usize = 1 << 20;
/// The kernel moves blocks of at least this many bytes in any case.
const MOVE_ALWAYS_ABOVE: usize = 32 << 20;

/// A block of at least `bytes`; null, with ENOMEM, if there is no memory.
#[inline(always)]
pub fn allocate(bytes: usize) -> *mut u8 {
    if bytes <= LARGEST {
        let object = heap().take(bytes);
        if !object.is_null() {
            return object;
        }
    }
    allocate_slow(bytes)
}

/// Frees a block; ignores null.
///
/// # Safety
/// The caller owns the block, which came from here.
#[inline(always)]
pub unsafe fn free(block: *mut u8) {
    // SAFETY: passed on.
    if !unsafe { heap().put(block) } {
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
            $(label: $label,)? limit: $crate::central::size_class::LARGEST,
            table: $crate::caches::Heap::CLASS_TABLE, slow: $slow
        )
    };
}

/// [`free`] in the same way. With a size as second argument, and if `$symbol`, for which it stands, is this library's,
/// it frees only if the size is one of the block's class. Otherwise it is `$other(block, bytes)`.
#[macro_export]
macro_rules! free_to_heap {
    ($(label: $label:expr)?) => {
        $crate::machine::put_body!(
            $(label: $label,)? map: $crate::layout::AREAS_END, mask: $crate::caches::Heap::MAP_MASK,
            slow: $crate::heap::free_slow
        )
    };
    (label: $label:expr, sized: $symbol:literal, other: $other:path) => {
        $crate::machine::put_body!(
            label: $label, map: $crate::layout::AREAS_END, mask: $crate::caches::Heap::MAP_MASK,
            sized: $symbol $crate::central::size_class::BOUNDS, other: $other, slow: $crate::heap::free_slow
        )
    };
}

/// The slow path of [`allocate`]: the slot's magazine has no object.
#[unsafe(naked)]
pub extern "C-unwind" fn allocate_slow(bytes: usize) -> *mut u8 {
    machine::with_caller!(allocate_slow_for(bytes, caller))
}

#[cold]
extern "C-unwind" fn allocate_slow_for(bytes: usize, from: usize) -> *mut u8 {
    let taken = match bytes {
        0..=LARGEST if root::is_installed() => match heap().server_of(bytes) {
            Some(cache) => heap().cpu.swap(cache),
            None if heap().is_hardened() => take_hardened(bytes),
            None => take_at_hand(bytes, 1),
        },
        0..=LARGEST => None,
        _ => middle_class(bytes).and_then(|class| heap().cpu.take(class).or_else(|| heap().cpu.swap(class))),
    };
    taken.unwrap_or_else(|| allocate_slower(bytes, from))
}

/// The rest of [`allocate_slow`], separate because it needs more registers.
#[cold]
#[inline(never)]
extern "C-unwind" fn allocate_slower(bytes: usize, from: usize) -> *mut u8 {
    or_out_of_memory(bytes, enter() && bytes <= isize::MAX as usize, || match bytes {
        0..=LARGEST => refill(bytes, from).or_else(|| allocate_page_instead(bytes, ALIGNMENT)),
        _ => middle_class(bytes)
            .and_then(|class| heap().cpu.refill_middle(class))
            .or_else(|| allocate_pages(bytes, ALIGNMENT).map(|run| run.0)),
    })
}

/// The middle class that serves a request above [`LARGEST`], for threads in no group.
#[inline]
fn middle_class(bytes: usize) -> Option<CacheRef> {
    let class = heap().middle_class(bytes)?;
    (!heap().has_groups() || group::current().is_none()).then_some(class)
}

fn refill(bytes: usize, from: usize) -> Option<*mut u8> {
    match heap().server_of(bytes) {
        Some(cache) => heap().cpu.refill(cache),
        None => refill_other(bytes, 1, from),
    }
}

/// [`refill`] where another kind of cache may serve the class: that of the thread's group, if it is inside one.
#[cold]
fn refill_other(bytes: usize, alignment: usize, from: usize) -> Option<*mut u8> {
    match group::current() {
        Some(group) => group.allocate_small(class_for_aligned(bytes, alignment)?),
        None => heap().refill(bytes, alignment, from),
    }
}

/// Takes an object from the magazines, except of a group, for a class whose fast path is disabled. Not inlined, because
/// each exchange of magazines would save its registers.
#[cold]
#[inline(never)]
fn take_at_hand(bytes: usize, alignment: usize) -> Option<*mut u8> {
    if group::current().is_some() { None } else { heap().take_at_hand(bytes, alignment) }
}

/// The same of a hardened heap.
#[inline(never)]
fn take_hardened(bytes: usize) -> Option<*mut u8> {
    if group::current().is_some() { None } else { heap().take_hardened_at_hand(bytes) }
}

/// Pages in place of a small object: a signal handler may get no others. A group would refuse them, too.
fn allocate_page_instead(bytes: usize, alignment: usize) -> Option<*mut u8> {
    if group::current().is_some() { None } else { allocate_pages(bytes.max(1), alignment).map(|run| run.0) }
}

/// Calls `attempt`. If it fails and the thread is in no group, drains all caches and retries: a group has done so.
fn or_out_of_memory(bytes: usize, possible: bool, mut attempt: impl FnMut() -> Option<*mut u8>) -> *mut u8 {
    let got = possible.then(&mut attempt).flatten().or_else(|| {
        let may_help = possible && group::current().is_none();
        may_help.then(|| heap().cpu.flush_and_retry(bytes, attempt)).flatten()
    });
    got.unwrap_or_else(out_of_memory)
}

/// A run of pages, and whether it is known to be zero.
fn allocate_pages(bytes: usize, alignment: usize) -> Option<(*mut u8, bool)> {
    if let Some(group) = group::current() {
        return group.allocate_large(bytes, alignment).map(|run| (run.start, run.is_zero));
    }
    let (pages, alignment) = (bytes.div_ceil(PAGE), alignment.div_ceil(PAGE));
    heap().cpu.visit_own(From::Allocation);
    heap().cpu.drain_before_growth(pages, alignment);
    let page_heap = heap().page_heap();
    let guarded = if heap().is_hardened() { page_heap.allocate_block(pages, alignment) } else { None };
    let run = guarded.or_else(|| page_heap.allocate(pages, alignment))?;
    heap().seal_large(run.start, bytes);
    heap().count_large(1, pages as isize);
    heap().note_middle(bytes);
    Some((run.start, run.is_zero))
}

/// A large block, or null with ENOMEM, and whether it is known to be zero.
fn allocate_large(bytes: usize) -> (*mut u8, bool) {
    let mut is_zero = false;
    let block = or_out_of_memory(bytes, enter() && bytes <= isize::MAX as usize, || {
        let run = allocate_pages(bytes, ALIGNMENT)?;
        is_zero = run.1;
        Some(run.0)
    });
    (block, is_zero)
}

/// The slow path of [`free`]: the slot's magazine has no room.
///
/// # Safety
/// As for [`free`].
#[unsafe(naked)]
pub unsafe extern "C" fn free_slow(block: *mut u8) {
    machine::with_caller!(free_slow_for(block, caller))
}

#[cold]
unsafe extern "C" fn free_slow_for(block: *mut u8, from: usize) {
    if block.is_null() || (heap().is_hardened() && heap().free_hardened(block)) {
        return;
    }
    if !enter() {
        return misuse::report(Found::Foreign, Call::Free, block);
    }
    match heap().class_at(block) {
        // SAFETY: passed on.
        0 => unsafe { heap().free_special(block, from) },
        // SAFETY: passed on.
        class => unsafe { heap().cpu.overflow(heap().class(class), block) },
    }
}

/// A block of at least `bytes` zeroes; null, with ENOMEM, if there is no memory.
pub fn allocate_zeroed(bytes: usize) -> *mut u8 {
    let (block, is_zero) = match bytes {
        0..=LARGEST => (allocate(bytes), false),
        _ => allocate_large(bytes),
    };
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
    let small = if alignment <= PAGE { class_for_aligned(bytes, alignment) } else { None };
    if let Some(class) = small {
        let block = heap().take(size_class::size(class));
        if !block.is_null() {
            return block;
        }
        return or_out_of_memory(bytes, enter(), || {
            let object = match heap().server_of(size_class::size(class)) {
                Some(cache) => heap().cpu.refill(cache),
                None => take_at_hand(bytes, alignment).or_else(|| refill_other(bytes, alignment, 0)),
            };
            object.or_else(|| allocate_page_instead(bytes, alignment))
        });
    }
    if alignment <= PAGE && bytes > LARGEST && middle_class(bytes).is_some() {
        return allocate_slow(bytes);
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
/// The caller owns the block, which came from here.
pub unsafe fn usable_bytes(block: *mut u8) -> usize {
    if block.is_null() || !root::is_installed() {
        return 0;
    }
    heap().usable_bytes(block)
}

/// Whether `bytes` may have been requested for the block, with this alignment. If not, reports that. The block then has
/// less, or so much more that a reallocation would have moved it.
///
/// # Safety
/// The caller owns the block, which came from here, or it is null.
pub unsafe fn check_size(block: *mut u8, bytes: usize, alignment: usize) -> bool {
    // SAFETY: passed on.
    let usable = unsafe { usable_bytes(block) };
    // Null, or no block: its free says so.
    if usable == 0 {
        return true;
    }
    let moved = match heap().class_at(block) {
        // Of objects of other caches, the program may have chosen the size. Large blocks are whole pages.
        0 => match heap().special_at(block) {
            Special::Hardened(..) => bytes != usable,
            Special::Object(_) => false,
            Special::Watched(..) => bytes.saturating_mul(2) <= usable && usable > ALIGNMENT,
            Special::Large => bytes.saturating_mul(2).saturating_add(PAGE) < usable,
        },
        _ => bytes.saturating_mul(2) <= usable && usable > ALIGNMENT,
    };
    let is_wrong = bytes > usable || (moved && alignment <= ALIGNMENT);
    if is_wrong {
        misuse::report(Found::Size { bytes, usable }, Call::Free, block);
    }
    !is_wrong
}

/// A block of at least `bytes` with the contents of `block`, which is freed. Null, with ENOMEM: `block` is unchanged.
///
/// # Safety
/// The caller owns the block, which came from here and is not null. Null, with EINVAL, after a report of misuse.
pub unsafe fn reallocate(block: *mut u8, bytes: usize) -> *mut u8 {
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
    if !enter() {
        return refuse_to_move(Found::Foreign, block);
    }
    // SAFETY: passed on.
    unsafe {
        match heap().special_at(block) {
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

/// Returns free memory to the kernel: from magazines, depots and page lists, and all dirty pages of free runs beyond
/// `keep` bytes. Returns the bytes that went back, and at least 1 if any cached memory became free.
pub fn trim(keep: usize) -> usize {
    if enter() { heap().cpu.trim(keep) } else { 0 }
}

/// Looks at objects that were freed in a hurry, as the program ends and nothing else will find a misuse.
pub fn examine_at_exit() {
    if root::is_installed() && enter() {
        heap().cpu.examine_own();
        heap().check_hardened();
    }
}

/// The hook of the slow paths: does what is due; see [`crate::upcalls::Upcalls`].
pub(crate) fn maintain(visit: Visit) {
    control::poll();
    if visit.upkeep_is_due {
        upkeep::maintain(visit.slot, visit.from);
    }
    if visit.time.is_some_and(|time| heap().cpu.hook.statistics_at.is_due(time)) {
        statistics::write_due(Rest::No);
    }
}

/// Sets ENOMEM, and returns null.
#[cold]
pub fn out_of_memory() -> *mut u8 {
    process::set_error(Error::OutOfMemory);
    null_mut()
}

/// Sets EINVAL, and returns null.
#[cold]
pub fn invalid() -> *mut u8 {
    process::set_error(Error::Invalid);
    null_mut()
}

/// Reports a panic of the runtime itself, and aborts.
pub fn panicked(info: &core::panic::PanicInfo) -> ! {
    use core::fmt::Write;
    let mut line = misuse::Line::new();
    let _ = writeln!(line, "commensal: a bug in the library itself: {info}");
    process::complain(line.as_bytes());
    process::die()
}
