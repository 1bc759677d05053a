//! The C functions of `commensal.h` for memory groups: names and errno for `commensal_runtime::group`.
//!
//! Safety, for all of them: the pointer leads to a group that `cm_group_create` made and that is not destroyed. Callers
//! fulfil the conditions of a comment's line "Threads".

use crate::cache::failed;
use commensal_runtime::group::{Core, Entry, Refused};
use commensal_runtime::heap::{self, Error};
use core::ffi::{CStr, c_char, c_int, c_void};

/// Memory that is charged, limited and freed together. See cm_group_create.
pub struct Group {
    _core: Core,
}

/// A thread's stay in a group. The library uses it, where it is, from cm_group_enter until cm_group_leave. Usually it
/// is a local variable.
#[repr(C)]
pub struct GroupEntry {
    /// Private.
    pub opaque: [*mut c_void; 2],
}

const _: () = assert!(size_of::<GroupEntry>() == size_of::<Entry>());

/// Statistics of a group.
#[repr(C)]
pub struct GroupStats {
    /// Bytes charged: blocks in use, of the group and its children, and what magazines of slots hold for them.
    pub charged: u64,
    /// The most bytes charged at once, exact to one refill of a magazine.
    pub peak: u64,
    /// The limit in bytes. UINT64_MAX: none.
    pub limit: u64,
    /// Allocations refused by the limit of the group or of a parent.
    pub refused: u64,
    /// Entries that threads have not left.
    pub inside: u32,
    /// Groups that have this group as their parent.
    pub children: u32,
    /// Caches made, one for each size class used.
    pub caches: u32,
    /// Blocks above 32 KiB in use.
    pub large_blocks: u32,
}

unsafe fn known<'a>(group: *mut Group) -> &'a Core {
    // SAFETY: see the module.
    unsafe { &*group.cast() }
}

/// A limit of 0 is none.
fn limit_of(bytes: u64) -> Option<u64> {
    (bytes > 0).then_some(bytes)
}

/// A block, or NULL with ENOMEM.
fn given(block: Option<*mut u8>) -> *mut c_void {
    block.unwrap_or_else(heap::out_of_memory).cast()
}

/// Creates a group. All that is charged to the group is charged to `parent` too, whose limit also holds; NULL: no
/// parent. `limit` is in bytes; 0: no limit. Reports show the name: letters, digits, '-', '_', '.' and '/', cut after
/// 23.
///
/// Returns the group, or NULL. Takes less than a microsecond. Interrupts no CPU, nor do the group's first allocations.
///
/// errno: ENOMEM if there is no memory; EINVAL if the name is refused. Signal handlers: yes, but ENOMEM is more likely
/// there.
/// cbindgen:postfix=CM_NOTHROW CM_NONNULL_AT(1) CM_CHECKED
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_group_create(name: *const c_char, parent: *mut Group, limit: u64) -> *mut Group {
    // SAFETY: passed on: the name is a string, or NULL, and the parent a group, or NULL.
    let (name, parent) = unsafe {
        let name = if name.is_null() { b"" } else { CStr::from_ptr(name).to_bytes() };
        (name, (!parent.is_null()).then(|| known(parent)))
    };
    match Core::create(name, parent) {
        Ok(group) => {
            // SAFETY: the group was just created.
            unsafe { (*group).account().set_limit(limit_of(limit)) };
            group.cast()
        }
        Err(Refused::NoMemory) => heap::out_of_memory().cast(),
        Err(_) => heap::invalid().cast(),
    }
}

/// Destroys a group and frees all that was allocated in it at once. Interrupts no CPU.
///
/// Returns 0, or -1 with the group unchanged.
///
/// errno: EBUSY if threads are inside, or the group has children. Time: proportional to the memory, not to the number
/// of blocks. Threads: while no thread uses the group's memory, allocates in it by cm_group_alloc, or is about to enter
/// it. Signal handlers: no. After fork: yes; of the threads that were inside, the one that forked still is.
/// cbindgen:postfix=CM_NOTHROW CM_NONNULL
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_group_destroy(group: *mut Group) -> c_int {
    // SAFETY: passed on.
    match unsafe { Core::destroy(group.cast()) } {
        Ok(()) => 0,
        Err(_) => failed(Error::Busy),
    }
}

