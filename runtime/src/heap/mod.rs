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
pub mod limit;
pub mod locks;
mod moving;
pub mod names;
pub mod report;
pub mod statistics;

use crate::caches::{Heap, Special, enter, heap};
use crate::central::CacheRef;
use crate::central::size_class::{self, LARGEST, class_for_aligned};
use crate::cpu_cache::Server;
use crate::group;
use crate::misuse::{self, Call, Found};
pub use crate::page_heap::PAGE;
use crate::page_heap::limit::pages_for;
use crate::page_heap::memblock;
use crate::profile::{self, Caller};
use crate::upcalls::{From, Rest, Visit};
use crate::upkeep;
use core::ptr::null_mut;
pub use machine::process::{Error, keeping_errno, set_error};
use machine::{process, root};
pub use moving::reallocate;

/// Alignment of every block.
pub const ALIGNMENT: usize = 16;
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
#[unsafe(link_section = ".text.first")]
pub extern "C-unwind" fn allocate_slow(bytes: usize) -> *mut u8 {
    machine::with_caller!(allocate_slow_for(bytes, caller))
}

#[cold]
#[unsafe(link_section = ".text.first")]
extern "C-unwind" fn allocate_slow_for(bytes: usize, from: usize) -> *mut u8 {
    let taken = match bytes {
        _ if !root::is_installed() => memblock::allocate(bytes),
        0..=LARGEST => match heap().server_of(bytes) {
            Some(cache) => heap().cpu.swap(cache),
            None if heap().is_hardened() => take_hardened(bytes),
            None => take_at_hand(bytes, 1),
        },
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
        _ => match middle_class(bytes) {
            Some(class) => sample(class, bytes, ALIGNMENT, from)
                .or_else(|| heap().cpu.refill_middle(class))
                .or_else(|| allocate_pages(bytes, ALIGNMENT).map(|run| run.0)),
            None => allocate_run(bytes, ALIGNMENT, from).map(|run| run.0),
        },
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
        Some(cache) => sample(cache, bytes, ALIGNMENT, from).or_else(|| heap().cpu.refill(cache)),
        None => refill_other(bytes, 1, from),
    }
}

/// [`refill`] where another kind of cache may serve the class: that of the thread's group, if it is inside one.
#[cold]
fn refill_other(bytes: usize, alignment: usize, from: usize) -> Option<*mut u8> {
    match group::current() {
        Some(group) => group.allocate_small(class_for_aligned(bytes, alignment)?, bytes, alignment, from),
        None => {
            let cache = heap().cache_of(bytes, alignment);
            let sample = cache.and_then(|cache| sample(cache, bytes, alignment, from));
            sample.or_else(|| heap().refill(bytes, alignment, from))
        }
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

/// Pages in place of a small object: a signal handler may get no others. A group would refuse them, too. Under a limit
/// without room for a span, caches are drained first.
fn allocate_page_instead(bytes: usize, alignment: usize) -> Option<*mut u8> {
    let is_refused = heap().page_heap().limits.lacking(pages_for(bytes) as u64) > 0;
    if is_refused || group::current().is_some() {
        None
    } else {
        allocate_pages(bytes.max(1), alignment).map(|run| run.0)
    }
}

/// Calls `attempt`. If it fails and the thread is in no group, drains all caches and retries: a group has done so.
fn or_out_of_memory(bytes: usize, possible: bool, mut attempt: impl FnMut() -> Option<*mut u8>) -> *mut u8 {
    let got = possible.then(&mut attempt).flatten().or_else(|| {
        let may_help = possible && group::current().is_none();
        may_help.then(|| heap().cpu.flush_and_retry(bytes, attempt)).flatten()
    });
    if heap().page_heap().limits.is_due() {
        heap().cpu.serve_limits(Server::Allocating);
    }
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

/// A block for an allocation that the slot's magazines of a cache cannot serve, if it is sampled.
#[inline(always)]
fn sample(cache: CacheRef, bytes: usize, alignment: usize, from: usize) -> Option<*mut u8> {
    if profile::takes_samples() { sample_if_due(cache, bytes, alignment, from) } else { None }
}

#[cold]
#[inline(never)]
fn sample_if_due(cache: CacheRef, bytes: usize, alignment: usize, from: usize) -> Option<*mut u8> {
    profile::sample(cache, (bytes, alignment), Caller::at(from), || {
        allocate_pages(bytes.max(1), alignment).map(|run| run.0)
    })
}

/// The same as [`allocate_pages`] for a request that no gap has counted.
fn allocate_run(bytes: usize, alignment: usize, from: usize) -> Option<(*mut u8, bool)> {
    allocate_pages(bytes, alignment).inspect(|run| profile::draw(run.0, bytes, Caller::at(from)))
}

/// A large block, or null with ENOMEM, and whether it is known to be zero.
fn allocate_large(bytes: usize) -> (*mut u8, bool) {
    let mut is_zero = false;
    let block = or_out_of_memory(bytes, enter() && bytes <= isize::MAX as usize, || {
        let run = allocate_run(bytes, ALIGNMENT, 0)?;
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
#[unsafe(link_section = ".text.first")]
pub unsafe extern "C" fn free_slow(block: *mut u8) {
    machine::with_caller!(free_slow_for(block, caller))
}

#[cold]
#[unsafe(link_section = ".text.first")]
unsafe extern "C" fn free_slow_for(block: *mut u8, from: usize) {
    if block.is_null() {
        return;
    }
    if !root::is_installed() && memblock::holds(block) {
        return Heap::free_first(block);
    }
    if heap().is_hardened() && heap().free_hardened(block) {
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
    if !root::is_installed()
        && let Some(block) = memblock::allocate_zeroed(bytes)
    {
        return block;
    }
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
                Some(cache) => sample(cache, bytes, alignment, 0).or_else(|| heap().cpu.refill(cache)),
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
        || allocate_run(bytes.max(1), alignment, 0).map(|run| run.0),
    )
}

/// Bytes that the owner of a block may use; 0 for null. As fast as a free: servers ask at each allocation and free.
///
/// # Safety
/// The caller owns the block, which came from here.
pub unsafe fn usable_bytes(block: *mut u8) -> usize {
    match heap().class_at(block) {
        0 => usable_bytes_of_other(block),
        class => size_class::size(class),
    }
}

/// The same for a block of no size class, or none.
#[cold]
#[inline(never)]
fn usable_bytes_of_other(block: *mut u8) -> usize {
    match root::is_installed() {
        _ if block.is_null() => 0,
        true => heap().usable_bytes(block),
        false => memblock::bytes_of(block),
    }
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
            Special::First => bytes.saturating_mul(2) <= usable && usable > ALIGNMENT,
            Special::Hardened(..) | Special::Guarded(_) => bytes != usable,
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

/// Returns free memory to the kernel: from magazines, depots and page lists, and all dirty pages of free runs beyond
/// `keep` bytes. Returns the bytes that went back, and at least 1 if any cached memory became free.
pub fn trim(keep: usize) -> usize {
    if enter() { memblock::release() + heap().cpu.trim(keep) } else { 0 }
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
    profile::follow_tracer();
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

/// Sets `errno` to a number.
#[cold]
pub fn fail(number: i32) {
    process::set_error_number(number);
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
