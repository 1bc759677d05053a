//! The C functions of `commensal.h` for memory groups: names and errno for `commensal::group`.
//!
//! What `counter.rs` says of itself holds here too.
//!
//! Safety, for all of them: the pointer leads to a group that `cm_group_create` made and nobody destroyed; where a comment says who else may
//! use it, nobody else does.

use crate::cache::failed;
use commensal::group::{Core, Entry, Refused};
use commensal::heap::{self, Error};
use core::ffi::{CStr, c_char, c_int, c_void};

/// Memory that is charged, limited and released together. See cm_group_create.
pub struct Group {
    _core: Core,
}

/// A thread's stay in a group. It belongs to the library from cm_group_enter until cm_group_leave, and stays where it is; as a rule that is on
/// the stack.
#[repr(C)]
pub struct GroupEntry {
    /// Not to be touched.
    pub opaque: [*mut c_void; 2],
}

const _: () = assert!(size_of::<GroupEntry>() == size_of::<Entry>());

/// What is known of a group.
#[repr(C)]
pub struct GroupStats {
    /// Bytes that are charged: what the program holds of the group and of its children, and what arrays of slots hold of it.
    pub charged: u64,
    /// The most that they were, exact to one refill of an array.
    pub peak: u64,
    /// The limit; UINT64_MAX: none.
    pub limit: u64,
    /// Allocations that a limit refused, the group's own or one above.
    pub refused: u64,
    /// Times that threads are inside.
    pub inside: u32,
    /// Groups that have it for a parent.
    pub children: u32,
    /// Caches that were made, one for each size class that was needed.
    pub caches: u32,
    /// Blocks above 32 KiB that are in use.
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

/// Creates a group. The name, of letters, digits, and '-', '_', '.' and '/', is for people; it is cut after 23. What the group is charged, its parent
/// is charged, too, and the parent's limit holds for it; NULL: it has none. `limit` is in bytes; 0: there is none.
///
/// Takes less than a microsecond, and interrupts nobody; nor does what the group needs at its first allocations.
///
/// Returns the group; or NULL.
///
/// errno: ENOMEM if there is no memory; EINVAL if the name is none. Threads: any. Signal handlers: yes, but ENOMEM is likelier there. After
/// fork: yes.
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
        Err(Refused::Name) => heap::invalid().cast(),
    }
}

/// Destroys a group: everything that was allocated in it goes back at once, in time that depends on the memory, not on the number of blocks.
/// Interrupts nobody.
///
/// Returns 0; or -1, and nothing happened.
///
/// errno: EBUSY if threads are inside, or the group has children. Threads: nobody uses its memory any more, allocates in it by
/// cm_group_alloc, or is about to enter it. Signal handlers: no. After fork: yes; of the threads that were inside, the one that forked still is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_group_destroy(group: *mut Group) -> c_int {
    // SAFETY: passed on.
    match unsafe { Core::destroy(group.cast()) } {
        Ok(()) => 0,
        Err(_) => failed(Error::Busy),
    }
}

/// Enters a group: until it leaves, or enters another one, the thread allocates there, by malloc and its kin and by C++'s new. Leaving
/// returns to the group that it was in before. It may enter a group that it is in. Blocks may be freed by any thread, anywhere; realloc leaves a
/// group's block in its group.
///
/// From the first entry on, all threads of the process allocate by a way that takes a few nanoseconds longer, because it looks for their group.
/// cm_group_alloc does not.
///
/// Returns 0; or -1.
///
/// errno: EBUSY if somebody is destroying the group. Threads: any; one that ends inside leaves the group entered for ever. Signal handlers: yes, if they
/// leave before they return. After fork: yes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_group_enter(group: *mut Group, entry: *mut GroupEntry) -> c_int {
    // SAFETY: passed on.
    if unsafe { Entry::enter(entry.cast(), known(group)) } { 0 } else { failed(Error::Busy) }
}

/// Leaves the group that the thread entered by this entry. If it is not the one that it entered last, it stays in those that it entered later.
///
/// Returns 0; or -1.
///
/// errno: EINVAL if the thread did not enter by this entry, or has left by it. Threads: the one that entered. Signal handlers: yes. After fork: yes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_group_leave(entry: *mut GroupEntry) -> c_int {
    // SAFETY: passed on.
    match unsafe { Entry::leave(entry.cast()) } {
        Ok(()) => 0,
        Err(_) => failed(Error::Invalid),
    }
}

/// A block of at least `size` bytes in a group, whichever the thread is inside of, as malloc gives it; free and realloc take it.
///
/// Returns the block; or NULL.
///
/// errno: ENOMEM if there is no memory, or no room within the limits. Threads: any. Signal handlers: yes. After fork: yes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_group_alloc(group: *mut Group, size: usize) -> *mut c_void {
    // SAFETY: passed on.
    given(unsafe { known(group) }.allocate(size, heap::ALIGNMENT))
}

/// The same at a multiple of `alignment`, a power of two.
///
/// Returns the block; or NULL.
///
/// errno: as for cm_group_alloc; EINVAL if the alignment is no power of two. Threads: any. Signal handlers: yes. After fork: yes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_group_aligned_alloc(group: *mut Group, alignment: usize, size: usize) -> *mut c_void {
    if !alignment.is_power_of_two() {
        return heap::invalid().cast();
    }
    // SAFETY: passed on.
    given(unsafe { known(group) }.allocate(size, alignment))
}

/// Sets the limit, in bytes; 0: none. What is charged already stays, also beyond it; then nothing more is, until enough came back.
///
/// errno: kept. Threads: any. Signal handlers: yes. After fork: yes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_group_set_limit(group: *mut Group, limit: u64) {
    // SAFETY: passed on.
    unsafe { known(group) }.account().set_limit(limit_of(limit));
}

/// What is known of a group: exact at rest. Takes time in proportion to the number of slots.
///
/// errno: kept. Threads: any. Signal handlers: yes. After fork: yes.
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

/// The group that the thread is inside of, the one that it entered last; NULL if it is in none.
///
/// errno: kept. Threads: any. Signal handlers: yes. After fork: yes.
#[unsafe(no_mangle)]
pub extern "C" fn cm_group_current() -> *mut Group {
    commensal::group::innermost().cast_mut().cast()
}