/// Enters a group: until it leaves or enters another group, the calling thread allocates there by malloc and its kin
/// and by C++'s new. A thread may enter a group several times. Any thread may free the blocks anywhere. realloc leaves
/// a block in its group. `entry` need not be initialised.
///
/// After the first entry, all threads of the process allocate some nanoseconds more slowly, because malloc looks up the
/// thread's group. cm_group_alloc does not.
///
/// Returns 0, or -1. A thread that ends inside leaves the group entered for ever.
///
/// errno: EBUSY if another thread is destroying the group. Signal handlers: yes, if they leave before they return.
/// cbindgen:postfix=CM_NOTHROW CM_NONNULL CM_CHECKED
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_group_enter(group: *mut Group, entry: *mut GroupEntry) -> c_int {
    // SAFETY: passed on.
    if unsafe { Entry::enter(entry.cast(), known(group)) } { 0 } else { failed(Error::Busy) }
}

/// Leaves the group that the thread entered with `entry`. If it has entered other groups since, it stays in those.
///
/// Returns 0, or -1.
///
/// errno: EINVAL if the thread did not enter with `entry`, or has left. Threads: the one that entered.
/// cbindgen:postfix=CM_NOTHROW CM_NONNULL
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_group_leave(entry: *mut GroupEntry) -> c_int {
    // SAFETY: passed on.
    match unsafe { Entry::leave(entry.cast()) } {
        Ok(()) => 0,
        Err(_) => failed(Error::Invalid),
    }
}

/// Allocates at least `size` bytes in a group, even if the thread is inside another one. free and realloc take the
/// block.
///
/// Returns the block, aligned as malloc's, or NULL.
///
/// errno: ENOMEM if there is no memory, or no room within the limits.
/// cbindgen:postfix=CM_NOTHROW CM_NONNULL CM_CHECKED CM_MALLOC CM_ALLOC_SIZE(2)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_group_alloc(group: *mut Group, size: usize) -> *mut c_void {
    // SAFETY: passed on.
    given(unsafe { known(group) }.allocate(size, heap::ALIGNMENT))
}

/// Allocates like cm_group_alloc, at a multiple of `alignment`, a power of two.
///
/// errno: ENOMEM as for cm_group_alloc; EINVAL if `alignment` is not a power of two.
/// cbindgen:postfix=CM_NOTHROW CM_NONNULL CM_CHECKED CM_MALLOC CM_ALLOC_ALIGN(2) CM_ALLOC_SIZE(3)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_group_aligned_alloc(group: *mut Group, alignment: usize, size: usize) -> *mut c_void {
    if !alignment.is_power_of_two() {
        return heap::invalid().cast();
    }
    // SAFETY: passed on.
    given(unsafe { known(group) }.allocate(size, alignment))
}

/// Sets the limit to `limit` bytes; 0: no limit. Earlier charges stay, even beyond it. Then allocations fail until
/// enough has been freed.
/// cbindgen:postfix=CM_NOTHROW CM_NONNULL
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_group_set_limit(group: *mut Group, limit: u64) {
    // SAFETY: passed on.
    unsafe { known(group) }.account().set_limit(limit_of(limit));
}

/// Reads the statistics of a group into `stats`: exact at rest.
///
/// Time: proportional to the number of slots.
/// cbindgen:postfix=CM_NOTHROW CM_NONNULL
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_group_stats_read(group: *mut Group, stats: *mut GroupStats) {
    // SAFETY: passed on: there is room for them.
    unsafe {
        let known = known(group).statistics();
        stats.write(GroupStats {
            charged: known.charged,
            peak: known.peak,
            limit: known.limit,
            refused: known.refused,
            inside: known.inside,
            children: known.children,
            caches: known.caches,
            large_blocks: known.large_blocks,
        });
    }
}

/// Returns the group that the thread entered last and has not left, or NULL.
#[unsafe(no_mangle)]
pub extern "C" fn cm_group_current() -> *mut Group {
    commensal_runtime::group::innermost().cast_mut().cast()
}
